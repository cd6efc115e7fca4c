"""Work side by side: all of it, in order, by threads of their own that end with who asked."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from threading import Barrier, BrokenBarrierError, Event, Thread, current_thread, get_native_id
from typing import Any

import pytest
import torch

from bertworks.core.device import Machine, prepare
from bertworks.core.lanes import own_threads, side_by_side

TOGETHER = 10.0  # seconds in which two threads must have met


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def lanes() -> list[Thread]:
    return [one for one in threading.enumerate() if one.name == "bertworks-lane"]


def in_a_thread(work: Any) -> Any:
    """Return what comes of work by a thread that ends with it, and the lanes that it had."""
    found = []
    before = set(lanes())

    def run() -> None:
        torch.set_num_threads(2)
        found.append((work(), [one for one in lanes() if one not in before]))

    thread = Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_results_come_in_the_order_of_the_items() -> None:
    def slowly(number: int) -> int:
        time.sleep(0.01 * (number % 3))
        return number * number

    assert side_by_side(slowly, range(20)) == [number * number for number in range(20)]
    assert side_by_side(slowly, []) == []


def test_two_are_worked_at_at_once() -> None:
    meeting = Barrier(2)

    def meet(_: int) -> int:
        meeting.wait(TOGETHER)
        return get_native_id()

    assert len(set(side_by_side(meet, [0, 1]))) == 2


def test_one_item_has_all_threads_and_many_have_one_each() -> None:
    def count(_: int) -> int:
        return torch.get_num_threads()

    assert side_by_side(count, [0]) == [2]
    assert side_by_side(count, range(6)) == [1] * 6
    assert torch.get_num_threads() == 2


def test_where_torch_has_one_thread_nothing_is_shared_out() -> None:
    torch.set_num_threads(1)
    assert set(side_by_side(lambda _: current_thread(), range(4))) == {current_thread()}


def test_within_a_lane_nothing_is_shared_out_again() -> None:
    meeting = Barrier(2)

    def nested(_: int) -> list[Thread]:
        meeting.wait(TOGETHER)
        assert own_threads() == 1
        return side_by_side(lambda _: current_thread(), range(4))

    first, second = side_by_side(nested, [0, 1])
    assert (len(set(first)), len(set(second)), first[0] != second[0]) == (1, 1, True)


def test_denormal_numbers_are_flushed_in_every_lane() -> None:
    meeting = Barrier(2)

    def smallest(_: int) -> float:
        meeting.wait(TOGETHER)
        return float((torch.full((8,), 1e-30) * 1e-10).max())

    torch.set_flush_denormal(True)
    assert side_by_side(smallest, [0, 1]) == [0.0, 0.0]


@pytest.mark.parametrize("bad", [0, 1])
def test_what_fails_is_raised_when_nothing_runs_any_more(bad: int) -> None:
    meeting, ended = Barrier(2), []

    def work(number: int) -> None:
        meeting.wait(TOGETHER)
        if number == bad:
            raise ValueError(f"number {number}")
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match=f"number {bad}"):
        side_by_side(work, [0, 1])
    assert ended == [1 - bad]
    assert torch.get_num_threads() == 2
    assert side_by_side(str, [3, 4]) == ["3", "4"]  # the lanes go on


def test_lanes_are_kept_for_a_thread_and_end_with_it() -> None:
    def twice() -> set[int]:
        return {id(t) for _ in range(2) for t in side_by_side(lambda _: current_thread(), [0] * 50)}

    _, own = in_a_thread(twice)
    assert len(own) == 1
    gc.collect()
    own[0].join(TOGETHER)
    assert not own[0].is_alive()


def test_threads_have_lanes_of_their_own() -> None:
    meeting = Barrier(4)

    def meet() -> bool:
        try:
            side_by_side(lambda _: meeting.wait(TOGETHER), [0, 1])
        except BrokenBarrierError:
            return False
        return True

    found: list[bool] = []
    others = [Thread(target=lambda: found.append(in_a_thread(meet)[0])) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert found == [True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_lanes_have_the_priority_of_who_asked() -> None:
    lower = min(os.getpriority(os.PRIO_PROCESS, get_native_id()) + 1, 19)

    def work() -> set[int]:
        os.setpriority(os.PRIO_PROCESS, get_native_id(), lower)
        meeting = Barrier(2)

        def look(_: int) -> int:
            meeting.wait(TOGETHER)
            return os.getpriority(os.PRIO_PROCESS, get_native_id())

        return set(side_by_side(look, [0, 1]))

    assert in_a_thread(work)[0] == {lower}


def test_where_one_fails_no_other_is_begun() -> None:
    begun = []

    def work(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise KeyboardInterrupt
        time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, range(500))
    assert len(begun) < 50
    assert torch.get_num_threads() == 2


def test_an_empty_queue_that_the_work_met_is_raised_too() -> None:
    with pytest.raises(Empty):
        side_by_side(lambda _: SimpleQueue[int]().get_nowait(), [0, 1])


def test_threads_come_back_though_nobody_waits_for_the_other_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose_patience(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as changed:
        changed.setattr("bertworks.core.lanes.wait", lose_patience)
        with pytest.raises(KeyboardInterrupt):
            side_by_side(str, [0, 1])
    assert torch.get_num_threads() == 2
    assert side_by_side(str, [0, 1]) == ["0", "1"]


@pytest.mark.parametrize("own", [None, 1])
def test_a_thread_that_begins_beside_lanes_has_as_many_threads_as_others(own: int | None) -> None:
    inside, is_over = Barrier(3), Event()

    def hold(_: int) -> None:
        inside.wait(TOGETHER)
        is_over.wait(TOGETHER)

    found: list[int] = []

    def begin() -> None:
        if own is not None:
            prepare("cpu", threads=own)
        found.extend([Machine(torch.device("cpu"), "fp32").num_lanes, own_threads()])

    first = Thread(target=lambda: in_a_thread(lambda: side_by_side(hold, [0, 1])))
    first.start()
    inside.wait(TOGETHER)
    second = Thread(target=begin)
    second.start()
    second.join()
    is_over.set()
    first.join()
    assert found == [own or 2] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_process_that_was_forked_has_lanes_of_its_own() -> None:
    script = """
import os
import torch
from bertworks.core.lanes import side_by_side
torch.set_num_threads(2)
assert side_by_side(str, [0, 1]) == ["0", "1"]
child = os.fork()
assert side_by_side(str, [0, 1]) == ["0", "1"]
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(7)
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    assert done.returncode == 7


def test_what_failed_in_a_lane_holds_nothing_once_it_is_known() -> None:
    meeting, held = Barrier(2), list[weakref.ref[torch.Tensor]]()

    def work(_: int) -> None:
        large = torch.zeros(3)
        meeting.wait(TOGETHER)
        if current_thread().name == "bertworks-lane":
            held.append(weakref.ref(large))
            raise ValueError("no")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="no") as caught:
            side_by_side(work, [0, 1])
        del caught
        side_by_side(str, [0, 1])  # the lane is done with the other
        assert held[0]() is None
    finally:
        gc.enable()
