"""pairs: documents become rows that finetune reads, the same for the same seed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import open_artifact

Run = Callable[..., Any]
TEXT = "The first cat sleeps here. The second cat runs away.\nThe third cat eats fish.\n\n"
OTHER = "One old dog barks at night. Two young dogs bark at noon.\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Write three documents, two of which are the same."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT + TEXT + OTHER)
    return path


def rows(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]


def test_what_was_there_already_is_not_taken_again(text: Path, command: Run) -> None:
    out = text.parent / "pairs"
    ended = command("pairs", text, "--out", out, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == {
        "pairs": str(out / "pairs.jsonl"),
        "documents": 3,
        "rows": 2,
        "bad_rows": 0,
    }
    assert rows(out)[0] == {
        "text": "The first cat sleeps here.",
        "text_b": "The second cat runs away.",
    }
    manifest = open_artifact(out, "pairs")
    assert (manifest["settings"]["kind"], manifest["seed"]) == ("neighbours", 0)


def test_a_text_is_in_one_row_on_whichever_side(tmp_path: Path, command: Run) -> None:
    """Rows are told apart from each other when they are learned, and a footer is in all."""
    file, out = tmp_path / "text.txt", tmp_path / "pairs"
    footer = "All rights of this page are reserved."
    own = (f"The {n} of these animals runs and jumps. {footer}\n\n" for n in range(9))
    file.write_text("".join(own) + f"{footer} Then somebody wrote this below it.\n")
    assert command("pairs", file, "--out", out).code == 0
    assert [row["text_b"] for row in rows(out)] == [footer]


def test_sentences_alone_have_one_column(text: Path, command: Run) -> None:
    out = text.parent / "alone"
    assert command("pairs", text, "--kind", "sentences", "--out", out).code == 0
    assert rows(out)[-1] == {"text": "Two young dogs bark at noon."}
    assert len(rows(out)) == 5


def test_the_same_seed_takes_the_same(text: Path, command: Run) -> None:
    found = {}
    for seed, name in ((1, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")):
        one = ["--kind", "sentences", "--per-document", 1, "--seed", seed]
        command("pairs", text, *one, "--out", text.parent / name)
        found[name] = rows(text.parent / name)
    assert found["a"] == found["b"]
    assert any(found[name] != found["a"] for name in "cde")


def test_bad_rows_are_set_aside_and_counted(tmp_path: Path, command: Run) -> None:
    lines = [json.dumps({"text": OTHER})] * 20 + ["no json"]
    (tmp_path / "text.jsonl").write_text("\n".join(lines))
    ended = command("pairs", tmp_path / "text.jsonl", "--out", tmp_path / "pairs", "--json")
    assert json.loads(ended.out)["bad_rows"] == 1
    assert "line 21" in ended.err
    assert (tmp_path / "pairs" / "quarantine.jsonl").is_file()


def test_text_without_sentences_that_count_is_refused_and_leaves_nothing(
    text: Path, command: Run
) -> None:
    out = text.parent / "pairs"
    ended = command("pairs", text, "--shortest", 50, "--out", out)
    assert ended.code == 1
    assert "no sentences of 50 to 60 words" in ended.err
    assert not out.exists()


def test_limits_that_exclude_each_other_are_refused(text: Path, command: Run) -> None:
    refusal = command("pairs", text, "--longest", 4, "--out", text.parent / "p").refusal(2)
    assert "--shortest 5 is more than --longest 4; lower it" in refusal


def test_a_folder_that_is_there_is_not_written_over(text: Path, command: Run) -> None:
    out = text.parent / "pairs"
    command("pairs", text, "--out", out)
    assert "choose another --out" in command("pairs", text, "--out", out).refusal(2)
