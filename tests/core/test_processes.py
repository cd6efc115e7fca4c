"""Work in processes: the results come in order, whoever does it, and a death is told."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bertworks
from bertworks.core.errors import BertworksError
from bertworks.core.processes import IN_FLIGHT, in_chunks, map_in_order, num_cores

SOURCES = Path(bertworks.__file__).parents[1]


class Square:
    """A worker that squares."""

    def __call__(self, number: int) -> int:
        return number * number


class Doomed:
    """A worker that dies of one number."""

    def __call__(self, number: int) -> int:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return number


class Number:
    """A worker that tells its process."""

    def __call__(self, number: int) -> int:
        return os.getpid()


class Wrong:
    """A worker that fails with one sentence."""

    def __call__(self, number: int) -> int:
        raise BertworksError(f"{number} is wrong; leave it out")


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    found = list(map_in_order(Square, range(37), workers=workers, what="squares"))
    assert found == [number * number for number in range(37)]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no cores can be taken away")
def test_only_cores_that_may_be_used_count() -> None:
    before = os.sched_getaffinity(0)
    assert num_cores() == len(before)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert num_cores() == 1
        (worker,) = set(map_in_order(Number, range(9), workers=None, what="counts"))
    finally:
        os.sched_setaffinity(0, before)
    assert worker == os.getpid()


@pytest.mark.parametrize("workers", [1, 2])
def test_items_are_not_read_far_ahead(workers: int) -> None:
    taken: list[int] = []

    def items():
        for number in range(50):
            taken.append(number)
            yield number

    found = map_in_order(Square, items(), workers=workers, what="squares")
    assert next(found) == 0
    assert len(taken) <= IN_FLIGHT * workers
    found.close()


@pytest.mark.parametrize(
    ("worker", "said"),
    [(Doomed, "a process that doubts died.*use fewer --workers"), (Wrong, "0 is wrong; leave")],
)
def test_a_death_and_an_error_are_one_sentence(
    worker: Callable[[], Callable[[int], int]], said: str
) -> None:
    with pytest.raises(BertworksError, match=said):
        list(map_in_order(worker, range(5), workers=2, what="doubts"))


def test_the_processes_end_with_the_one_that_started_them() -> None:
    script = (
        f"import sys; sys.path[:0] = {[str(SOURCES), str(Path(__file__).parent)]!r}\n"
        "import test_processes as tests\n"
        "if __name__ == '__main__':\n"
        "    found = tests.map_in_order(tests.Number, range(99), workers=2, what='counts')\n"
        "    print(next(found), next(found), next(found), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        workers = set(map(int, other.stdout.readline().split()))
        assert workers
        assert other.pid not in workers
        other.kill()
    for _ in range(2000):
        if not any(Path(f"/proc/{worker}/exe").exists() for worker in workers):
            break
        time.sleep(0.01)
    else:
        pytest.fail(f"{workers} live on")


def test_a_process_ends_with_whoever_holds_its_input() -> None:
    script = (
        f"import sys, time; sys.path[:0] = [{str(SOURCES)!r}]\n"
        "from bertworks.core.processes import end_with_input\n"
        "end_with_input()\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        other.stdin.write(b"what is said there does not matter")
        other.stdin.flush()
        assert other.poll() is None
        other.stdin.close()
        assert other.wait(timeout=60) == 1


@given(st.lists(st.integers(0, 9)), st.integers(1, 20))
def test_chunks_hold_every_item_in_order_and_no_more_than_they_must(
    sizes: list[int], least: int
) -> None:
    chunks = list(in_chunks(sizes, size_of=int, least=least))
    assert [size for chunk in chunks for size in chunk] == sizes
    assert all(chunks)
    assert all(sum(chunk) >= least for chunk in chunks[:-1])
    assert all(sum(chunk[:-1]) < least for chunk in chunks)
