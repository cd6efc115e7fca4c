"""The thread that computes: a bad item fails alone, a sick network fails everything."""

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from threading import Event, get_native_id
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.service.failures import Failure
from bertworks.service.jobs import Item, Job
from bertworks.service.pace import Pace
from bertworks.service.waiting import Batch
from bertworks.service.worker import STEP_BACK, Worker

SOON = 20.0
WARM_UP = Item("sum", 0, num_tokens=1)


class Ledger:
    """What a worker gave, and how often its network was asked."""

    def __init__(self, compute: Callable[[Any, list[Any]], Sequence[Any]]) -> None:
        self.outcomes: dict[Any, Any] = {}
        self.asked: list[list[Any]] = []
        self._compute = compute

    def work(
        self,
        contents: Sequence[Any],
        *,
        warm_up: Item | None = None,
        time_batch: Callable[[int, float], None] = lambda num_tokens, seconds: None,
    ) -> Worker:
        """Let a worker compute one batch, to the end."""
        jobs = [Job(Item("sum", content, num_tokens=2), deadline=1e9) for content in contents]
        batches = iter([Batch("sum", jobs, [])])
        worker = Worker(
            self.ask,
            warm_up=warm_up,
            time_batch=time_batch,
            take=lambda worker: next(batches, None),
            settle=self.settle,
        )
        worker.start()
        worker.join(SOON)
        assert not worker.is_alive
        return worker

    def ask(self, key: Any, contents: list[Any]) -> Sequence[Any]:
        self.asked.append(contents)
        return self._compute(key, contents)

    def settle(self, worker: Worker, job: Job, outcome: Any) -> None:
        assert job.item.content not in self.outcomes
        self.outcomes[job.item.content] = outcome

    def codes(self) -> dict[Any, str]:
        found = self.outcomes.items()
        return {content: one.code for content, one in found if isinstance(one, Failure)}


@settings(max_examples=60)
@given(size=st.integers(1, 41), poison=st.sets(st.integers(0, 40), max_size=4))
def test_only_poisonous_items_fail_and_few_forwards_find_them(size: int, poison: set[int]) -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if poison & set(contents):
            raise ValueError("bad numbers")
        return [content + 1 for content in contents]

    ledger = Ledger(compute)
    ledger.work(range(size))
    bad = poison & set(range(size))
    assert ledger.codes() == dict.fromkeys(bad, "failed")
    good = set(range(size)) - bad
    assert {content: ledger.outcomes[content] for content in good} == {n: n + 1 for n in good}
    assert len(ledger.asked) <= 1 + 2 * len(bad) * math.ceil(math.log2(size + 1))


def test_a_failure_names_its_kind_and_keeps_what_the_model_said_to_itself() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        raise ValueError("a private matter")

    ledger = Ledger(compute)
    ledger.work("x")
    assert "ValueError" in str(ledger.outcomes["x"])
    assert "private" not in str(ledger.outcomes["x"])


def test_too_little_memory_for_a_batch_is_enough_for_its_parts() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if len(contents) > 3:
            raise MemoryError
        return contents

    ledger = Ledger(compute)
    ledger.work(range(17))
    assert ledger.outcomes == {number: number for number in range(17)}


def test_an_items_own_failure_is_told_as_it_is() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if "raised" in contents:
            raise Failure("bad_value", "no such thing")
        return [Failure("not_finite", "no number") if c == "given" else c for c in contents]

    ledger = Ledger(compute)
    ledger.work(["a", "raised", "b", "given", "c"])
    assert ledger.codes() == {"raised": "bad_value", "given": "not_finite"}
    assert {"a", "b", "c"} <= set(ledger.outcomes)


def test_answers_of_another_number_are_nobodys() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        return [content for content in contents if content != 3]

    ledger = Ledger(compute)
    ledger.work(range(5))
    assert ledger.codes() == {3: "failed"}
    assert ledger.outcomes[4] == 4


def test_a_network_that_fails_its_warm_up_is_never_asked_again() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        raise RuntimeError("the device is gone")

    ledger = Ledger(compute)
    worker = ledger.work(range(1, 30), warm_up=WARM_UP)
    assert not worker.is_warm
    assert (ledger.asked, ledger.outcomes) == ([[0]], {})


def test_a_network_that_turns_sick_is_found_out_before_its_neighbors_are_blamed() -> None:
    is_sick = False

    def compute(key: Any, contents: list[Any]) -> list[Any]:
        nonlocal is_sick
        is_sick = is_sick or len(contents) > 1
        if is_sick:
            raise RuntimeError("the device is gone")
        return contents

    ledger = Ledger(compute)
    worker = ledger.work(range(1, 30), warm_up=WARM_UP)
    assert worker.is_warm
    assert len(ledger.asked) == 3
    assert ledger.outcomes == {}


def test_a_sound_network_is_asked_its_warm_up_once_more_after_a_failure() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if 2 in contents:
            raise ValueError
        return contents

    ledger = Ledger(compute)
    ledger.work([1, 2, 3], warm_up=WARM_UP)
    assert ledger.codes() == {2: "failed"}
    assert ledger.asked.count([0]) == 2


@pytest.mark.parametrize("is_failing", [False, True])
def test_a_relieved_worker_takes_no_more_and_its_pace_does_not_count(is_failing: bool) -> None:
    pace = Pace()
    jobs = [Job(Item("sum", content, 1), 1e9) for content in range(8)]

    def take(worker: Worker) -> Batch | None:
        return None if worker.is_relieved else Batch("sum", jobs, [])

    def compute(key: Any, contents: list[Any]) -> list[Any]:
        worker.is_relieved = True
        return [] if is_failing else contents

    ledger = Ledger(compute)
    worker = Worker(ledger.ask, warm_up=None, time_batch=pace.add, take=take, settle=ledger.settle)
    worker.start()
    worker.join(SOON)
    assert len(ledger.asked) == 1
    assert pace.seconds(1) is None


def test_a_thread_that_ends_is_lost_and_one_that_never_began_too() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        raise SystemExit

    ledger = Ledger(compute)
    assert ledger.work([1, 2]).is_lost(stuck_after=SOON, since=0.0)
    assert ledger.outcomes == {}
    idle = Worker(
        compute, warm_up=None, time_batch=Pace().add, take=lambda worker: None, settle=ledger.settle
    )
    assert idle.is_lost(stuck_after=SOON, since=0.0)


def test_a_worker_is_late_when_it_takes_many_times_as_long_as_before() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        time.sleep(0.01)
        return contents

    worker = Ledger(compute).work([1, 2, 3])
    assert worker.is_busy
    worker.begin(num_tokens=100_000)
    assert not worker.is_late(late_after=0.0)
    assert not worker.is_late(late_after=SOON)
    worker.begin(num_tokens=0)
    assert worker.is_late(late_after=0.0)
    worker.rest()
    assert not worker.is_late(late_after=0.0)


def test_what_is_written_is_not_expected_as_soon_as_what_is_read() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if contents == [WARM_UP.content]:
            time.sleep(0.01)
        return contents

    worker = Ledger(compute).work([1, 2, 3], warm_up=WARM_UP)
    worker.begin(num_tokens=1)
    time.sleep(0.05)
    assert worker.is_late(late_after=0.0)
    worker.begin(num_tokens=10_000, is_writing=True)
    assert not worker.is_late(late_after=0.0)


def test_a_large_batch_of_a_slow_network_is_waited_for() -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        time.sleep(0.01)
        return contents

    has_begun, may_end = Event(), Event()

    def take(worker: Worker) -> Batch | None:
        has_begun.set()
        may_end.wait(SOON)
        return None

    ledger, pace = Ledger(compute), Pace()
    worker = Worker(
        ledger.ask, warm_up=WARM_UP, time_batch=pace.add, take=take, settle=ledger.settle
    )
    worker.start()
    assert has_begun.wait(SOON)
    worker.begin(num_tokens=100_000)
    assert not worker.is_lost(stuck_after=0.0, since=0.0)
    pace.add(num_tokens=100, seconds=1.0)
    assert 900 < worker.seconds_left(pace) <= 1000
    worker.begin(num_tokens=0)
    assert worker.is_lost(stuck_after=0.0, since=0.0)
    assert worker.seconds_left(pace) == 0
    may_end.set()
    worker.join(SOON)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a thread has its own priority")
def test_who_computes_lets_others_go_first() -> None:
    found: list[int] = []

    def compute(key: Any, contents: list[Any]) -> list[Any]:
        found.append(os.getpriority(os.PRIO_PROCESS, get_native_id()))
        return contents

    own = os.getpriority(os.PRIO_PROCESS, get_native_id())
    Ledger(compute).work([1, 2])
    assert found == [min(own + STEP_BACK, 19)]
    assert os.getpriority(os.PRIO_PROCESS, get_native_id()) == own


@pytest.mark.parametrize("is_poisoned", [False, True])
def test_a_batch_that_is_taken_apart_says_nothing_of_the_pace(is_poisoned: bool) -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if is_poisoned and 2 in contents:
            raise ValueError("poison")
        return contents

    timed: list[tuple[int, float]] = []
    ledger = Ledger(compute)
    ledger.work([1, 2, 3], time_batch=lambda num_tokens, seconds: timed.append((num_tokens, 0.0)))
    assert timed == ([] if is_poisoned else [(6, 0.0)])
