"""A short life of every family and of the older mixers: pre-trained, fine-tuned, scored, asked."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks

Run = Callable[..., dict[str, Any]]
WORDS = {
    "water": ["river", "boat", "fish", "swim", "harbour"],
    "road": ["engine", "wheel", "motor", "drive", "garage"],
}
# Its name -> the family in whose words it is saved.
SIZES = {
    "bert-2x64": "bert",
    "roberta-mini": "roberta",
    "distilbert-2x64": "distilbert",
    "albert-2x64": "albert",
    "electra-2x64": "electra",
    "mpnet-2x64": "bertworks",  # its padding piece is not MPNet's
    "modern-2x64": "modernbert",
    "recurrent-2x64": "bertworks",
    "convolution-2x64": "bertworks",
    "mean-2x64": "bertworks",
}


@pytest.fixture(scope="module")
def run(command: Callable[..., Any]) -> Run:
    """Run a command that must succeed, and return its result."""

    def ended(*words: Any) -> dict[str, Any]:
        done = command(*words, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    return ended


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """Make a tokenizer, shards and a few labelled rows."""
    folder, chance = tmp_path_factory.mktemp("families"), random.Random(17)

    def sentence(topic: str) -> str:
        return " ".join(chance.choices(WORDS[topic], k=5)).capitalize() + "."

    documents = [" ".join(sentence(topic) for _ in range(3)) for topic in list(WORDS) * 20]
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
    rows = [{"text": sentence(topic), "label": topic} for topic in list(WORDS) * 6]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("learn-vocab", folder / "text.txt", "--out", folder / "tokenizer", "--size", 90)
    words = ["tokenize", folder / "text.txt", "--tokenizer", folder / "tokenizer"]
    run(*words, "--out", folder / "shards", "--held-out", 0.2, "--workers", 1)
    return folder


@pytest.mark.parametrize(("size", "family"), SIZES.items())
def test_every_family_lives_from_its_first_step_to_its_answers(
    size: str, family: str, place: Path, tmp_path: Path, run: Run
) -> None:
    model, tuned, rows = tmp_path / "model", tmp_path / "tuned", place / "rows.jsonl"
    short = ["--longest", 24, "--steps", 2, "--batch-tokens", 256, "--evaluate-every", 0]
    made = run("pretrain", place / "shards", "--out", model, "--size", size, *short)
    assert made["steps"] == 2
    assert np.isfinite(made["loss"])
    assert json.loads((model / "config.json").read_text())["model_type"] == family
    run("finetune", "--model", model, "--train", rows, "--dev", rows, "--out", tuned, "--epochs", 1)
    scores = run("evaluate", "--model", tuned, "--data", rows, "--out", tmp_path / "report")
    assert 0 <= scores["accuracy"] <= 1
    run("predict", "--model", tuned, "--data", rows, "--out", tmp_path / "answers.jsonl")
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 12
    assert {answer["label"] for answer in answers} <= set(WORDS)
    opened = bertworks.load(model)
    filling = bertworks.load(model / "generator") if family == "electra" else opened
    assert len(filling.fill_mask("River [MASK] fish.")) == 5
    assert opened.embed(["River boat.", "Wheel."]).shape == (2, 256 if "mini" in size else 64)
