"""Poisoned files: no crash, every bad row counted and named, the good ones in their order."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOKENS = ("tokens-00000.bin", "words-00000.bin", "sentences-00000.bin", "documents-00000.bin")
STRANGE = (  # odd, and good
    "emoji 👩‍👩‍👧‍👦 and 🇩🇪",
    "שלום עולם \u202eright to left\u202c",
    "zero\u200bwidth\ufeffjoiner\u200d",
    "e\u0301 and é, ﬁ and fi",
    "\u3000全角\u3000空格\u3000",
    "   \t  ",
    "",
)
BAD_LINES = {
    "not UTF-8": b"caf\xe9 au lait",
    "NUL": b"nul \0 here",
    "a line of 10 MB": b"x" * 10_000_000,
    "half a character": "né".encode()[:-1] + b" x",
}
BAD_ROWS = {
    **BAD_LINES,
    "no JSON": b'{"text": "x", ',
    "no object": b'["text"]',
    "no text": b'{"label": "first"}',
    "no label": b'{"text": "ba"}',
    "an empty text": b'{"text": " ", "label": "first"}',
    "a label that is none": b'{"text": "ba", "label": [1]}',
    "half a surrogate pair": b'{"text": "\\ud800", "label": "first"}',
    "nested too deep": b"[" * 100_000,
}
Counted = Callable[..., None]


def mix(good: list[bytes], bad: list[bytes], seed: int) -> tuple[bytes, list[int]]:
    """Put bad lines between good ones; return the file and the numbers of the bad lines."""
    places = sorted(random.Random(seed).sample(range(1, len(good)), len(bad)), reverse=True)
    lines = [(line, False) for line in good]
    for place, line in zip(places, bad, strict=True):
        lines.insert(place, (line, True))
    numbers = [number for number, (_, is_bad) in enumerate(lines, start=1) if is_bad]
    return b"".join(line + b"\n" for line, _ in lines), numbers


def named(folder: Path) -> list[tuple[int, str]]:
    """Return line and reason of everything that was set aside."""
    file = folder / "quarantine.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return sorted((row["line"], row["reason"]) for row in rows)


def is_accounted_for(folder: Path, numbers: list[int]) -> bool:
    """Tell whether every bad row is named by its line, with a reason, and no other is."""
    rows = named(folder)
    return [line for line, _ in rows] == sorted(numbers) and all(reason for _, reason in rows)


# Text


@pytest.fixture(scope="module")
def text() -> list[bytes]:
    """Write sentences of made-up words and of odd characters."""
    chance = random.Random(3)
    words = ("bal", "ken", "mir", "sot", "tus", "ran", "nel")
    plain = [" ".join(chance.choices(words, k=chance.randint(3, 9))) + "." for _ in range(90)]
    lines = [*plain, *STRANGE]
    chance.shuffle(lines)
    return [line.encode() for line in lines]


@pytest.mark.shows("D2")
def test_poisoned_text_is_tokenized_as_if_the_poison_were_not_there(
    text: list[bytes], commands: Any, shards: Path, counted: Counted, tmp_path: Path
) -> None:
    poisoned, numbers = mix(text, list(BAD_LINES.values()), seed=1)
    clean = b"".join(line + b"\n" for line in text)
    for name, data in (("clean", clean), ("poisoned", poisoned)):
        file = tmp_path / f"{name}.txt"
        file.write_bytes(data)
        words = ["tokenize", str(file), "--tokenizer", str(shards.parent / "tokenizer")]
        flags = ["--out", str(tmp_path / name), "--workers", "1", "--held-out", "0.1"]
        ended = commands.run([*words, *flags])
        assert ended.code == 0, ended.said
    assert is_accounted_for(tmp_path / "poisoned", numbers)
    assert not named(tmp_path / "clean")
    for name in TOKENS:
        same = [(tmp_path / kind / name).read_bytes() for kind in ("clean", "poisoned")]
        assert same[0] == same[1]
    counted(bad_rows=len(numbers))


@pytest.mark.shows("D2")
def test_a_vocabulary_from_poisoned_text_is_that_of_the_rest(
    text: list[bytes], commands: Any, counted: Counted, tmp_path: Path
) -> None:
    poisoned, numbers = mix(text, list(BAD_LINES.values()), seed=2)
    clean = b"".join(line + b"\n" for line in text)
    vocabularies = []
    for name, data in (("clean", clean), ("poisoned", poisoned)):
        file = tmp_path / f"{name}.txt"
        file.write_bytes(data)
        out = tmp_path / name
        ended = commands.run(["learn-vocab", str(file), "--out", str(out), "--size", "150"])
        assert ended.code == 0, ended.said
        vocabularies.append((out / "tokenizer.json").read_bytes())
    assert vocabularies[0] == vocabularies[1]
    assert is_accounted_for(tmp_path / "poisoned", numbers)
    counted(bad_rows=len(numbers))


@pytest.mark.shows("D2")
def test_a_file_that_is_mostly_poison_is_refused_by_its_first_bad_row(
    commands: Any, tmp_path: Path
) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(b"good\n" + b"caf\xe9\n" * 9)
    ended = commands.run(["learn-vocab", str(file), "--out", str(tmp_path / "out")])
    assert ended.code == 1
    assert f"{file} line 2" in ended.said
    assert "Traceback" not in ended.said


# Examples


@pytest.fixture(scope="module")
def rows() -> list[bytes]:
    """Write labelled rows."""
    chance = random.Random(5)
    kinds = {"first": ("bal", "ken"), "second": ("sot", "tus")}
    made = []
    for _ in range(140):
        label = chance.choice(list(kinds))
        text = " ".join(chance.choices(kinds[label], k=chance.randint(2, 6)))
        made.append(json.dumps({"text": text, "label": label}).encode())
    return made


@pytest.mark.shows("D2")
def test_poisoned_examples_train_the_same_model_as_the_rest_alone(
    rows: list[bytes],
    commands: Any,
    whole: Callable[..., Path],
    as_words: Callable[[dict[str, Any]], list[str]],
    counted: Counted,
    tmp_path: Path,
) -> None:
    poisoned, numbers = mix(rows, list(BAD_ROWS.values()), seed=4)
    twice, _ = mix(rows, [], seed=4)
    (tmp_path / "dev.jsonl").write_bytes(b"".join(row + b"\n" for row in rows[:20]))
    models = []
    for name, data in (("clean", twice), ("poisoned", poisoned)):
        train = tmp_path / f"{name}.jsonl"
        train.write_bytes(data)
        flags = {"model": whole(), "train": train, "dev": tmp_path / "dev.jsonl", "epochs": 1}
        where = {"out": tmp_path / name, "device": "cpu", "threads": 1}
        ended = commands.run(["finetune", *as_words(flags | where)])
        assert ended.code == 0, ended.said
        models.append((tmp_path / name / "model.safetensors").read_bytes())
    assert models[0] == models[1]
    assert is_accounted_for(tmp_path / "poisoned", numbers)
    counted(bad_rows=len(numbers))


@pytest.mark.shows("D2")
def test_a_label_in_dev_that_training_does_not_have_is_named_by_its_line(
    rows: list[bytes],
    commands: Any,
    whole: Callable[..., Path],
    as_words: Callable[[dict[str, Any]], list[str]],
    tmp_path: Path,
) -> None:
    train, dev = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    train.write_bytes(b"".join(row + b"\n" for row in rows))
    dev.write_bytes(rows[0] + b'\n{"text": "bal", "label": "third"}\n')
    flags = {"model": whole(), "train": train, "dev": dev, "out": tmp_path / "out"}
    ended = commands.run(["finetune", *as_words(flags | {"device": "cpu"})])
    assert ended.code == 1
    assert f"{dev} line 2" in ended.said
    assert "third" in ended.said


# The controls


@pytest.mark.control("D2")
def test_a_bad_row_that_nobody_names_would_be_noticed(tmp_path: Path) -> None:
    rows = [{"file": "a.txt", "line": line, "reason": "not UTF-8"} for line in (3, 7, 8)]
    file = tmp_path / "quarantine.jsonl"
    for kept, numbers, is_good in (
        (rows, [3, 7, 8], True),
        (rows[:2], [3, 7, 8], False),
        (rows, [3, 7], False),
        ([{**rows[0], "reason": ""}], [3], False),
    ):
        file.write_text("".join(json.dumps(row) + "\n" for row in kept))
        assert is_accounted_for(tmp_path, numbers) is is_good
    file.unlink()
    assert not is_accounted_for(tmp_path, [3])


@pytest.mark.control("D2")
def test_a_good_line_that_is_lost_with_the_bad_ones_would_be_noticed(
    text: list[bytes], commands: Any, shards: Path, tmp_path: Path
) -> None:
    tokens = []
    for name, lines in (("all", text), ("less", text[1:])):
        file = tmp_path / f"{name}.txt"
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        words = ["tokenize", str(file), "--tokenizer", str(shards.parent / "tokenizer")]
        assert commands.run([*words, "--out", str(tmp_path / name), "--workers", "1"]).code == 0
        tokens.append((tmp_path / name / TOKENS[0]).read_bytes())
        shutil.rmtree(tmp_path / name)
    assert tokens[0] != tokens[1]
