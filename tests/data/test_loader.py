"""Batches arrive in order and are the same, however many processes make them."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import active_children
from pathlib import Path

import pytest
import torch

from bertworks.core.batch import Batch, Layout, Target
from bertworks.core.pieces import SpecialIds
from bertworks.core.settings import Ramp
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.loader import Ahead, load
from bertworks.data.masking import Masking
from bertworks.data.shards import Shards


@pytest.fixture
def batches(
    make_shards: Callable[..., Shards],
    make_documents: Callable[..., list[list[list[int]]]],
    specials: SpecialIds,
) -> CorpusBatches:
    """Make small pre-training batches of two parts each."""
    shards = make_shards(make_documents(31, seed=3), tokens_per_part=501)
    plan = BatchPlan(tokens=Ramp(203, 203), longest=31, accumulate=2, seed=5)
    return CorpusBatches(shards, Masking(specials, 97), plan)


ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
USE_WORKERS = """
import os, sys, torch
from contextlib import closing
from multiprocessing import active_children
from bertworks.core.batch import Batch, Layout
from bertworks.core.errors import BertworksError, TrainingError
from bertworks.data.loader import load


class Batches:
    def at(self, step):
        text = torch.full((3,), step)
        return [Batch(text, text, text, Layout.of((3,)), {{}}, (step,))]


def kill_and_wait(worker):
    worker.kill()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # dead, for all to see


with closing(load(Batches(), first=0, last=200, workers=2)) as loaded:
    next(loaded)
    {event}
    try:
        list(loaded)
    except BertworksError as error:
        raise SystemExit(2 if isinstance(error, TrainingError) else 3)
raise SystemExit(4)
"""
GET_STUCK = """
import os, signal, time
from bertworks.data.loader import load


class Batches:
    def at(self, step):
        if step == 1:
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(300)


list(load(Batches(), first=0, last=200, workers=2))
"""


def everything(batch: Batch) -> tuple[object, ...]:
    """Return all that a batch holds as plain data."""
    targets = {
        name: (t.values.tolist(), None if t.at is None else t.at.tolist(), t.count)
        for name, t in batch.targets.items()
    }
    tensors = (batch.tokens, batch.positions, batch.segments, batch.layout.starts)
    return ([t.tolist() for t in tensors], batch.layout.lengths, batch.ids, targets)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_give_the_batches_that_none_give(batches: CorpusBatches, workers: int) -> None:
    first, last = 3, batches.steps_in_epoch(0) + 5
    alone = [
        list(map(everything, step)) for step in load(batches, first=first, last=last, workers=0)
    ]
    helped = [
        list(map(everything, step))
        for step in load(batches, first=first, last=last, workers=workers)
    ]
    assert len(alone) == last - first
    assert helped == alone
    assert alone == [list(map(everything, batches.at(step))) for step in range(first, last)]


@pytest.mark.parametrize("workers", [0, 2])
def test_loading_leaves_the_global_generator_alone(batches: CorpusBatches, workers: int) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    list(load(batches, first=0, last=3, workers=workers))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 2])
def test_no_steps_give_no_batches(batches: CorpusBatches, workers: int) -> None:
    assert list(load(batches, first=5, last=5, workers=workers)) == []


class Failing:
    """Batches of which the third cannot be made."""

    def at(self, step: int) -> list[Batch]:
        if step == 2:
            raise ValueError("step 2 is broken")
        text = torch.full((3,), step)
        return [Batch(text, text, text, Layout.of((3,)), {"t": Target(text)}, (step,))]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failure_in_a_worker_comes_at_its_step(workers: int) -> None:
    with closing(load(Failing(), first=0, last=5, workers=workers)) as loaded:
        assert [next(loaded)[0].ids, next(loaded)[0].ids] == [(0,), (1,)]
        with pytest.raises(ValueError, match=r"^step 2 is broken$"):
            next(loaded)
    assert active_children() == []


def test_closing_ends_the_workers(batches: CorpusBatches) -> None:
    with closing(load(batches, first=0, last=1000, workers=2)) as loaded:
        next(loaded)
        assert len(active_children()) == 2
    assert active_children() == []


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ("kill_and_wait(active_children()[0])", 3),
        ("pass", 4),
    ],
)
def test_a_process_whose_worker_is_killed_says_so_at_the_next_step(event: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", USE_WORKERS.format(event=event)],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=200,  # it would hang for ever
        check=False,
    )
    assert done.returncode == code, done.stderr.decode()


def test_workers_that_are_stuck_end_with_a_process_that_is_killed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GET_STUCK],
        env=ENVIRONMENT,
        capture_output=True,  # which ends when all who could write have ended
        timeout=200,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize("workers", [0, 2])
def test_without_a_last_step_batches_come_for_as_long_as_they_are_taken(
    workers: int, batches: CorpusBatches
) -> None:
    per_epoch = batches.steps_in_epoch(0)
    with closing(load(batches, first=3, last=None, workers=workers)) as loaded:
        taken = [next(loaded) for _ in range(per_epoch + 2)]
    expected = [batches.at(step) for step in range(3, 3 + len(taken))]
    assert [[part.ids for part in parts] for parts in taken] == [
        [part.ids for part in parts] for parts in expected
    ]
    assert not active_children()


def test_a_batch_that_was_fetched_ahead_is_the_next_one(batches: CorpusBatches) -> None:
    ahead = Ahead(load(batches, first=2, last=6, workers=0))
    found = []
    for parts in ahead:
        ahead.fetch()
        ahead.fetch()  # a second time changes nothing
        found.append(list(map(everything, parts)))
    assert found == [list(map(everything, batches.at(step))) for step in range(2, 6)]


def test_what_fails_ahead_is_raised_when_its_batch_is_asked_for(batches: CorpusBatches) -> None:
    def make() -> Iterator[list[Batch]]:
        yield batches.at(0)
        raise ValueError("the second one")

    ahead = Ahead(make())
    next(ahead)
    ahead.fetch()
    with pytest.raises(ValueError, match="the second one"):
        next(ahead)
