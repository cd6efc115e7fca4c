"""Labels without training, given to evaluate and predict."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import UsageError
from bertworks.stages.zero_shot import described

Run = Callable[..., Any]
LABELS = ["water=river boat water fish", "road=engine wheel motor road"]


def test_labels_are_scored_though_the_model_never_learned_them(
    pretrained: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    words = ["evaluate", "--model", pretrained, "--data", labelled["dev"]]
    words += ["--out", tmp_path / "report", "--by", "vectors", "--json", "--zero-shot", *LABELS]
    result = json.loads(command(*words).out)
    assert result["examples"] == 17
    assert 0 <= result["macro_f1"] <= 1
    lines = (tmp_path / "report" / "answers.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    hits = sum(row["label"] == row["gold"] for row in rows)
    assert result["accuracy"] == pytest.approx(hits / 17)


@pytest.mark.parametrize("by", ["cloze", "vectors"])
def test_labels_are_predicted_and_may_be_calibrated(
    by: str, pretrained: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    found = []
    for more in ([], ["--calibrate"]):
        out = tmp_path / f"answers{len(more)}.jsonl"
        words = ["predict", "--model", pretrained, "--data", labelled["dev"], "--out", out]
        ended = command(*words, "--by", by, *more, "--zero-shot", "water", "road")
        assert ended.code == 0, ended.err
        found.append([json.loads(line) for line in out.read_text().splitlines()])
    plain, fair = found
    assert [row["line"] for row in plain] == list(range(1, 18))
    assert {row["label"] for row in plain} <= {"water", "road"}
    assert [row["probability"] for row in plain] != [row["probability"] for row in fair]


@pytest.mark.parametrize("by", ["cloze", "vectors"])
def test_labels_that_the_vocabulary_cannot_tell_apart_are_one_sentence(
    by: str, pretrained: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    words = ["predict", "--model", pretrained, "--data", labelled["dev"], "--out", tmp_path / "a"]
    said = command(*words, "--by", by, "--zero-shot", "sport=体育", "game=游戏").refusal(2)
    assert said.startswith("the labels 'sport' and 'game' are the same pieces of the vocabulary")


def test_flags_without_labels_are_one_sentence(
    classifier: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    words = ["predict", "--model", classifier, "--data", labelled["dev"]]
    said = command(*words, "--out", tmp_path / "a", "--by", "vectors").refusal(2)
    assert said == "--by is for labels without training; give --zero-shot"


def test_gold_that_is_not_among_the_labels_is_named(
    pretrained: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    words = ["evaluate", "--model", pretrained, "--data", labelled["dev"], "--by", "vectors"]
    said = command(*words, "--out", tmp_path / "report", "--zero-shot", "a", "b").refusal(1)
    assert "is not among those to choose from (a, b)" in said


def test_labels_in_words_may_have_descriptions() -> None:
    given = described(["cat", "dog=an animal that barks", "x=y=z"])
    assert given == {"cat": "cat", "dog": "an animal that barks", "x": "y=z"}
    with pytest.raises(UsageError, match="the label 'a' is given twice"):
        described(["a=x", "a=y"])
