"""How a fine-tuning makes vectors: as the model that it saves makes them everywhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks

Run = Callable[..., Any]
Words = Callable[..., list[Any]]
Write = Callable[[Path, list[Any]], Path]


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
    report = model.parent / "report"
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
