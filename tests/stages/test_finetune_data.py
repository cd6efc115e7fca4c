"""What is learned from: files that are read and cut, and the rows of them that are set aside."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import STANDARD_INPUT
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import OpenModel
from bertworks.stages.finetune_data import CutAnew, cut_task, read_task
from bertworks.stages.task_list import TaskSource
from bertworks.stages.task_settings import TaskSettings
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.piece_dropout import PieceDropout
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


def test_which_label_of_pairs_means_the_same_is_said(
    write_rows: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("正例", "负例")
    rows = [{"text": f"a {n}", "text_b": f"b {n}", "label": labels[n % 2]} for n in range(20)]
    train = write_rows(tmp_path / "train.jsonl", rows)
    source = TaskSource(train=train, dev=train, task="embed")
    assert read_task(source, {}).task.labels == ("负例", "正例")
    said = "task embed: '正例' means that texts belong together; --same names the other label"
    assert said in capsys.readouterr().err
    named = replace(source, of_task=TaskSettings(same="负例"))
    assert read_task(named, {}).task.labels == ("正例", "负例")
    assert "belong together" not in capsys.readouterr().err


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


@pytest.fixture
def cut_anew(
    config: EncoderConfig, kinds: dict[str, Tokenizer], write_rows: Write, tmp_path: Path
) -> Callable[..., CutAnew]:
    """Read and cut rows by bytes, so that they can be cut anew into very small pieces."""

    def cut(rows: list[Any], *, rate: float = 0.5, **flags: Any) -> CutAnew:
        tokenizer = kinds["byte-bpe"]
        train, dev = (write_rows(tmp_path / f"{name}.jsonl", rows) for name in ("train", "dev"))
        learned = read_task(TaskSource(train=train, dev=dev, of_task=TaskSettings(**flags)), {})
        model = TaskModel(replace(config, vocab_size=tokenizer.vocab_size), [learned.task], seed=3)
        learned = cut_task(learned, OpenModel(model, tokenizer, None), 32)
        return CutAnew(learned, PieceDropout(tokenizer, rate=rate, seed=3), 32)

    return cut


def test_rows_are_cut_anew_on_both_sides_in_each_epoch(
    cut_anew, kinds: dict[str, Tokenizer]
) -> None:
    row = {"source": "the cat looked", "target": "die Katze sitzt"}
    made = cut_anew([row, row])
    tokenizer, seen = kinds["byte-bpe"], set()
    for epoch in range(3):
        for number in (0, 1):
            (window,) = made(epoch, number)
            assert tokenizer.text_of(window.tokens) == row["source"]
            assert tokenizer.text_of(window.reply) == row["target"]
            assert [*window.reply[1:], tokenizer.specials.separator] == list(
                window.goals["generate"].values
            )
            seen.add((*window.tokens, *window.reply))
            (again,) = made(epoch, number)
            assert (*again.tokens, *again.reply) == (*window.tokens, *window.reply)
    assert len(seen) == 6
    plain = made.learned.dev.windows[0][0].tokens.tolist()
    assert plain[1:-1] == tokenizer.ids_of([row["source"]])[0]
    assert tuple(plain) not in {own[: len(plain)] for own in seen}


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("decoder", ["fresh", "prefix"])
def test_what_smaller_pieces_make_too_long_is_cut_plainly(
    side: str, decoder: str, cut_anew
) -> None:
    long = {"source": "the cat", "target": "the cat", side: "the cat looked at the dog on the mat"}
    made = cut_anew([long] * 9, rate=0.99, decoder=decoder, longest_reply=14)
    assert made(0, 3) is made.learned.training.windows[3]
    short = {"source": "the cat", "target": "the cat"}
    made = cut_anew([short] * 9, rate=0.99, decoder=decoder, longest_reply=14)
    assert made(0, 3) is not made.learned.training.windows[3]


def test_no_text_takes_more_windows_for_its_smaller_pieces(cut_anew) -> None:
    rows = [{"text": "the cat sat on the mat " * n, "label": "ab"[n % 2]} for n in (1, 2, 3, 6)]
    made = cut_anew(rows, rate=0.99)
    plain = made.learned.training.windows
    assert [len(own) for own in plain] == [1, 1, 1, 2]
    assert [len(made(0, row)) for row in range(4)] == [1, 1, 1, 2]
    assert len(made(0, 0)[0].tokens) > len(plain[0][0].tokens)


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
