"""Labels, numbers, aspects and relations: fine-tuned, scored and answered by the commands."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel

from bertworks.core.artifact import Origin
from bertworks.serving.model_folder import save_model
from bertworks.serving.predictor import load
from bertworks.tasks.task import TaskModel

FILLERS = ("the", "sat", "on", "and", "where", "was")
LEARNING = ("--epochs", 6, "--batch-size", 8, "--lr", 5e-3, "--dropout", 0, "--seed", 3)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def network(config, tokenizer, tmp_path_factory) -> Path:
    """Save a small network that has learned nothing yet."""
    folder = tmp_path_factory.mktemp("network") / "model"
    save_model(folder, TaskModel(config, [], seed=2, deviation=0.1), tokenizer, origin=Origin())
    return folder


def text_of(words: list[str], chance: random.Random) -> str:
    """Hide words among others; some texts are longer than the network reads."""
    mixed = [*words, *chance.choices(FILLERS, k=chance.choice([2, 4, 4, 80]))]
    return " ".join(chance.sample(mixed, len(mixed)))


def topics(chance: random.Random) -> Row:
    """Make a text of any of two animals, or of none."""
    found = [name for name in ("cat", "dog") if chance.random() < 0.5]
    return {"text": text_of(found * 2, chance), "labels": "|".join(found)}


def ratings(chance: random.Random) -> Row:
    """Make a text that is worth so many hundreds as it has dogs."""
    count = chance.randrange(4)
    return {"text": text_of(["dog"] * count, chance), "score": 5000 + 100 * count}


def opinions(chance: random.Random) -> Row:
    """Make a text that praises the cat or scolds it, and ask of the cat or of a mat."""
    asked, place = chance.choice(["cat", "cat", "mat"]), chance.choice(["Paris", "hill"])
    praised = "good" if place == "Paris" else "bad"
    text = text_of(["cat", place, place], chance)
    return {"text": text, "aspect": asked, "label": praised if asked == "cat" else "none"}


MADE: dict[str, Callable[[random.Random], Row]] = {
    "multilabel": topics,
    "score": ratings,
    "aspect": opinions,
}


def write(path: Path, kind: str, count: int, *, seed: int) -> Path:
    """Write rows of a kind."""
    chance = random.Random(seed)
    lines = [json.dumps(MADE[kind](chance)) + "\n" for _ in range(count)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "metric", "least"),
    [("multilabel", "micro_f1", 0.9), ("score", "spearman", 0.8), ("aspect", "accuracy", 0.8)],
)
def test_what_is_learned_from_a_file_is_scored_and_answered(
    kind: str, metric: str, least: float, network: Path, tmp_path: Path, command
) -> None:
    train = write(tmp_path / "train.jsonl", kind, 96, seed=1)
    dev = write(tmp_path / "dev.jsonl", kind, 40, seed=2)
    files = ["--model", network, "--train", train, "--dev", dev, "--out", tmp_path / "model"]
    ended = command("finetune", *files, *LEARNING, "--json")
    assert ended.code == 0, ended.err
    assert f"task: {kind}, guessed from the columns" in ended.err
    told = json.loads(ended.out)
    assert told[f"dev_{metric}"] > least
    words = ["--model", tmp_path / "model", "--data", dev, "--out", tmp_path / "report"]
    ended = command("evaluate", *words, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)[metric] == pytest.approx(told[f"dev_{metric}"])
    assert (tmp_path / "report" / "labels.json").exists() is (kind != "score")
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert ("<h2>Labels</h2>" in page) is (kind != "score")
    assert "<h2>Worst answers, the surest first</h2>" in page
    assert kind != "score" or "certainty" not in page  # a number comes without one


def test_numbers_are_given_on_the_scale_they_were_learned_on(
    network: Path, tmp_path: Path, command
) -> None:
    train = write(tmp_path / "train.jsonl", "score", 96, seed=3)
    files = ["--model", network, "--train", train, "--dev", train, "--out", tmp_path / "model"]
    assert command("finetune", *files, *LEARNING).code == 0
    few, many = load(tmp_path / "model").predict(["the hill", "dog dog dog sat"])
    assert 4800 < few["score"] < many["score"] < 5500


def test_a_threshold_is_saved_with_the_model(network: Path, tmp_path: Path, command) -> None:
    train = write(tmp_path / "train.jsonl", "multilabel", 40, seed=4)
    files = ["--model", network, "--train", train, "--dev", train, "--out", tmp_path / "model"]
    assert command("finetune", *files, "--epochs", 1, "--class-weights", "balanced").code == 0
    saved = json.loads((tmp_path / "model" / "bertworks.json").read_text())
    threshold = saved["tasks"]["multilabel"]["options"]["threshold"]
    assert 0 < threshold < 1
    assert threshold != 0.5
    assert load(tmp_path / "model").task.options["threshold"] == threshold


def test_a_model_of_relations_can_be_opened_elsewhere(
    network: Path, tmp_path: Path, command
) -> None:
    rows = [
        {"text": "the cat and the dog", "first": [4, 7], "second": [16, 19], "label": "before"},
        {"text": "the cat and the dog", "first": [16, 19], "second": [4, 7], "label": "behind"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows * 20), encoding="utf-8")
    files = ["--model", network, "--train", file, "--dev", file, "--out", tmp_path / "model"]
    ended = command("finetune", *files, *LEARNING, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["dev_macro_f1"] == 1.0
    assert type(AutoModel.from_pretrained(tmp_path / "model")).__name__ == "BertModel"
    asked = [(row["text"], tuple(row["first"]), tuple(row["second"])) for row in rows]
    answers = load(tmp_path / "model").predict(asked)
    assert [answer["label"] for answer in answers] == ["before", "behind"]
    words = ["--model", tmp_path / "model", "--data", file, "--out", tmp_path / "report"]
    assert command("evaluate", *words).code == 0
    assert json.loads((tmp_path / "report" / "labels.json").read_text())["before"]["support"] == 20


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "x", "score": 2.5}, "has one score only (2.5), so there is nothing to learn"),
        ({"text": "x", "labels": []}, "has no label at all, so there is nothing to find"),
        ({"text": "x", "aspect": "y", "label": "good"}, "has one label only ('good')"),
    ],
)
def test_files_that_teach_nothing_are_refused_before_training(
    row: Row, message: str, network: Path, tmp_path: Path, command
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text((json.dumps(row) + "\n") * 5, encoding="utf-8")
    files = ["--model", network, "--train", file, "--dev", file, "--out", tmp_path / "model"]
    assert message in command("finetune", *files).refusal(1)
    assert not (tmp_path / "model").exists()
