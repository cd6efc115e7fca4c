"""What is learned from: files that are read and cut, and the rows of them that are set aside."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import STANDARD_INPUT
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import OpenModel
from bertworks.stages.finetune_data import cut_task, read_task
from bertworks.stages.task_list import TaskSource
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

Run = Callable[..., Any]
Words = Callable[..., list[Any]]
Write = Callable[[Path, list[Any]], Path]
LONG = {"source": "cat " * 90, "target": "dog"}
TOO_LONG = "the source has 90 pieces, but 30 are read; shorten it, or fine-tune with"


def pairs(count: int) -> list[dict[str, str]]:
    return [{"source": f"cat {n}", "target": f"dog {n}"} for n in range(count)]


def test_rows_tell_the_task_its_labels_and_what_is_bad(write_rows: Write, tmp_path: Path) -> None:
    rows = [{"text": f"boat {n}", "label": "ab"[n % 2]} for n in range(20)]
    train = write_rows(tmp_path / "train.jsonl", [*rows, "torn"])
    dev = write_rows(tmp_path / "dev.jsonl", rows[:6])
    learned = read_task(TaskSource(train=train, dev=dev), {})
    assert (learned.task.kind, learned.task.labels) == ("classify", ("a", "b"))
    assert (len(learned.training.examples), len(learned.dev.examples)) == (20, 6)
    assert [row.line for row in learned.training.quarantine.rows] == [21]
    assert learned.dev.quarantine.num_bad == 0
    with pytest.raises(UsageError, match="examples cannot come from standard input"):
        read_task(TaskSource(train=train, dev=STANDARD_INPUT), {})


@pytest.fixture
def cut(
    config: EncoderConfig, tokenizer: Tokenizer, write_rows: Write, tmp_path: Path
) -> Callable[[list[Any]], Any]:
    """Read and cut rows of sources and targets, to train on and to judge by."""

    def cut(rows: list[Any]) -> Any:
        train = write_rows(tmp_path / "train.jsonl", rows)
        dev = write_rows(tmp_path / "dev.jsonl", pairs(4))
        learned = read_task(TaskSource(train=train, dev=dev), {})
        model = TaskModel(config, [learned.task], seed=3)
        return cut_task(learned, OpenModel(model, tokenizer, None), 32)

    return cut


def test_a_source_that_is_too_long_is_set_aside_with_its_line(cut) -> None:
    part = cut([*pairs(8), LONG, *pairs(6)]).training
    assert len(part.examples) == len(part.windows) == 14
    assert [own[0].example for own in part.windows] == [row.line for row in part.examples]
    (aside,) = part.quarantine.rows
    assert aside.line == 9
    assert aside.reason.startswith(TOO_LONG)


def test_what_cannot_be_read_and_what_is_too_long_are_at_most_a_tenth_together(cut) -> None:
    assert len(cut([*pairs(18), "torn", LONG]).training.examples) == 18
    with pytest.raises(DataError, match=r"3 of 20 rows cannot be used, the first at .* line 18"):
        cut([*pairs(17), "torn", LONG, LONG])
    with pytest.raises(DataError, match=rf"2 of 19 rows .* line 18: {TOO_LONG}"):
        cut([*pairs(17), LONG, LONG])


def test_a_training_goes_on_without_sources_that_are_too_long(
    finetune_words: Words, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    boat = {"source": "the boat", "target": "a river"}
    long = {"source": "boat " * 90, "target": "a river"}
    train = write_rows(tmp_path / "train.jsonl", [*[boat] * 11, long])
    dev = write_rows(tmp_path / "dev.jsonl", [long, *[boat] * 10])
    words = finetune_words(tmp_path / "run", train=train, dev=dev, epochs=1, longest_reply=4)
    ended = command(*words, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["bad_rows"] == 2
    assert "warning: 2 rows were set aside in quarantine.jsonl; the first: " in ended.err
    rows = map(json.loads, (tmp_path / "run" / "quarantine.jsonl").read_text().splitlines())
    assert [(Path(row["file"]).name, row["line"]) for row in rows] == [
        ("train.jsonl", 12),
        ("dev.jsonl", 1),
    ]
    told = json.loads((tmp_path / "run" / "report.json").read_text())
    assert {own["name"]: own["rows"] for own in told["data"]["files"]}["train"] == 11
