"""Words are tagged and utterances understood: fine-tuned, scored and answered by the commands."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import Origin
from bertworks.serving.model_folder import save_model
from bertworks.serving.predictor import load
from bertworks.tasks.task import TaskModel

FILLERS = ["the", "dog", "and", "sat", "on", "looked", "."]
LEARNING = ("--epochs", 6, "--batch-size", 8, "--lr", 5e-3, "--dropout", 0, "--seed", 3)


@pytest.fixture(scope="module")
def network(config, tokenizer, tmp_path_factory) -> Path:
    """Save a small network that has learned nothing yet."""
    folder = tmp_path_factory.mktemp("network") / "model"
    save_model(folder, TaskModel(config, [], seed=2, deviation=0.1), tokenizer, origin=Origin())
    return folder


def sentences(count: int, *, seed: int, spans: bool = False) -> list[dict[str, Any]]:
    """Write sentences, some of them long, in which cats and cities are marked."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        words = chance.choices(FILLERS, k=chance.choice([3, 6, 9, 9, 9, 80]))
        words[chance.randrange(len(words))] = "Paris"
        words[chance.randrange(len(words))] = "cat"
        tags = [{"Paris": "B-LOC", "cat": "B-CAT"}.get(word, "O") for word in words]
        if not spans:
            rows.append({"tokens": words, "tags": tags, "intent": "ask" if "." in words else "say"})
            continue
        starts = [len(" ".join([*words[:n], ""])) for n in range(len(words))]
        found = [
            {"start": start, "end": start + len(word), "label": tag[2:]}
            for start, word, tag in zip(starts, words, tags, strict=True)
            if tag != "O"
        ]
        rows.append({"text": " ".join(words), "spans": found})
    return rows


def write(path: Path, rows: list[Any]) -> Path:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(("spans", "flags"), [(True, []), (False, ["--task", "tag", "--crf"])])
def test_tags_are_learned_scored_and_given(
    network: Path, command, tmp_path: Path, spans: bool, flags: list[str]
) -> None:
    bad = {"tokens": ["the", "cat"], "tags": ["O"]}
    train = write(tmp_path / "train.jsonl", [*sentences(90, seed=1, spans=spans), bad])
    unknown = {"tokens": ["the", "dog"], "tags": ["O", "B-DOG"]}
    dev = write(tmp_path / "dev.jsonl", [*sentences(20, seed=2, spans=spans), unknown])
    model, report = tmp_path / "model", tmp_path / "report"
    words = ("finetune", "--model", network, "--train", train, "--dev", dev, "--out", model)
    ended = command(*words, *flags, *LEARNING)
    assert ended.code == 0, ended.err
    assert ended.err.count("the tag 'B-DOG' is not in the training data") == 1
    assert "2 tokens but 1 tags" in (model / "quarantine.jsonl").read_text()
    ended = command("evaluate", "--model", model, "--data", dev, "--out", report)
    assert ended.code == 0, ended.err
    scores = json.loads((report / "scores.json").read_text())
    assert 0.8 < scores["f1"] < 1
    assert {"precision", "recall", "accuracy"} <= scores.keys()
    ended = command("predict", "--model", model, "--data", dev)
    assert len(ended.out.splitlines()) == 21
    text = "the dog sat on Paris. " + "and the dog " * 60 + "looked"
    by_text, by_words = load(model).predict([text, {"tokens": text.split()}])
    assert len(by_words["tags"]) == len(text.split())
    for span in by_text["spans"]:
        assert text[span["start"] : span["end"]] == span["text"]
    assert [span["text"] for span in by_text["spans"]] == ["Paris"]


def test_utterances_are_learned_scored_and_understood(
    network: Path, command, tmp_path: Path
) -> None:
    train = write(tmp_path / "train.jsonl", sentences(90, seed=1))
    unknown = {"tokens": ["the", "dog"], "tags": ["O", "O"], "intent": "bark"}
    dev = write(tmp_path / "dev.jsonl", [*sentences(20, seed=2), unknown])
    model, report = tmp_path / "model", tmp_path / "report"
    words = ("finetune", "--model", network, "--train", train, "--dev", dev, "--out", model)
    ended = command(*words, *LEARNING)
    assert ended.code == 0, ended.err
    assert "task: intent_slots, guessed from the columns" in ended.err
    assert ended.err.count("the intent 'bark' is not in the training data") == 1
    ended = command("evaluate", "--model", model, "--data", dev, "--out", report)
    assert ended.code == 0, ended.err
    scores = json.loads((report / "scores.json").read_text())
    assert scores["slot_f1"] > 0.8
    assert 0.5 < scores["intent_accuracy"] < 1
    (answer,) = load(model).predict(["the dog looked on Paris"])
    assert answer["intent"] in ("ask", "say")
    assert [slot["label"] for slot in answer["slots"]] == ["LOC"]
    refused = command(*words, "--crf", "--out", tmp_path / "other")
    assert "the task intent_slots has no setting --crf" in refused.err
