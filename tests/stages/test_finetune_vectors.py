"""How a fine-tuning makes vectors: as the model that it saves makes them everywhere."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks.core.artifact import Origin
from bertworks.interop.sentence_transformers import read_recipe
from bertworks.model.embedding import DenseLayer, EmbeddingRecipe
from bertworks.serving.model_folder import open_model, save_model

Run = Callable[..., Any]
Words = Callable[..., list[Any]]
Write = Callable[[Path, list[Any]], Path]
PROMPTS = {"query": "boat on the river: ", "document": "road: "}
WEIGHT = torch.randn(9, 64, generator=torch.Generator().manual_seed(2))
DENSE = DenseLayer(WEIGHT, WEIGHT[:, 0], "tanh")


@pytest.fixture
def pairs(make_rows: Callable[..., list[dict[str, str]]]) -> list[dict[str, str]]:
    """Make pairs, some of them longer than a short window, some than the network reads."""
    rows = make_rows(30, seed=8, pairs=True)
    for number, row in enumerate(rows):
        row["text"] = " ".join([row["text"]] * (1, 3, 20)[number % 3])
    return rows


@pytest.fixture
def file(pairs: list[dict[str, str]], write_rows: Write, tmp_path: Path) -> Path:
    """Write the pairs."""
    return write_rows(tmp_path / "pairs.jsonl", pairs)


def cosines_of(model: Path, pairs: list[dict[str, str]]) -> np.ndarray:
    """Return the cosines of pairs by the vectors of a model."""
    opened = bertworks.load(model)
    first, second = (opened.embed([row[side] for row in pairs]) for side in ("text", "text_b"))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / lengths


def require_one_cosine(told: dict[str, Any], model: Path, file: Path, command: Run) -> None:
    """Check that dev was scored by the cosines that `evaluate` and `embed` give."""
    report = model.with_suffix(".report")
    words = ["evaluate", "--model", model, "--data", file, "--out", report, "--json"]
    scores = json.loads(command(*words).out)
    for name in ("auc", "spearman", "accuracy"):
        assert told[f"dev_{name}"] == pytest.approx(scores[name], abs=1e-6)
    answers = (report / "answers.jsonl").read_text().splitlines()
    pairs = [json.loads(line) for line in file.read_text().splitlines()]
    found = [json.loads(line)["score"] for line in answers]
    np.testing.assert_allclose(found, cosines_of(model, pairs), atol=1e-5)


@pytest.mark.parametrize("longest", [None, 12])
def test_dev_is_scored_by_the_vectors_that_the_model_gives(
    longest: int | None, finetune_words: Words, file: Path, tmp_path: Path, command: Run
) -> None:
    window = {} if longest is None else {"longest": longest}
    words = finetune_words(tmp_path / "model", train=file, dev=file, task="embed", **window)
    ended = command(*words, "--json")
    require_one_cosine(json.loads(ended.out), tmp_path / "model", file, command)
    said = f"{file}: of 10 of 30 examples no more than the first 32 pieces make a text's vector"
    assert ended.err.count(said) == 2  # the file teaches and scores


# Folders that say how vectors are made


@pytest.fixture
def save(pretrained: Path, tmp_path: Path) -> Callable[..., Path]:
    """Write the small encoder as a folder of sentence-transformers."""

    def write(**said: Any) -> Path:
        opened, recipe = open_model(pretrained, tasks=[]), EmbeddingRecipe(**said)
        folder = tmp_path / "theirs"
        save_model(folder, opened.model, opened.tokenizer, origin=Origin(), recipe=recipe)
        return folder

    return write


def recipe_of(folder: Path) -> EmbeddingRecipe:
    """Read how a folder of the small encoder makes vectors."""
    recipe = read_recipe(folder, hidden_size=64, longest=32)
    assert recipe is not None
    return recipe


KEPT: dict[str, dict[str, Any]] = {
    "first": {"pooling": "first", "max_length": 16},
    "last": {"pooling": "last", "normalize": False},
    "prompted": {"prompts": PROMPTS, "default_prompt": "query", "max_length": 24},
    "not pooled": {
        "pooling": "weighted",
        "prompts": PROMPTS,
        "default_prompt": "query",
        "pools_prompt": False,
    },
    "small letters": {"lowercase": True, "prompts": PROMPTS},
}


@pytest.mark.parametrize("longest", [None, 12])
@pytest.mark.parametrize("name", KEPT)
def test_what_a_folder_says_of_vectors_is_learned_with_and_saved(
    name: str, longest: int | None, save, finetune_words: Words, file: Path, tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    before, out = save(**KEPT[name]), tmp_path / "model"
    window = {} if longest is None else {"longest": longest}
    files = {"model": before, "train": file, "dev": file}
    ended = command(*finetune_words(out, **files, task="embed", **window), "--json")
    assert recipe_of(out) == recipe_of(before).changed(similarity="cosine")
    require_one_cosine(json.loads(ended.out), out, file, command)
    again = finetune_words(tmp_path / "again", **files | {"model": out}, task="embed", epochs=1)
    assert command(*again).code == 0
    assert recipe_of(tmp_path / "again") == recipe_of(out)


def test_texts_are_learned_behind_the_default_prompt(
    save, finetune_words: Words, pairs: list[dict[str, str]], write_rows: Write, tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    for row in pairs:
        row["text"] = row["text"].partition(".")[0]
    plain = write_rows(tmp_path / "plain.jsonl", pairs)
    told = [
        row | {side: PROMPTS["query"] + row[side] for side in ("text", "text_b")} for row in pairs
    ]
    prompted = write_rows(tmp_path / "prompted.jsonl", told)
    bare = save(pooling="max", max_length=32)
    words = finetune_words(
        tmp_path / "by_hand", model=bare, train=prompted, dev=prompted, task="embed"
    )
    assert command(*words).code == 0
    shutil.rmtree(bare)
    folder = save(pooling="max", max_length=32, prompts=PROMPTS, default_prompt="query")
    words = finetune_words(tmp_path / "model", model=folder, train=plain, dev=plain, task="embed")
    assert command(*words).code == 0
    weights = [
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("by_hand", "model")
    ]
    assert weights[0] == weights[1]


def test_dense_layers_are_learned_through_and_stay_as_they_are(
    save, finetune_words: Words, file: Path, tmp_path: Path, command: Run
) -> None:
    before, out = save(layers=(DENSE,), max_length=24), tmp_path / "model"
    files = {"model": before, "train": file, "dev": file, "task": "embed"}
    ended = command(*finetune_words(out, **files), "--json")
    assert bertworks.load(out).embed(["a boat"]).shape == (1, 9)
    require_one_cosine(json.loads(ended.out), out, file, command)
    (kept,) = recipe_of(out).layers
    torch.testing.assert_close(kept.weight, WEIGHT, rtol=0, atol=0)
    assert "1 dense layer, which stays as it is" in ended.err
    ended = command(*finetune_words(tmp_path / "fresh", **files), "--fresh", "--json")
    assert recipe_of(tmp_path / "fresh").layers == ()
    assert "warning: --fresh leaves the dense layers behind, which follow other wei" in ended.err
    require_one_cosine(json.loads(ended.out), tmp_path / "fresh", file, command)


def test_flags_go_before_what_the_folder_says(
    save, finetune_words: Words, file: Path, tmp_path: Path, command: Run
) -> None:
    before = save(pooling="last", max_length=16, prompts=PROMPTS, default_prompt="query")
    files = {"model": before, "train": file, "dev": file, "task": "embed"}
    ended = command(
        *finetune_words(tmp_path / "model", **files, pooling="first", longest=24), "--json"
    )
    assert recipe_of(tmp_path / "model") == recipe_of(before).changed(
        pooling="first", max_length=24, similarity="cosine"
    )
    assert (
        f"vectors are made as {before} says: the pooling first in place of last; the prompt "
        "'boat on the river: '; the cut after 24 pieces in place of 16\n"
        "nothing is learned of the prompts document, but they stay with the model\n"
    ) in ended.err
    require_one_cosine(json.loads(ended.out), tmp_path / "model", file, command)


@pytest.mark.parametrize("theirs", ["first", None])
def test_several_tasks_make_vectors_in_one_way(
    theirs: str | None, save, file: Path, tmp_path: Path, command: Run
) -> None:
    tables = tmp_path / "tasks.toml"
    table = f'train = "{file}"\ndev = "{file}"\ntask = "embed"\n'
    other = "" if theirs is None else 'pooling = "first"\n'
    tables.write_text(f'[titles]\n{table}pooling = "max"\n[questions]\n{table}{other}')
    out = tmp_path / "model"
    flags = ["--epochs", 1, "--batch-size", 7, "--out", out]
    ended = command("finetune", "--model", save(), "--tasks", tables, *flags)
    if theirs is None:
        assert recipe_of(out).pooling == "max"
        model, pair = bertworks.load(out), ("A boat.", "A road.")
        scores = [model.predict([pair], task=name)[0]["score"] for name in ("titles", "questions")]
        assert scores[0] == scores[1]
        return
    assert ended.refusal(2) == (
        "titles, questions ask for the poolings max, first, but a model makes vectors in one way; "
        "give all of them one pooling"
    )


def test_a_task_of_vectors_that_is_kept_beside_another_keeps_its_way(
    save, finetune_words: Words, file: Path, tmp_path: Path, command: Run
) -> None:
    said = {"pooling": "max", "max_length": 16, "prompts": PROMPTS, "default_prompt": "query"}
    files = {"model": save(**said), "train": file, "dev": file, "task": "embed"}
    assert command(*finetune_words(tmp_path / "vectors", **files)).code == 0
    words = finetune_words(tmp_path / "both", model=tmp_path / "vectors", longest=12)
    ended = command(*words, "--keep-tasks")
    assert ended.code == 0, ended.err
    assert recipe_of(tmp_path / "both") == recipe_of(tmp_path / "vectors")
    pairs = [json.loads(line) for line in file.read_text().splitlines()]
    texts = [(row["text"], row["text_b"]) for row in pairs]
    answers = bertworks.load(tmp_path / "both").predict(texts, task="embed")
    expected = cosines_of(tmp_path / "both", pairs)
    np.testing.assert_allclose([one["score"] for one in answers], expected, atol=1e-5)
