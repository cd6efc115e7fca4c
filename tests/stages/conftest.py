"""What the tests of the stages share: one small life, from raw text to fine-tuned models."""

import json
import random
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import read_manifest

TOPICS = {
    "water": ["river", "boat", "water", "fish", "swim", "bank", "harbour"],
    "road": ["engine", "wheel", "motor", "road", "drive", "brake", "garage"],
}


def sentence(topic: str, chance: random.Random) -> str:
    """Make a sentence of words that belong together."""
    words = chance.choices(TOPICS[topic], k=chance.randint(3, 7))
    return " ".join(words).capitalize() + "."


def rows(count: int, *, seed: int, pairs: bool = False) -> list[dict[str, str]]:
    """Make labelled texts, or pairs that belong together or do not."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        first, second = chance.choice(list(TOPICS)), chance.choice(list(TOPICS))
        text, text_b = sentence(first, chance), sentence(second, chance)
        label = "same" if first == second else "other"
        made.append(
            {"text": text, "text_b": text_b, "label": label}
            if pairs
            else {"text": text, "label": first}
        )
    return made


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder in which the small life is lived."""
    return tmp_path_factory.mktemp("life")


@pytest.fixture(scope="session")
def write_rows() -> Callable[[Path, list[Any]], Path]:
    """Write rows, or lines that are none, into a file of JSON lines."""

    def write(path: Path, lines: list[Any]) -> Path:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def make_rows() -> Callable[..., list[dict[str, str]]]:
    """Make labelled texts or pairs."""
    return rows


@pytest.fixture(scope="session")
def text(folder: Path) -> Path:
    """Write eighty documents about two topics."""
    chance = random.Random(3)
    documents = []
    for number in range(80):
        topic = list(TOPICS)[number % 2]
        documents.append("\n".join(sentence(topic, chance) for _ in range(chance.randint(2, 5))))
    path = folder / "text.txt"
    path.write_text("\n\n".join(documents) + "\n")
    return path


@pytest.fixture(scope="session")
def vocabulary(folder: Path, text: Path, command: Callable[..., Any]) -> Path:
    """Learn a vocabulary."""
    ended = command("learn-vocab", text, "--out", folder / "tokenizer", "--size", 130)
    assert ended.code == 0, ended.err
    return folder / "tokenizer"


@pytest.fixture(scope="session")
def shards(folder: Path, text: Path, vocabulary: Path, command: Callable[..., Any]) -> Path:
    """Tokenize the documents."""
    words = ["tokenize", text, "--tokenizer", vocabulary, "--out", folder / "shards"]
    ended = command(*words, "--held-out", 0.2, "--workers", 1)
    assert ended.code == 0, ended.err
    return folder / "shards"


@pytest.fixture(scope="session")
def pretrain_words(shards: Path) -> Callable[..., list[Any]]:
    """Say the words of a short pre-training."""

    def words(out: Path, **changed: Any) -> list[Any]:
        flags = {
            "size": "2x64",
            "longest": 32,
            "steps": 6,
            "batch_tokens": 512,
            "evaluate_every": 3,
            "checkpoint_every": 2,
            "lr": 0.002,
        }
        given = {"shards": shards, **flags, **changed}
        return ["pretrain", given.pop("shards"), "--out", out, *as_words(given)]

    return words


@pytest.fixture(scope="session")
def pretrained(
    folder: Path, pretrain_words: Callable[..., list[Any]], command: Callable[..., Any]
) -> Path:
    """Pre-train a small encoder for a few steps."""
    ended = command(*pretrain_words(folder / "pretrained"))
    assert ended.code == 0, ended.err
    return folder / "pretrained"


@pytest.fixture(scope="session")
def labelled(folder: Path, write_rows: Callable[..., Path]) -> dict[str, Path]:
    """Write labelled texts and pairs, to train on and to judge by."""
    return {
        "train": write_rows(folder / "train.jsonl", rows(48, seed=5)),
        "dev": write_rows(folder / "dev.jsonl", rows(17, seed=6)),
        "train_pairs": write_rows(folder / "train_pairs.jsonl", rows(48, seed=7, pairs=True)),
        "dev_pairs": write_rows(folder / "dev_pairs.jsonl", rows(17, seed=8, pairs=True)),
    }


@pytest.fixture(scope="session")
def finetune_words(pretrained: Path, labelled: dict[str, Path]) -> Callable[..., list[Any]]:
    """Say the words of a short fine-tuning."""

    def words(out: Path, **changed: Any) -> list[Any]:
        files = {"model": pretrained, "train": labelled["train"], "dev": labelled["dev"]}
        flags = {"epochs": 2, "batch_size": 7, "lr": 0.002}
        return ["finetune", "--out", out, *as_words({**files, **flags, **changed})]

    return words


@pytest.fixture(scope="session")
def classifier(
    folder: Path, finetune_words: Callable[..., list[Any]], command: Callable[..., Any]
) -> Path:
    """Fine-tune a model that tells the topics apart."""
    ended = command(*finetune_words(folder / "classifier"))
    assert ended.code == 0, ended.err
    return folder / "classifier"


@pytest.fixture(scope="session")
def matcher(
    folder: Path,
    finetune_words: Callable[..., list[Any]],
    labelled: dict[str, Path],
    command: Callable[..., Any],
) -> Path:
    """Fine-tune a model for pairs, hardly at all."""
    pairs = {"train": labelled["train_pairs"], "dev": labelled["dev_pairs"]}
    ended = command(*finetune_words(folder / "matcher", **pairs, epochs=1))
    assert ended.code == 0, ended.err
    return folder / "matcher"


@pytest.fixture(scope="session")
def run_again(command: Callable[..., Any]) -> Callable[..., Path]:
    """Run the command that an artifact's manifest names, into another folder."""

    def run(made: Path, out: Path, *, more: tuple[str, ...] = ()) -> Path:
        first, *words = shlex.split(read_manifest(made)["command"])
        assert first == "bertworks"
        words[words.index("--out") + 1] = str(out)
        ended = command(*words, *more)
        assert ended.code == 0, ended.err
        return out

    return run


def as_words(flags: dict[str, Any]) -> list[Any]:
    """Turn flags into words."""
    words: list[Any] = []
    for name, value in flags.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", *(value if isinstance(value, list) else [value])]
    return words
