"""Many clients, one worker: every job is settled once, whatever happens."""

import logging
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from bertworks.service import batcher as batcher_module
from bertworks.service.batcher import TIMES_OWN, Batcher, BatchLimits
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item, Job

SOON = 20.0  # seconds in which a thing that happens at all has happened
WARM_UP = Item("double", "warm", num_tokens=1)
Compute = Callable[[Any, list[Any]], Sequence[Any]]


def job(content: Any, *, num_tokens: int = 3, key: str = "double", within: float = SOON) -> Job:
    return Job(Item(key, content, num_tokens), time.monotonic() + within)


def double(key: Any, contents: list[Any]) -> list[Any]:
    return [2 * content for content in contents]


class Network:
    """A computation that can be held up and looked at."""

    def __init__(self, compute: Compute = double) -> None:
        self.seen: list[list[Any]] = []
        self.gates: dict[Any, Event] = {}  # contents that are computed only when they are opened
        self._begun: dict[Any, Event] = {}
        self._compute = compute

    def __call__(self, key: Any, contents: list[Any]) -> Sequence[Any]:
        self.seen.append(contents)
        for content in contents:
            if content in self.gates:
                self._begun[content].set()
                assert self.gates[content].wait(SOON)
        return self._compute(key, contents)

    def hold(self, content: Any) -> Event:
        """Let a content take until the event is set."""
        self._begun[content] = Event()
        self.gates[content] = Event()
        return self.gates[content]

    def wait_for(self, content: Any) -> None:
        assert self._begun[content].wait(SOON)

    @property
    def computed(self) -> list[Any]:
        return [content for contents in self.seen for content in contents]


@pytest.fixture
def make() -> Iterator[Callable[..., Batcher]]:
    made: list[Batcher] = []

    def make(compute: Compute = double, *, start: bool = True, **limits: Any) -> Batcher:
        other = {name: limits.pop(name) for name in ("warm_up", "on_give_up") if name in limits}
        made.append(Batcher(compute, BatchLimits(**{"wait": SOON, **limits}), **other))
        if start:
            made[-1].start()
        return made[-1]

    yield make
    for batcher in made:
        batcher.stop(drain=0.0)


def code_of(job: Job) -> str:
    with pytest.raises(Failure) as caught:
        job.answer.result(SOON)
    return caught.value.code


def refusal_of(batcher: Batcher, jobs: list[Job]) -> Failure:
    with pytest.raises(Failure) as caught:
        batcher.submit(jobs)
    return caught.value


def comes_true(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + SOON
    while not is_so() and time.monotonic() < end:
        time.sleep(0.002)
    return is_so()


def is_balanced(batcher: Batcher) -> bool:
    """Tell whether every job that was taken is accounted for."""
    ended = batcher.num_computed + batcher.num_expired + batcher.num_skipped + batcher.num_failed
    return batcher.num_submitted == ended + batcher.num_waiting + batcher.num_in_hand


def test_every_job_gets_its_own_answer(make: Any) -> None:
    batcher = make()
    jobs = [job(content) for content in range(37)]
    batcher.submit(jobs[:5])
    batcher.submit(jobs[5:])
    assert [one.answer.result(SOON) for one in jobs] == list(range(0, 74, 2))
    assert (batcher.num_computed, batcher.num_failed, batcher.waiting_tokens) == (37, 0, 0)
    assert batcher.num_tokens == 3 * 37


def test_nothing_to_submit_is_no_work(make: Any) -> None:
    batcher = make()
    batcher.submit([])
    assert (batcher.num_submitted, batcher.num_batches) == (0, 0)


def test_jobs_gather_while_the_worker_is_busy(make: Any) -> None:
    network = Network()
    gate = network.hold("first")
    batcher = make(network)
    batcher.submit([job("first")])
    network.wait_for("first")
    later = [job(f"later {number}") for number in range(7)]
    for one in later:
        batcher.submit([one])
    assert (batcher.num_waiting, batcher.waiting_tokens, batcher.num_in_hand) == (7, 21, 1)
    gate.set()
    assert later[-1].answer.result(SOON) == "later 6later 6"
    assert [len(contents) for contents in network.seen] == [1, 7]


def test_an_idle_worker_waits_for_company_only_when_told_to(make: Any) -> None:
    network = Network()
    batcher = make(network, oldest=SOON / 2, batch_tokens=6)
    first, second = job(1), job(2)
    batcher.submit([first])
    assert batcher.num_batches == 0
    batcher.submit([second])  # and the batch is full
    assert (first.answer.result(SOON), second.answer.result(SOON)) == (2, 4)
    assert len(network.seen) == 1


def test_company_is_not_waited_for_longer_than_the_oldest_may_wait(make: Any) -> None:
    batcher = make(oldest=0.02)
    one = job(1)
    batcher.submit([one])
    assert one.answer.result(SOON) == 2


def test_keys_are_never_mixed(make: Any) -> None:
    seen = []

    def compute(key: Any, contents: list[Any]) -> list[Any]:
        seen.append((key, set(contents)))
        return contents

    batcher = make(compute, start=False)
    jobs = [job(key, key=key) for key in "abcab"]
    batcher.submit(jobs)
    batcher.start()
    assert [one.answer.result(SOON) for one in jobs] == list("abcab")
    assert sorted(seen) == [(key, {key}) for key in "abc"]


def test_there_is_room_for_all_jobs_of_a_request_or_for_none(make: Any) -> None:
    batcher = make(start=False, queue_tokens=10)
    batcher.submit([job(1), job(2)])
    refused = refusal_of(batcher, [job(3), job(4)])
    assert (refused.code, refused.status) == ("overloaded", 429)
    assert refused.retry_after == 1.0
    assert (batcher.num_waiting, batcher.waiting_tokens, batcher.num_refused) == (2, 6, 1)
    batcher.submit([job(5)])
    with pytest.raises(Failure, match="9 tokens wait already"):
        batcher.submit([job(6)])
    with pytest.raises(Failure, match="the request has 12 tokens but 10 may wait"):
        batcher.submit([job(7)] * 4)
    assert batcher.num_refused == 2
    assert batcher.num_submitted == 3


def test_a_full_line_is_told_before_any_work_is_put_into_a_request(make: Any) -> None:
    batcher = make(start=False, queue_tokens=6)
    batcher.require_room(time.monotonic() + SOON)
    batcher.submit([job(1), job(2)])
    with pytest.raises(Failure, match="6 tokens wait already"):
        batcher.require_room(time.monotonic() + SOON)


def test_what_never_fits_is_not_told_to_come_again(make: Any) -> None:
    batcher = make(start=False, queue_tokens=10)
    refused = refusal_of(batcher, [job(number) for number in range(4)])
    assert (refused.code, refused.retry_after) == ("too_large", None)
    assert "12 tokens" in str(refused)


def test_the_refused_are_told_how_long_the_work_before_them_takes(make: Any) -> None:
    network = Network()
    network.hold("first")
    batcher = make(network, batch_tokens=4, queue_tokens=30, stuck_after=SOON)
    batcher._pace.add(num_tokens=4, seconds=2.0)
    batcher.submit([job("first")])
    network.wait_for("first")
    batcher.submit([job(1, num_tokens=20)])
    assert refusal_of(batcher, [job(2, num_tokens=18)]).retry_after == pytest.approx(4.0)
    network.gates["first"].set()


def test_who_cannot_come_before_the_deadline_is_refused_at_the_door(make: Any) -> None:
    network = Network()
    network.hold("first")
    batcher = make(network, batch_tokens=4)
    batcher._pace.add(num_tokens=4, seconds=2.0)
    batcher.submit([job("first")])
    network.wait_for("first")
    batcher.submit([job(1, num_tokens=8, within=3.0)])
    refused = refusal_of(batcher, [job(2, within=3.0)])
    assert (refused.code, refused.retry_after) == ("overloaded", pytest.approx(4.0))
    refusal_of(batcher, [job(3, within=5.0)])  # what is in hand takes its time, too
    batcher.submit([job(4, within=6.0)])
    network.gates["first"].set()


def count_let_in(make: Any, *, num_tokens: int, wait: float) -> tuple[int, float | None]:
    """Return how many alike requests are let in behind a large one, and when to come again."""
    network = Network()
    gate = network.hold("first")
    batcher = make(network, wait=wait)
    batcher._pace.add(num_tokens=1000, seconds=1.0)
    batcher.submit([job("first")])
    network.wait_for("first")
    batcher.submit([job("large", num_tokens=100) for _ in range(20)])
    try:
        for number in range(200):
            batcher.submit([job(number, num_tokens=num_tokens)])
    except Failure as failure:
        return number, failure.retry_after
    finally:
        gate.set()
    return 200, None


def test_a_small_request_waits_for_small_ones_and_not_too_long(make: Any) -> None:
    # They have half of each batch, so 200 tokens of theirs take as long as 400.
    assert count_let_in(make, num_tokens=4, wait=0.4) == (51, 0.1)


def test_a_request_may_wait_for_some_that_are_alike(make: Any) -> None:
    count, seconds = count_let_in(make, num_tokens=64, wait=0.4)
    assert 2 * 64 * (count - 1) <= TIMES_OWN * 64 < 2 * 64 * count
    assert seconds == pytest.approx(max(0.1, (2 * 64 * count - TIMES_OWN * 64) / 1000))


def test_with_more_patience_they_all_wait(make: Any) -> None:
    assert count_let_in(make, num_tokens=4, wait=SOON) == (200, None)


def test_who_is_let_in_counts_before_it_waits(make: Any) -> None:
    batcher = make(start=False, wait=0.4)
    batcher._pace.add(num_tokens=1000, seconds=1.0)
    assert batcher.seconds_to_come(3, behind=500) is None  # it does not run yet
    batcher.start()
    assert batcher.seconds_to_come(3) is None
    assert batcher.seconds_to_come(3, behind=500) == pytest.approx(0.1)
    batcher.stop(drain=0.0)
    assert batcher.seconds_to_come(3, behind=500) is None  # who asks now is told why


def test_before_anything_was_computed_nobody_is_refused_for_its_time(make: Any) -> None:
    assert make(wait=0.4).seconds_to_come(3, behind=10**6) is None


def test_what_cannot_end_before_its_deadline_keeps_nobody_else_out(make: Any) -> None:
    batcher = make(start=False, batch_tokens=4, queue_tokens=100)
    batcher._pace.add(num_tokens=4, seconds=2.0)
    large = [job(number, num_tokens=2, within=9.5) for number in range(20)]
    refused = refusal_of(batcher, large)
    assert (refused.code, refused.retry_after) == ("too_large", None)
    assert "would take about 19 seconds, and it may wait 9" in str(refused)
    batcher.submit(large[:10])
    assert refusal_of(batcher, large[10:]).code == "overloaded"
    batcher.submit([job("small", within=10.5)])


def test_expired_jobs_are_never_computed(make: Any) -> None:
    network = Network()
    batcher = make(network, start=False)
    late, good = job("late", within=0.0), job("good")
    batcher.submit([late, good])
    batcher.start()
    assert good.answer.result(SOON) == "goodgood"
    assert code_of(late) == "too_late"
    assert network.computed == ["good"]
    assert (batcher.num_computed, batcher.num_expired, batcher.num_failed) == (1, 1, 0)


def test_jobs_expire_while_the_worker_is_busy(make: Any) -> None:
    network = Network()
    gate = network.hold("first")
    batcher = make(network)
    first, late = job("first"), job("late", within=0.01)
    batcher.submit([first])
    network.wait_for("first")
    batcher.submit([late])
    assert code_of(late) == "too_late"
    assert batcher.waiting_tokens == 0
    gate.set()
    assert first.answer.result(SOON) == "firstfirst"
    assert network.computed == ["first"]


def test_cancelled_jobs_are_skipped_and_their_room_is_free_again(make: Any) -> None:
    network = Network()
    gate = network.hold("first")
    batcher = make(network, queue_tokens=9)
    batcher.submit([job("first")])
    network.wait_for("first")
    gone = [job("gone") for _ in range(3)]
    batcher.submit(gone)
    assert refusal_of(batcher, [job("good")]).code == "overloaded"
    assert all(one.answer.cancel() for one in gone)
    assert comes_true(lambda: batcher.waiting_tokens == 0)
    good = job("good")
    batcher.submit([good])
    gate.set()
    assert good.answer.result(SOON) == "goodgood"
    assert network.computed == ["first", "good"]
    assert batcher.num_skipped == 3
    assert wait([one.answer for one in gone], SOON).not_done == set()


def test_what_has_begun_cannot_be_cancelled(make: Any) -> None:
    network = Network()
    gate = network.hold("first")
    first = job("first")
    batcher = make(network)
    batcher.submit([first])
    network.wait_for("first")
    assert not first.answer.cancel()
    gate.set()
    assert first.answer.result(SOON) == "firstfirst"


def test_a_poisonous_item_fails_alone(make: Any) -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if 13 in contents:
            raise ValueError("thirteen")
        return double(key, contents)

    batcher = make(compute, start=False)
    jobs = [job(content) for content in range(21)]
    batcher.submit(jobs)
    batcher.start()
    assert code_of(jobs[13]) == "failed"
    assert [one.answer.result(SOON) for one in jobs[:13]] == list(range(0, 26, 2))
    assert [one.answer.result(SOON) for one in jobs[14:]] == list(range(28, 42, 2))
    assert (batcher.num_computed, batcher.num_failed, batcher.num_restarts) == (20, 1, 0)


def test_it_is_ready_when_a_forward_has_passed(make: Any) -> None:
    network = Network()
    gate = network.hold("warm")
    batcher = make(network, start=False, warm_up=WARM_UP)
    assert not batcher.is_ready
    batcher.start()
    network.wait_for("warm")
    assert not batcher.is_ready
    gate.set()
    assert batcher.wait_until_ready(SOON)
    assert batcher.is_ready


def test_a_dead_worker_is_replaced_and_the_queue_goes_on(make: Any) -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if "deadly" in contents:
            raise SystemExit
        return double(key, contents)

    batcher = make(compute, start=False, batch_tokens=6)
    jobs = [job("deadly"), job("neighbor"), job("next")]
    for one in jobs:
        batcher.submit([one])
    batcher.start()
    assert [code_of(one) for one in jobs[:2]] == ["worker_lost", "worker_lost"]
    assert jobs[2].answer.result(SOON) == "nextnext"
    assert (batcher.num_restarts, batcher.num_failed, batcher.num_computed) == (1, 2, 1)
    assert batcher.is_ready


def test_a_slow_batch_makes_it_not_ready_until_it_is_done(make: Any) -> None:
    network = Network()
    gate = network.hold("slow")
    batcher = make(network, late_after=0.05)
    assert batcher.wait_until_ready(SOON)
    slow = job("slow")
    batcher.submit([slow])
    assert comes_true(lambda: not batcher.is_ready)
    gate.set()
    assert slow.answer.result(SOON) == "slowslow"
    assert comes_true(lambda: batcher.is_ready)
    assert batcher.num_restarts == 0


def lose_a_stuck_worker(make: Any) -> tuple[Job, Job, Batcher, Network]:
    """Let a worker be stuck with one job and wake again when another has taken its place."""
    network = Network()
    gate = network.hold("stuck")
    batcher = make(network, stuck_after=0.3)
    stuck, following = job("stuck"), job("following")
    batcher.submit([stuck])
    network.wait_for("stuck")
    old = batcher._worker
    batcher.submit([following])
    assert code_of(stuck) == "worker_lost"
    assert following.answer.result(SOON) == "followingfollowing"
    gate.set()
    old.join(SOON)
    assert not old.is_alive
    return stuck, following, batcher, network


def test_a_stuck_worker_is_replaced_and_answers_nobody_when_it_wakes(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stuck, _, batcher, network = lose_a_stuck_worker(make)
    assert isinstance(stuck.answer.exception(0), Failure)
    assert network.computed == ["stuck", "following"]
    assert (batcher.num_computed, batcher.num_failed, batcher.num_restarts) == (1, 1, 1)
    assert is_balanced(batcher)
    assert "could not be delivered" not in caplog.text


def test_were_its_hands_not_emptied_it_would_answer_again(
    make: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    relieve = Batcher._relieve

    def relieve_in_word_only(batcher: Batcher) -> list[Job]:
        worker = batcher._worker
        jobs = relieve(batcher)
        worker.held.update(jobs)
        return jobs

    monkeypatch.setattr(Batcher, "_relieve", relieve_in_word_only)
    _, _, batcher, _ = lose_a_stuck_worker(make)
    assert "could not be delivered" in caplog.text
    assert not is_balanced(batcher)


def test_a_worker_with_nothing_to_do_is_not_stuck(make: Any) -> None:
    batcher = make(stuck_after=0.2)
    one = job(1)
    batcher.submit([one])
    assert one.answer.result(SOON) == 2
    end = time.monotonic() + 0.3
    assert comes_true(lambda: batcher._last_look > end)
    assert batcher.num_restarts == 0
    assert batcher.is_ready


def test_a_process_that_was_held_up_does_not_blame_its_worker(make: Any) -> None:
    network = Network()
    gate = network.hold("first")
    batcher = make(network, stuck_after=SOON)
    first = job("first")
    batcher.submit([first])
    network.wait_for("first")
    with batcher._changed:  # as if everything had slept for a minute
        batcher._worker._begun = time.monotonic() - 60.0, 3
        batcher._last_look -= 60.0
    assert comes_true(lambda: batcher._awake_since > 0)
    gate.set()
    assert first.answer.result(SOON) == "firstfirst"
    assert batcher.num_restarts == 0


def test_too_many_losses_end_it_and_are_told_once(make: Any) -> None:
    told = []
    has_told = Event()

    def compute(key: Any, contents: list[Any]) -> list[Any]:
        raise RuntimeError("the device is gone")

    def on_give_up() -> None:
        told.append(batcher.is_ready)
        has_told.set()

    batcher = make(
        compute, start=False, warm_up=WARM_UP, restarts=2, stuck_after=0.08, on_give_up=on_give_up
    )
    waiting = job(1)
    batcher.submit([waiting])
    batcher.start()
    assert code_of(waiting) == "worker_lost"
    assert has_told.wait(SOON)
    assert not batcher.wait_until_ready(SOON)
    assert refusal_of(batcher, [job(2)]).code == "worker_lost"
    batcher.stop(drain=SOON)
    assert (told, batcher.num_restarts) == ([False], 2)
    assert is_balanced(batcher)


def test_threads_that_hang_are_counted_for_longer_than_a_minute(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batcher_module, "MINUTE", 0.0)
    network = Network()
    gates = [network.hold(number) for number in range(3)]
    batcher = make(network, restarts=2, stuck_after=0.04)
    jobs = [job(number) for number in range(3)]
    for one in jobs:
        batcher.submit([one])
        assert code_of(one) == "worker_lost"
    assert refusal_of(batcher, [job(4)]).code == "worker_lost"
    for gate in gates:
        gate.set()


def test_stopping_answers_what_waits_and_refuses_what_comes(make: Any) -> None:
    batcher = make(start=False, batch_tokens=6)
    jobs = [job(content) for content in range(5)]
    batcher.submit(jobs)
    batcher.start()
    batcher.stop(drain=SOON)
    assert [one.answer.result(0) for one in jobs] == [0, 2, 4, 6, 8]
    assert refusal_of(batcher, [job(5)]).code == "stopping"
    assert not batcher.is_ready
    batcher.stop(drain=SOON)


def test_stopping_waits_for_what_is_being_computed(make: Any) -> None:
    network = Network()
    gate = network.hold("slow")
    batcher = make(network)
    slow = job("slow")
    batcher.submit([slow])
    network.wait_for("slow")
    stopping = Thread(target=batcher.stop, kwargs={"drain": SOON})
    stopping.start()
    assert comes_true(lambda: batcher._state != "running")
    assert refusal_of(batcher, [job(1)]).code == "stopping"
    gate.set()
    stopping.join(SOON)
    assert slow.answer.result(0) == "slowslow"


def test_stopping_waits_for_no_company(make: Any) -> None:
    batcher = make(oldest=2 * SOON)
    one = job(1, within=3 * SOON)
    batcher.submit([one])
    batcher.stop(drain=SOON)
    assert one.answer.result(0) == 2


def test_stopping_fails_what_is_not_done_in_time(make: Any) -> None:
    network = Network()
    gate = network.hold("slow")
    batcher = make(network)
    slow, waiting, gone = job("slow"), job("waiting"), job("gone")
    batcher.submit([slow])
    network.wait_for("slow")
    batcher.submit([waiting, gone])
    gone.answer.cancel()
    worker = batcher._worker
    batcher.stop(drain=0.01)
    assert [code_of(slow), code_of(waiting)] == ["stopping", "stopping"]
    gate.set()
    worker.join(SOON)
    assert network.computed == ["slow"]
    assert is_balanced(batcher)


def test_stopping_before_the_start_fails_what_waits(make: Any) -> None:
    batcher = make(start=False)
    waiting = job(1)
    batcher.submit([waiting])
    batcher.stop(drain=SOON)
    assert code_of(waiting) == "stopping"
    with pytest.raises(RuntimeError, match="stopped"):
        batcher.start()


def test_stopping_outlives_a_worker_that_dies_meanwhile(make: Any) -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        if "deadly" in contents:
            raise SystemExit
        return double(key, contents)

    batcher = make(compute, start=False, batch_tokens=3)
    deadly, good = job("deadly"), job("good")
    batcher.submit([deadly])
    batcher.submit([good])
    batcher.start()
    batcher.stop(drain=SOON)
    assert code_of(deadly) == "worker_lost"
    assert good.answer.result(0) == "goodgood"


def test_every_job_is_answered_or_refused_when_many_come_during_the_stop(make: Any) -> None:
    batcher = make()
    taken: list[Job] = []
    refused: list[str] = []
    barrier = Barrier(5)

    def come() -> None:
        barrier.wait(SOON)
        while not refused or len(refused) < 40:
            one = job(len(taken))
            try:
                batcher.submit([one])
                taken.append(one)
            except Failure as failure:
                refused.append(failure.code)

    clients = [Thread(target=come) for _ in range(4)]
    for client in clients:
        client.start()
    barrier.wait(SOON)
    batcher.stop(drain=SOON)
    for client in clients:
        client.join(SOON)
    assert set(refused) <= {"stopping", "overloaded"}
    assert all(one.answer.result(0) == 2 * one.item.content for one in taken)
    assert batcher.num_computed == len(taken)


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_clients_bad_callback_hurts_nobody_else(make: Any, error: type[BaseException]) -> None:
    def complain(answer: "Future[Any]") -> None:
        raise error

    batcher = make(start=False)
    jobs = [job(content) for content in range(5)]
    jobs[2].answer.add_done_callback(complain)
    batcher.submit(jobs)
    batcher.start()
    assert [one.answer.result(SOON) for one in jobs] == [0, 2, 4, 6, 8]
    assert batcher.num_restarts == 0


def test_a_callback_that_never_returns_costs_the_worker_and_not_the_neighbors(make: Any) -> None:
    gate = Event()
    batcher = make(start=False, stuck_after=0.3)
    jobs = [job(content) for content in range(3)]
    jobs[0].answer.add_done_callback(lambda answer: gate.wait(SOON))
    batcher.submit(jobs)
    batcher.start()
    assert jobs[0].answer.result(SOON) == 0
    assert [code_of(one) for one in jobs[1:]] == ["worker_lost", "worker_lost"]
    following = job(5)
    batcher.submit([following])
    assert following.answer.result(SOON) == 10
    gate.set()


def test_a_callback_may_submit_and_may_stop(make: Any) -> None:
    batcher = make()
    first, second = job(1), job(2)
    second.answer.add_done_callback(lambda answer: batcher.stop(drain=0.0))
    first.answer.add_done_callback(lambda answer: batcher.submit([second]))
    batcher.submit([first])
    assert second.answer.result(SOON) == 4
    assert comes_true(lambda: batcher._state == "stopped")


def test_it_is_started_once(make: Any) -> None:
    batcher = make()
    with pytest.raises(RuntimeError, match="started once"):
        batcher.start()


def count_wrong_answers(batcher: Batcher, seed: int) -> int:
    """Let clients send, cancel and give up at random; return how many got another's answer."""
    settled: list[Job] = []
    clients = [
        Thread(target=come_and_go, args=(batcher, name, random.Random(seed + name), settled))
        for name in range(6)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join(SOON)
    assert len(settled) == batcher.num_submitted
    assert all(one.answer.done() for one in settled)
    heard = [one for one in settled if not one.answer.cancelled()]
    failed = [one for one in heard if one.answer.exception() is not None]
    assert {one.answer.exception().code for one in failed} <= {"failed", "too_late", "worker_lost"}
    assert all(one.item.content[-1] for one in failed if one.answer.exception().code == "failed")
    answered = [one for one in heard if one.answer.exception() is None]
    return sum(one.answer.result() != one.item.content for one in answered)


def come_and_go(batcher: Batcher, name: int, dice: random.Random, settled: list[Job]) -> None:
    for number in range(60):
        jobs = [
            job(
                (name, number, place, dice.random() < 0.03),
                num_tokens=dice.randint(1, 9),
                key=dice.choice("ab"),
                within=dice.choice([SOON, SOON, 0.001]),
            )
            for place in range(dice.choice([1, 1, 2, 9]))
        ]
        try:
            batcher.submit(jobs)
        except Failure:  # it could not come in time
            assert min(one.deadline for one in jobs) < time.monotonic() + 1
            continue
        for one in jobs:
            if dice.random() < 0.2:
                one.answer.cancel()
        wait([one.answer for one in jobs], SOON)
        settled.extend(jobs)


def echo_but_poison(key: Any, contents: list[Any]) -> list[Any]:
    if any(content[-1] for content in contents):
        raise ValueError("poison")
    return contents


def test_nobody_gets_anothers_answer_in_a_storm(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    batcher = make(echo_but_poison, batch_tokens=40)
    assert count_wrong_answers(batcher, seed=7) == 0
    assert comes_true(lambda: batcher.num_in_hand == 0)
    assert is_balanced(batcher)
    assert min(batcher.num_computed, batcher.num_skipped, batcher.num_failed) > 0
    assert batcher.waiting_tokens == 0
    assert "could not be delivered" not in caplog.text


def test_nobody_is_forgotten_when_workers_die_and_hang_in_a_storm(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    faults = iter(["die", "hang", "die", "hang"])

    def compute(key: Any, contents: list[Any]) -> list[Any]:
        fault = next(faults, None) if len(contents) > 3 else None
        if fault == "die":
            raise SystemExit
        if fault == "hang":
            time.sleep(0.5)
        return echo_but_poison(key, contents)

    batcher = make(compute, batch_tokens=40, stuck_after=0.2, restarts=99)
    assert count_wrong_answers(batcher, seed=3) == 0
    assert comes_true(lambda: batcher.num_in_hand == 0)
    assert is_balanced(batcher)
    assert batcher.num_restarts >= 4
    assert "could not be delivered" not in caplog.text


def test_swapped_answers_would_be_seen(make: Any) -> None:
    def compute(key: Any, contents: list[Any]) -> list[Any]:
        return echo_but_poison(key, contents)[::-1]

    assert count_wrong_answers(make(compute, batch_tokens=40), seed=7) > 0


def test_it_needs_no_tensors() -> None:
    code = "import sys, bertworks.service.batcher; sys.exit('torch' in sys.modules)"
    source = Path(batcher_module.__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(source)})
