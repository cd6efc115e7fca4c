"""export: the same model for another library, compared before it appears."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

import bertworks
from bertworks.core.artifact import Origin, open_artifact
from bertworks.interop.sentence_transformers import write_recipe
from bertworks.model.config import EncoderConfig
from bertworks.model.embedding import DenseLayer, EmbeddingRecipe
from bertworks.serving import model_folder
from bertworks.serving.model_folder import open_model, save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

TEXTS = ["River boat fish.", "engine", "", "wheel motor road " * 30]
PLAIN = {"config.json", "model.safetensors", "manifest.json"}
VECTORS = {
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
}


@pytest.fixture
def described(tmp_path: Path, pretrained: Path) -> Path:
    """Make a folder of sentence-transformers with all that a recipe can say."""
    opened = open_model(pretrained, tasks=[])
    random = torch.Generator().manual_seed(3)
    recipe = EmbeddingRecipe(
        pooling="first",
        normalize=False,
        max_length=9,
        layers=(DenseLayer(torch.randn(5, 64, generator=random), None, "tanh"),),
        prompts={"query": "boat: ", "document": ""},
        default_prompt="query",
        similarity="dot",
    )
    folder = tmp_path / "described"
    save_model(folder, opened.model, opened.tokenizer, origin=Origin(), recipe=recipe)
    return folder


def test_a_plain_folder_has_the_ecosystems_files_and_the_same_answers(
    tmp_path: Path, classifier: Path, command, contents
) -> None:
    out = tmp_path / "out"
    ended = command("export", "--model", classifier, "--to", "hugging-face", "--out", out, "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["model"] == str(out)
    assert 0 <= result["largest_difference"] <= 1e-5
    names = contents(out).keys()
    assert names >= PLAIN | {"tokenizer.json"}
    assert not names & (VECTORS | {"bertworks.json"})
    open_artifact(out, "model")
    before, after = bertworks.load(classifier), bertworks.load(out)
    assert after.task.labels == before.task.labels
    rows = [text for text in TEXTS if text]
    for first, second in zip(before.predict(rows), after.predict(rows), strict=True):
        assert first["probabilities"] == pytest.approx(second["probabilities"], abs=1e-6)


ALL = {  # kind -> labels and options, and an input
    "classify": ({"labels": ("a", "b", "c"), "temperature": 3.0}, "river boat"),
    "match": ({"labels": ("no", "yes"), "temperature": 0.4}, ("river", "a boat")),
    "multilabel": (
        {"labels": ("a", "b"), "temperature": 2.0, "prior": [0.3, -1.0], "threshold": 0.4},
        "river boat",
    ),
    "score": ({"mean": 2.5, "deviation": 1.7}, "river boat"),
    "tag": ({"labels": ("O", "B-X", "I-X")}, "river boat"),
    "answer": ({}, {"question": "river?", "passage": "The boat is on the river."}),
    "choose": ({"temperature": 2.0}, {"question": "river", "choices": ["boat", "engine"]}),
}


@pytest.fixture
def of_kind(tmp_path: Path, pretrained: Path) -> Callable[[str], Path]:
    """Make a folder of a model of a kind, all of whose numbers are unusual."""

    def make(kind: str) -> Path:
        opened = open_model(pretrained, tasks=[make_task(kind, **ALL[kind][0])])
        save_model(tmp_path / kind, opened.model, opened.tokenizer, origin=Origin())
        return tmp_path / kind

    return make


@pytest.mark.parametrize("kind", ALL)
def test_a_plain_folder_answers_with_the_same_chances(
    tmp_path: Path, kind: str, of_kind, command
) -> None:
    model, out = of_kind(kind), tmp_path / "out"
    ended = command("export", "--model", model, "--to", "hugging-face", "--out", out)
    assert ended.code == 0, ended.err
    before, after = (numbers(bertworks.load(side).predict([ALL[kind][1]])) for side in (model, out))
    assert before
    assert before == pytest.approx(after, abs=1e-5)
    assert ("left behind: the threshold of multilabel, 0.4;" in ended.err) is (kind == "multilabel")


def numbers(answers: object) -> list[float]:
    """Return all numbers of answers, in their order."""
    if isinstance(answers, dict):
        return numbers(list(answers.values()))
    if isinstance(answers, list | tuple):
        return [number for each in answers for number in numbers(each)]
    return [answers] if isinstance(answers, float) else []


@pytest.mark.parametrize("pooling", ["first", "max"])
def test_a_model_of_vectors_becomes_a_plain_one(
    tmp_path: Path, pretrained: Path, pooling: str, command, contents
) -> None:
    opened = open_model(pretrained, tasks=[make_task("embed", pooling=pooling)])
    save_model(tmp_path / "model", opened.model, opened.tokenizer, origin=Origin())
    out = tmp_path / "out"
    words = ["--model", tmp_path / "model", "--to", "hugging-face", "--out", out]
    ended = command("export", *words)
    assert ended.code == 0, ended.err
    assert "left behind: embed" in ended.err
    assert not contents(out).keys() & VECTORS
    expected = bertworks.load(tmp_path / "model").embed(TEXTS)
    found = bertworks.load(out).embed(
        TEXTS, pooling=pooling, max_length=opened.model.config.max_positions
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
@pytest.mark.parametrize("normalize", [True, False])
def test_a_folder_for_vectors_makes_those_that_were_asked_for(
    tmp_path: Path, pretrained: Path, pooling: str, normalize: bool, command, contents
) -> None:
    out, switch = tmp_path / "out", "--normalize" if normalize else "--no-normalize"
    words = ["--model", pretrained, "--out", out, "--pooling", pooling, switch, "--max-length", 11]
    ended = command("export", *words, "--to", "sentence-transformers", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["largest_difference"] <= 1e-5
    assert contents(out).keys() >= PLAIN | VECTORS
    expected = bertworks.load(pretrained).embed(
        TEXTS, pooling=pooling, normalize=normalize, max_length=11
    )
    model = bertworks.load(out)
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-5)
    assert list(model.model.tasks) == ["embed"]  # it answers pairs by their cosine


def test_by_default_vectors_are_means_of_all_that_the_network_reads(
    tmp_path: Path, matcher: Path, command
) -> None:
    out = tmp_path / "out"
    words = ["--model", matcher, "--to", "sentence-transformers", "--out", out]
    assert command("export", *words).code == 0
    model = bertworks.load(out)
    assert model.recipe == EmbeddingRecipe(max_length=model.longest)


def test_prompts_are_added_by_name(tmp_path: Path, pretrained: Path, command) -> None:
    out = tmp_path / "out"
    words = ["--model", pretrained, "--to", "sentence-transformers", "--out", out]
    prompts = ["--prompt", "query=boat: ", "document=", "--prompt", "other=a = b "]
    ended = command("export", *words, *prompts)
    assert ended.code == 0, ended.err
    model = bertworks.load(out)
    assert model.recipe.prompts == {"query": "boat: ", "document": "", "other": "a = b "}
    by_name = model.embed(["fish"], prompt="query")
    np.testing.assert_array_equal(by_name, model.embed(["boat: fish"]))


def test_a_described_model_keeps_its_description(tmp_path: Path, described: Path, command) -> None:
    out = tmp_path / "out"
    words = ["--model", described, "--to", "sentence-transformers", "--out", out]
    assert command("export", *words, "--prompt", "query=fish: ").code == 0
    before, after = bertworks.load(described), bertworks.load(out)
    np.testing.assert_allclose(after.embed(TEXTS, prompt="boat: "), before.embed(TEXTS), atol=1e-5)
    assert after.embed(TEXTS).shape == (4, 5)
    changed = before.recipe.changed(prompts={"query": "fish: ", "document": ""})
    assert after.recipe.changed(layers=()) == changed.changed(layers=())


def test_a_described_model_becomes_a_plain_one(
    tmp_path: Path, described: Path, command, contents
) -> None:
    out = tmp_path / "out"
    assert command("export", "--model", described, "--to", "hugging-face", "--out", out).code == 0
    assert not contents(out).keys() & VECTORS
    assert bertworks.load(out).recipe == EmbeddingRecipe()


def test_the_command_in_the_manifest_makes_the_same_folder(
    tmp_path: Path, pretrained: Path, command, run_again, contents
) -> None:
    out = tmp_path / "out"
    words = ["--model", pretrained, "--to", "sentence-transformers", "--out", out]
    assert command("export", *words, "--no-normalize", "--prompt", "query=boat: ").code == 0
    first, second = contents(out), contents(run_again(out, tmp_path / "again"))
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} == {"manifest.json"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--pooling", "max"], "--pooling says how texts become vectors"),
        (["--no-normalize"], "--normalize says how"),
        (["--max-length", "9"], "--max-length says how"),
        (["--prompt", "a=b"], "--prompt says how"),
    ],
)
def test_a_plain_folder_takes_no_words_about_vectors(
    tmp_path: Path, pretrained: Path, words: list[str], found: str, command
) -> None:
    out = tmp_path / "out"
    ended = command("export", "--model", pretrained, "--to", "hugging-face", "--out", out, *words)
    sentence = ended.refusal(2)
    assert found in sentence
    assert "use --to sentence-transformers" in sentence
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--max-length", "33"], "--max-length is 33, but the network reads 32 pieces"),
        (["--prompt", "query"], "--prompt takes NAME=TEXT; got 'query'"),
        (["--prompt", "=text"], "--prompt takes NAME=TEXT; got '=text'"),
        (["--pooling", "cls"], "pooling is 'cls', but it must be mean or first or max"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    tmp_path: Path, pretrained: Path, words: list[str], found: str, command
) -> None:
    out = tmp_path / "out"
    flags = ["--model", pretrained, "--to", "sentence-transformers", "--out", out]
    assert found in command("export", *flags, *words).refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, pretrained: Path, command) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    words = ["--model", pretrained, "--to", "hugging-face", "--out", tmp_path]
    assert "exists already" in command("export", *words).refusal(2)
    gone = ["--model", tmp_path / "gone", "--to", "hugging-face", "--out", tmp_path / "out"]
    assert "no model folder" in command("export", *gone).refusal(1)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


@pytest.fixture
def save_other(tmp_path: Path, pretrained: Path):
    """Save a fresh model of another shape or for other tasks, with a known tokenizer."""

    def saved(*names: str, **changes) -> Path:
        tokenizer = open_model(pretrained).tokenizer
        config = EncoderConfig(
            vocab_size=tokenizer.vocab_size,
            hidden_size=21,
            num_layers=2,
            num_heads=3,
            feed_forward_size=37,
            max_positions=32,
            **changes,
        )
        tasks = [make_task(name, ("no", "yes")) for name in names]
        save_model(tmp_path / "other", TaskModel(config, tasks), tokenizer, origin=Origin())
        return tmp_path / "other"

    return saved


@pytest.mark.parametrize("to", ["hugging-face", "sentence-transformers"])
def test_a_network_that_no_one_else_knows_is_not_exported(
    tmp_path: Path, save_other, to: str, command
) -> None:
    out = tmp_path / "out"
    model = save_other("fill_mask", mixer="mean")
    sentence = command("export", "--model", model, "--to", to, "--out", out).refusal(1)
    assert "no other library knows this network: the words of bert do not say all of" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("names", [("fill_mask", "classify"), ("relate",)])
def test_tasks_that_no_class_has_are_not_exported(
    tmp_path: Path, save_other, command, names: tuple[str, ...]
) -> None:
    model = save_other(*names)
    words = ["--model", model, "--to", "hugging-face", "--out", tmp_path / "out"]
    sentence = command("export", *words).refusal(1)
    assert f"no class of the family bert has the tasks {', '.join(names)}; trans" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


OBJECTIVES = [  # of a family, those that no class has, and the class of the others
    ("modernbert", "replaced_token sentence_order", "replaced_token, sentence_order", "Model"),
    ("modernbert", "fill_mask sentence_order", "sentence_order", "ForMaskedLM"),
    ("modernbert", "classify replaced_token", "replaced_token", "ForSequenceClassification"),
    ("bert", "fill_mask next_sentence", "", "ForPreTraining"),
    ("bert", "fill_mask next_sentence sentence_order", "sentence_order", "ForPreTraining"),
    ("albert", "fill_mask next_sentence sentence_order", "next_sentence", "ForPreTraining"),
    ("albert", "sentence_order", "sentence_order", "Model"),
    ("electra", "replaced_token sentence_order", "sentence_order", "ForPreTraining"),
    ("electra", "classify replaced_token", "replaced_token", "ForSequenceClassification"),
]


@pytest.mark.parametrize(("family", "names", "left", "kind"), OBJECTIVES)
def test_what_only_pretraining_asks_for_is_left_behind_where_no_class_has_it(
    tmp_path: Path, draw_model, command, family: str, names: str, left: str, kind: str
) -> None:
    model, tokenizer = draw_model(family, *(make_task(n, ("no", "yes")) for n in names.split()))
    save_model(tmp_path / "model", model, tokenizer, origin=Origin())
    words = ["--model", tmp_path / "model", "--to", "hugging-face", "--out", tmp_path / "out"]
    ended = command("export", *words)
    assert ended.code == 0, ended.err
    said = [line for line in ended.err.splitlines() if line.startswith("left behind: ")]
    assert said == (
        [f"left behind: {left}; the folder holds the encoder that learned by it"] * bool(left)
    )
    (known,) = json.loads((tmp_path / "out" / "config.json").read_text())["architectures"]
    assert known.endswith(kind)
    found, expected = (bertworks.load(tmp_path / n).embed(TEXTS) for n in ("out", "model"))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_of_whole_numbers_the_way_to_an_encoder_is_one_that_goes(
    tmp_path: Path, save_other, command
) -> None:
    model, small, floats = save_other("relate"), tmp_path / "small", tmp_path / "floats"
    words = ["--to", "bertworks", "--out"]
    ended = command("export", "--model", model, *words, small, "--precision", "int8")
    assert ended.code == 0, ended.err
    theirs = ["--to", "hugging-face", "--out", tmp_path / "out"]
    sentence = command("export", "--model", small, *theirs).refusal(1)
    assert "has the tasks relate, and transformers finds no weights in model.int8." in sentence
    assert sentence.endswith("AutoModel opens the encoder of what export --to bertworks writes")
    assert command("export", "--model", small, *words, floats).code == 0
    _, told = AutoModel.from_pretrained(floats, output_loading_info=True)
    assert not told["missing_keys"]
    assert {name.partition(".")[0] for name in told["unexpected_keys"]} == {"heads"}


def test_vectors_that_differ_are_thrown_away(
    tmp_path: Path, pretrained: Path, command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_wrongly(folder: Path, recipe: EmbeddingRecipe, *, hidden_size: int) -> None:
        write_recipe(folder, recipe.changed(pooling="max"), hidden_size=hidden_size)

    monkeypatch.setattr(model_folder, "write_recipe", write_wrongly)
    words = ["--model", pretrained, "--to", "sentence-transformers", "--out", tmp_path / "out"]
    assert "vectors that differ by" in command("export", *words).refusal(1)
    assert list(tmp_path.iterdir()) == []
