"""vocab inspect: numbers on a text, shown as a table or as JSON, with a report where wanted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import open_artifact
from bertworks.tokenizer.tokenizer import Tokenizer

Run = Callable[..., Any]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Write a text in two scripts, with words that the vocabulary lacks."""
    path = tmp_path / "mixed.txt"
    path.write_text("River boat, 北京!\nzebra zebra\n\nriver\n", encoding="utf-8")
    return path


def test_the_numbers_are_those_of_the_tokenizer(
    mixed: Path, vocabulary: Path, command: Run
) -> None:
    ended = command("vocab", "inspect", mixed, "--tokenizer", vocabulary, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    tokenizer = Tokenizer.open(vocabulary)
    ids = tokenizer.ids_of(["River boat, 北京!\nzebra zebra", "river"])
    assert found["words"] == 7
    assert found["pieces"] == sum(map(len, ids))
    assert found["vocabulary"] == tokenizer.vocab_size
    assert found["unused_pieces"] == tokenizer.vocab_size - len({*ids[0], *ids[1]})
    assert [row["script"] for row in found["scripts"]] == ["Latin", "Han"]
    assert found["scripts"][1]["covered"] == 0.0
    assert {"text": "zebra", "count": 2} in found["unknown_words"]
    assert found["bad_rows"] == 0


def test_people_get_tables(mixed: Path, vocabulary: Path, command: Run) -> None:
    lines = command("vocab", "inspect", mixed, "--tokenizer", vocabulary).out.splitlines()
    assert lines[0] == "words: 7"
    header = next(line for line in lines if line.split()[:1] == ["script"])
    latin = next(line for line in lines if line.split()[:1] == ["Latin"])
    assert len(header) == len(latin)
    assert header.endswith("  words  share of words  covered  fertility  whole words")


def test_a_report_holds_the_same_numbers_and_the_unused_pieces(
    mixed: Path, vocabulary: Path, command: Run, tmp_path: Path, run_again: Run
) -> None:
    out = tmp_path / "report"
    words = ["vocab", "inspect", mixed, "--tokenizer", vocabulary, "--out", out, "--json"]
    found = json.loads(command(*words).out)
    assert found.pop("report") == str(out)
    manifest = open_artifact(out, "report")
    assert manifest["command"].startswith(f"bertworks vocab inspect {mixed} --tokenizer ")
    assert manifest["inputs"].keys() == {"tokenizer", str(mixed)}
    assert json.loads((out / "inspection.json").read_text(encoding="utf-8")) == found
    unused = (out / "unused.txt").read_text(encoding="utf-8").splitlines()
    assert len(unused) == found["unused_pieces"]
    assert "[PAD]" in unused
    again = run_again(out, tmp_path / "again")
    assert (again / "inspection.json").read_bytes() == (out / "inspection.json").read_bytes()
    assert "exists already" in command(*words).refusal(2)


def test_a_model_folder_and_a_folder_from_elsewhere_serve_as_tokenizers(
    mixed: Path, pretrained: Path, vocabulary: Path, command: Run, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "vocab.txt").write_bytes((vocabulary / "vocab.txt").read_bytes())
    shown = [
        command("vocab", "inspect", mixed, "--tokenizer", folder).out
        for folder in (vocabulary, pretrained, bare)
    ]
    assert shown[0] == shown[1] == shown[2]


def test_bad_rows_are_counted_and_said(vocabulary: Path, command: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "river boat"}\n' * 20 + "[]\n")
    out = tmp_path / "report"
    ended = command("vocab", "inspect", file, "--tokenizer", vocabulary, "--out", out, "--json")
    assert json.loads(ended.out)["bad_rows"] == 1
    assert "rows.jsonl line 21: not a JSON object" in ended.err
    assert (out / "quarantine.jsonl").read_text().count("\n") == 1


def test_what_cannot_be_inspected_is_one_sentence(
    mixed: Path, vocabulary: Path, shards: Path, command: Run, tmp_path: Path
) -> None:
    blank = tmp_path / "blank.txt"
    blank.write_text("\n \n")
    words = ["vocab", "inspect", blank, "--tokenizer", vocabulary]
    assert "holds no text" in command(*words).refusal(1)
    words = ["vocab", "inspect", mixed, "--tokenizer", shards]
    assert "but a tokenizer or model is needed" in command(*words).refusal(1)
    words = ["vocab", "inspect", mixed, "--tokenizer", tmp_path / "gone"]
    assert "there is no folder" in command(*words).refusal(1)
