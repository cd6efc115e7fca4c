"""Questions with answers and with choices: fine-tuned, scored and answered by the commands."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import Origin
from bertworks.serving.model_folder import save_model
from bertworks.serving.predictor import load
from bertworks.tasks.task import TaskModel

FILLERS = ["the", "cat", "dog", "and", "sat", "on"]
LEARNING = ("--epochs", 5, "--batch-size", 8, "--lr", 5e-3, "--dropout", 0, "--seed", 3)


@pytest.fixture(scope="module")
def network(config, tokenizer, tmp_path_factory) -> Path:
    """Save a small network that has learned nothing yet."""
    folder = tmp_path_factory.mktemp("network") / "model"
    save_model(folder, TaskModel(config, [], seed=2, deviation=0.1), tokenizer, origin=Origin())
    return folder


def questions(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Ask for the one city in a passage, or for what no passage has."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        words = chance.choices(FILLERS, k=chance.choice([5, 9, 9, 70]))
        place = chance.randrange(len(words))
        words[place] = "Paris"
        start = len(" ".join(words[:place])) + (place > 0)
        is_asked = chance.random() < 0.7
        rows.append(
            {
                "question": "capital of France" if is_asked else "北京",
                "passage": " ".join(words),
                "answers": [{"text": "Paris", "start": start}] if is_asked else [],
            }
        )
    return rows


def exams(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Ask which of some words is a city; of some questions there is a long passage."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        choices = chance.choices(FILLERS, k=chance.choice([2, 3, 4]))
        label = chance.randrange(len(choices))
        choices[label] = "Paris"
        row = {"question": "capital", "choices": choices, "label": "ABCD"[label]}
        rows.append(row | ({"passage": "the cat sat " * 30} if number % 5 == 0 else {}))
    return rows


def write(path: Path, rows: list[Any]) -> Path:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_answers_are_learned_scored_and_given(network: Path, command, tmp_path: Path) -> None:
    bad = [
        {"question": "who?", "passage": "the cat", "answers": [{"text": "a dog", "start": 0}]},
        {"question": " ", "passage": "the cat", "answers": []},
    ]
    train = write(tmp_path / "train.jsonl", questions(100, seed=1) + bad)
    dev = write(tmp_path / "dev.jsonl", questions(40, seed=2))
    model = tmp_path / "model"
    words = ("finetune", "--model", network, "--train", train, "--dev", dev, "--out", model)
    ended = command(*words, "--stride", 30, "--max-answer", 7, *LEARNING)
    assert ended.code == 0, ended.err
    assert "task: answer, guessed from the columns" in ended.err
    options = json.loads((model / "bertworks.json").read_text())["tasks"]["answer"]["options"]
    assert (options["nullable"], options["stride"], options["max_answer"]) == (True, 30, 7)
    assert options["threshold"] != 0  # tuned on dev
    quarantined = (model / "quarantine.jsonl").read_text()
    assert "the answer 'a dog' is not in its passage" in quarantined
    assert "'question' is empty or not a string" in quarantined
    report = tmp_path / "report"
    ended = command("evaluate", "--model", model, "--data", dev, "--out", report)
    assert ended.code == 0, ended.err
    scores = json.loads((report / "scores.json").read_text())
    assert scores["f1"] > 0.8
    assert {"exact_match", "answerable_f1", "unanswerable_accuracy"} <= scores.keys()
    ended = command("predict", "--model", model, "--data", dev)
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert len(found) == 40
    passage = "the cat and the dog sat on Paris " + "and the dog " * 50
    (answer,) = load(model).predict([("capital of France", passage)])
    best = answer["candidates"][0]
    assert best["answer"] == passage[best["start"] : best["end"]] != ""


def test_choices_are_learned_scored_and_made(network: Path, command, tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", exams(100, seed=1))
    dev = write(tmp_path / "dev.jsonl", exams(40, seed=2))
    model, report = tmp_path / "model", tmp_path / "report"
    words = ("finetune", "--model", network, "--train", train, "--dev", dev, "--out", model)
    ended = command(*words, *LEARNING)
    assert ended.code == 0, ended.err
    assert "task: choose, guessed from the columns" in ended.err
    ended = command("evaluate", "--model", model, "--data", dev, "--out", report)
    assert ended.code == 0, ended.err
    assert json.loads((report / "scores.json").read_text())["accuracy"] > 0.8
    rows = [{"question": "capital", "choices": ["the cat", "Paris", "a dog"]}]
    (answer,) = load(model).predict(rows)
    assert (answer["choice"], answer["text"]) == (1, "Paris")
    refused = command(*words, "--max-answer", 3, "--out", tmp_path / "other")
    assert "the task choose has no setting --max-answer" in refused.err
