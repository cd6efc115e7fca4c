"""Who is computed next, and that nobody starves."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.service.jobs import Item, Job
from bertworks.service.waiting import WaitingLine

NEVER = 1e9
costs = st.lists(st.integers(1, 40), min_size=1, max_size=7)
requests = st.lists(st.tuples(st.sampled_from("abc"), costs), max_size=13)


def make_jobs(key: str, costs: Sequence[int], *, deadline: float = NEVER) -> list[Job]:
    return [Job(Item(key, None, cost), deadline) for cost in costs]


def tokens_of(jobs: Sequence[Job]) -> int:
    return sum(job.item.num_tokens for job in jobs)


@given(requests=requests, batch_tokens=st.integers(1, 60))
def test_every_job_comes_once_in_a_batch_of_one_key_within_the_budget(
    requests: Any, batch_tokens: int
) -> None:
    line = WaitingLine(batch_tokens)
    jobs: list[Job] = []
    for key, lengths in requests:
        jobs += (added := make_jobs(key, lengths))
        line.add(added, now=0.0)
    assert (line.num_jobs, line.num_tokens) == (len(jobs), tokens_of(jobs))
    found: list[Job] = []
    while line.num_jobs:
        batch = line.take(now=1.0)
        lengths = [job.item.num_tokens for job in batch.jobs]
        assert lengths == sorted(lengths)
        assert {job.item.key for job in batch.jobs} == {batch.key}
        assert batch.num_tokens == sum(lengths)
        assert sum(lengths) <= batch_tokens or len(lengths) == 1
        found += batch.jobs
    assert Counter(map(id, found)) == Counter(map(id, jobs))
    assert (line.num_tokens, line.oldest, line.num_skipped) == (0, None, 0)
    assert not line.take(now=1.0).jobs


@given(requests=requests, seed=st.integers(0, 999), is_swept=st.booleans())
def test_cancelled_jobs_are_skipped_and_late_ones_told_apart(
    requests: Any, seed: int, is_swept: bool
) -> None:
    random_ = random.Random(seed)
    line = WaitingLine(batch_tokens=30)
    jobs: list[Job] = []
    for key, lengths in requests:
        added = [
            one for n in lengths for one in make_jobs(key, [n], deadline=random_.choice([1, 9]))
        ]
        line.add(added, now=0.0)
        jobs += added
    cancelled = [job for job in jobs if random_.random() < 0.3 and job.answer.cancel()]
    expired = line.sweep(now=5.0) if is_swept else []
    computed: list[Job] = []
    while line.num_jobs:
        batch = line.take(now=5.0)
        computed += batch.jobs
        expired += batch.expired
    rest = set(jobs) - set(cancelled)
    assert set(computed) == {job for job in rest if job.deadline == 9}
    assert set(expired) == {job for job in rest if job.deadline == 1}
    assert line.num_skipped == len(cancelled)
    assert line.num_tokens == 0
    assert not any(job.answer.cancel() for job in computed + expired)


def test_an_item_larger_than_a_batch_goes_alone() -> None:
    line = WaitingLine(batch_tokens=10)
    line.add([*make_jobs("a", [11]), *make_jobs("a", [2])], now=0.0)
    found = [[job.item.num_tokens for job in line.take(now=0.0).jobs] for _ in range(3)]
    assert found == [[2], [11], []]


def test_neighbors_of_one_request_are_alike() -> None:
    line = WaitingLine(batch_tokens=20)
    line.add(make_jobs("a", [9, 2, 8, 3, 7, 1, 9, 4]), now=0.0)
    found = [[job.item.num_tokens for job in line.take(now=0.0).jobs] for _ in range(4)]
    assert found == [[1, 2, 3, 4, 7], [8, 9], [9], []]


def count_batches_until_served(line: WaitingLine, jobs: list[Job], flood: Any) -> int:
    """Return how many batches it takes while others keep coming."""
    for number in range(1, 400):
        flood()
        line.take(now=0.0)
        if all(job.answer.running() for job in jobs):
            return number
    return 400


def count_with_a_flood(seed: int) -> tuple[int, int]:
    """Return how many batches an old large request takes among many small ones, and the bound."""
    random_ = random.Random(seed)
    line = WaitingLine(batch_tokens=32)
    ahead: Counter[str] = Counter()
    for _ in range(random_.randint(0, 5)):
        jobs = make_jobs(random_.choice("abc"), random_.choices(range(1, 17), k=5))
        line.add(jobs, now=0.0)
        ahead[jobs[0].item.key] += tokens_of(jobs)
    large = make_jobs("b", random_.choices(range(1, 17), k=23))
    line.add(large, now=0.0)
    ahead["b"] += tokens_of(large)

    def flood() -> None:
        for _ in range(9):
            line.add(make_jobs(random_.choice("abc"), [random_.randint(3, 6)]), now=0.0)

    turns = sum(-(-tokens // 16) for tokens in ahead.values())
    return count_batches_until_served(line, large, flood), 2 * turns


@pytest.mark.parametrize("seed", range(9))
def test_a_flood_of_small_requests_starves_no_large_one(seed: int) -> None:
    found, bound = count_with_a_flood(seed)
    assert found <= bound


def test_without_the_turn_of_the_oldest_a_large_request_starves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WaitingLine, "_by_age", WaitingLine._by_size)
    found, bound = count_with_a_flood(seed=1)
    assert found > bound


def count_behind_a_large_request(key: str) -> int:
    """Return how many batches a small request takes that comes after a large one."""
    line = WaitingLine(batch_tokens=32)
    line.add(make_jobs("a", [5] * 200), now=0.0)
    line.take(now=0.0)
    small = make_jobs(key, [7])
    line.add(small, now=0.0)
    return count_batches_until_served(line, small, lambda: None)


@pytest.mark.parametrize("key", ["a", "b"])
def test_a_small_request_does_not_wait_for_the_whole_of_a_large_one(key: str) -> None:
    assert count_behind_a_large_request(key) <= 2


@pytest.mark.parametrize("key", ["a", "b"])
def test_by_age_alone_it_would(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WaitingLine, "_by_size", WaitingLine._by_age)
    assert count_behind_a_large_request(key) > 20


def test_the_oldest_is_known_until_it_is_taken() -> None:
    line = WaitingLine(batch_tokens=8)
    line.add(make_jobs("a", [5]), now=3.0)
    line.add(make_jobs("b", [5]), now=4.0)
    assert line.oldest == 3.0
    line.take(now=5.0)
    assert line.oldest == 4.0


def test_a_job_that_was_handed_in_twice_is_begun_once() -> None:
    line = WaitingLine(batch_tokens=8)
    jobs = make_jobs("a", [2])
    line.add(jobs, now=0.0)
    line.add(jobs, now=0.0)
    assert len(line.take(now=0.0).jobs) == 1
    assert (line.num_jobs, line.num_tokens, line.num_skipped) == (0, 0, 1)


def test_clearing_begins_all_that_was_not_cancelled() -> None:
    line = WaitingLine(batch_tokens=8)
    first, second = make_jobs("a", [2, 3])
    line.add([first, second], now=0.0)
    first.answer.cancel()
    assert line.clear() == [second]
    assert second.answer.running()
    assert (line.num_jobs, line.num_tokens, line.num_skipped) == (0, 0, 1)
