"""Resuming: the same texts in the same order, or a refusal that says why; one process at a time."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import bertworks
from bertworks.core.artifact import Origin
from bertworks.core.errors import UsageError
from bertworks.training.optimizer import make_optimizer
from bertworks.training.run import Counters, Run, whole_checkpoints

SOURCES = Path(bertworks.__file__).parents[1]
NUM_EPOCHS = 3
THREE_EPOCHS = {"steps": 24, "size": "1x64", "evaluate_every": 100, "checkpoint_every": 4}
Words = Callable[..., list[str]]
Whole = Callable[..., Path]
IsSame = Callable[[Path, Path], bool]
Ledger = Callable[[Path], dict[int, list[int]]]
Counted = Callable[..., None]


# Other settings


@pytest.mark.shows("T9")
def test_the_number_of_workers_may_change_on_the_way(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    read_ledger: Ledger,
    counted: Counted,
    tmp_path: Path,
) -> None:
    out, ledger = tmp_path / "run", tmp_path / "ledger.jsonl"
    for workers in (2, 0, 3):
        words = pretrain(out, workers=workers)
        ended = commands.run(words, fate=make_fate("record", 4), ledger=ledger)
        assert ended.code == -signal.SIGKILL
        counted(other_settings=1)
    assert commands.run(pretrain(out, workers=1), ledger=ledger).code == 0
    assert read_ledger(ledger) == read_ledger(whole().parent / "ledger.jsonl")
    assert is_same(out, whole())


@pytest.mark.shows("T9")
@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_tokens", 300), ("seed", 3), ("longest", 20)],
)
def test_what_changes_a_batch_is_refused_by_name(
    name: str,
    value: Any,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    counted: Counted,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    assert commands.run(pretrain(out), fate=make_fate("record", 5)).code < 0
    before = (out / "log.jsonl").read_bytes()
    ended = commands.run(pretrain(out, **{name: value}))
    assert ended.code == 2
    assert f"{out} was begun with {name} = " in ended.said.splitlines()[-1]
    assert "resume with the same settings or choose another --out" in ended.said
    assert (out / "log.jsonl").read_bytes() == before
    counted(refusals=1)


@pytest.mark.shows("T9")
def test_another_device_keeps_the_order_and_another_arithmetic_is_refused(tmp_path: Path) -> None:
    torch.manual_seed(3)
    model = nn.Linear(3, 5)
    optimizer = make_optimizer(model, lr=0.1, weight_decay=0.1)
    here = {"device": "cpu", "precision": "fp32", "seed": 0}
    begun = Run(tmp_path / "run", origin=Origin(settings=here), resume=False)
    begun.save(model, optimizer, Counters(4))
    elsewhere = Origin(settings=here | {"device": "cuda"})  # a batch does not depend on it
    assert Run(begun.folder, origin=elsewhere, resume=True).restore(model, optimizer).step == 4
    other = Origin(settings=here | {"device": "cuda", "precision": "bf16"})
    with pytest.raises(UsageError, match="begun with precision = 'fp32', now 'bf16'"):
        Run(begun.folder, origin=other, resume=True).restore(model, optimizer)


@pytest.mark.control("T9")
def test_a_run_that_takes_another_batch_size_would_be_noticed(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    read_ledger: Ledger,
    tmp_path: Path,
) -> None:
    out, ledger = tmp_path / "run", tmp_path / "ledger.jsonl"
    assert commands.run(pretrain(out), fate=make_fate("step", 4), ledger=ledger).code < 0
    ledger.unlink()
    words = pretrain(out, batch_tokens=300)
    assert commands.run(words, ledger=ledger, switches=("be_careless",)).code == 0
    expected = read_ledger(whole().parent / "ledger.jsonl")
    found = read_ledger(ledger)
    assert all(found[step] != expected[step] for step in found)


# The order of the texts


def epochs_of(ledger: dict[int, list[int]], num_texts: int) -> list[Counter[int]]:
    """Count how often each text comes, in each run of as many texts as the corpus has."""
    order = [text for step in sorted(ledger) for text in ledger[step]]
    starts = range(0, len(order) - num_texts + 1, num_texts)
    return [Counter(order[start : start + num_texts]) for start in starts]


def is_each_text_once(ledger: dict[int, list[int]]) -> bool:
    """Tell whether every epoch has every text exactly once."""
    num_texts = max(text for ids in ledger.values() for text in ids) + 1
    epochs = epochs_of(ledger, num_texts)
    once = Counter(range(num_texts))
    return len(epochs) >= NUM_EPOCHS and all(epoch == once for epoch in epochs)


@pytest.mark.shows("D1")
@pytest.mark.parametrize("workers", [0, 3])
def test_every_text_comes_once_an_epoch_and_in_the_same_order_after_kills(
    workers: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    read_ledger: Ledger,
    counted: Counted,
    tmp_path: Path,
) -> None:
    expected = read_ledger(whole(**THREE_EPOCHS).parent / "ledger.jsonl")
    assert is_each_text_once(expected)
    out, ledger = tmp_path / "run", tmp_path / "ledger.jsonl"
    words = pretrain(out, **THREE_EPOCHS, workers=workers)
    for step in (7, 9, 21):
        assert commands.run(words, fate=make_fate("step", step), ledger=ledger).code < 0
        counted(kills=1)
    assert commands.run(words, ledger=ledger).code == 0
    assert read_ledger(ledger) == expected
    counted(steps=len(expected), texts=sum(map(len, expected.values())))


@pytest.mark.control("D1")
def test_an_order_that_is_drawn_anew_would_be_noticed(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    read_ledger: Ledger,
    tmp_path: Path,
) -> None:
    expected = read_ledger(whole(**THREE_EPOCHS).parent / "ledger.jsonl")
    out, ledger = tmp_path / "run", tmp_path / "ledger.jsonl"
    words = pretrain(out, **THREE_EPOCHS)
    assert commands.run(words, fate=make_fate("step", 8), ledger=ledger).code < 0
    rest = tmp_path / "rest.jsonl"
    assert commands.run(words, ledger=rest, switches=("forget_order",)).code == 0
    found = {step: ids for step, ids in read_ledger(ledger).items() if step <= 8}
    found |= read_ledger(rest)
    assert found.keys() == expected.keys()
    assert found != expected
    assert not is_each_text_once(found)


# One process at a time


@pytest.mark.shows("T9")
def test_a_second_process_in_the_same_run_is_refused_until_the_first_is_dead(
    commands: Any, make_fate: Any, pretrain: Words, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, steps=1_000_000, evaluate_every=1_000_000, workers=1)
    command = [sys.executable, "-m", "bertworks", *words]
    first = subprocess.Popen(command, cwd=SOURCES, stderr=subprocess.DEVNULL)
    while not whole_checkpoints(out):
        assert first.poll() is None
        time.sleep(0.01)
    ended = commands.run(words)
    first.kill()
    first.wait()
    assert ended.code == 2
    assert f"another process is training in {out}; wait for its end" in ended.said
    assert commands.run(words, fate=make_fate("record", 2)).code == -signal.SIGKILL  # it got in
