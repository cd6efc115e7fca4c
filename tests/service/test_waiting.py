"""Who is computed next, and that nobody starves."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.service.jobs import Item, Job
from bertworks.service.waiting import NUM_SIZES, WaitingLine, size_of

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
    line = WaitingLine()
    jobs: list[Job] = []
    for key, lengths in requests:
        jobs += (added := make_jobs(key, lengths))
        line.add(added, now=0.0)
    assert (line.num_jobs, line.num_tokens) == (len(jobs), tokens_of(jobs))
    found: list[Job] = []
    while line.num_jobs:
        batch = line.take(batch_tokens, now=1.0)
        lengths = [job.item.num_tokens for job in batch.jobs]
        assert lengths == sorted(lengths)
        assert {job.item.key for job in batch.jobs} == {batch.key}
        assert batch.num_tokens == sum(lengths)
        assert sum(lengths) <= batch_tokens or len(lengths) == 1
        found += batch.jobs
    assert Counter(map(id, found)) == Counter(map(id, jobs))
    assert (line.num_tokens, line.oldest, line.num_skipped) == (0, None, 0)
    assert not line.take(batch_tokens, now=1.0).jobs


@given(requests=requests, seed=st.integers(0, 999), is_swept=st.booleans())
def test_cancelled_jobs_are_skipped_and_late_ones_told_apart(
    requests: Any, seed: int, is_swept: bool
) -> None:
    random_ = random.Random(seed)
    line = WaitingLine()
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
        batch = line.take(30, now=5.0)
        computed += batch.jobs
        expired += batch.expired
    rest = set(jobs) - set(cancelled)
    assert set(computed) == {job for job in rest if job.deadline == 9}
    assert set(expired) == {job for job in rest if job.deadline == 1}
    assert line.num_skipped == len(cancelled)
    assert line.num_tokens == 0
    assert not any(job.answer.cancel() for job in computed + expired)


def test_an_item_larger_than_a_batch_goes_alone() -> None:
    line = WaitingLine()
    line.add([*make_jobs("a", [11]), *make_jobs("a", [2])], now=0.0)
    found = [[job.item.num_tokens for job in line.take(10, now=0.0).jobs] for _ in range(3)]
    assert found == [[2], [11], []]


def test_neighbors_of_one_request_are_alike() -> None:
    line = WaitingLine()
    line.add(make_jobs("a", [9, 2, 8, 3, 7, 1, 9, 4]), now=0.0)
    found = [[job.item.num_tokens for job in line.take(20, now=0.0).jobs] for _ in range(4)]
    assert found == [[1, 2, 3, 4, 7], [8, 9], [9], []]


def count_batches_until_served(line: WaitingLine, jobs: list[Job], flood: Any) -> int:
    """Return how many batches it takes while others keep coming."""
    for number in range(1, 400):
        flood()
        line.take(32, now=0.0)
        if all(job.answer.running() for job in jobs):
            return number
    return 400


def count_with_a_flood(seed: int) -> tuple[int, int]:
    """Return how many batches an old large request takes among many small ones, and the bound."""
    random_ = random.Random(seed)
    line = WaitingLine()
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
    line = WaitingLine()
    line.add(make_jobs("a", [5] * 200), now=0.0)
    line.take(32, now=0.0)
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
    line = WaitingLine()
    line.add(make_jobs("a", [5]), now=3.0)
    line.add(make_jobs("b", [5]), now=4.0)
    assert line.oldest == 3.0
    line.take(8, now=5.0)
    assert line.oldest == 4.0


def test_a_job_that_was_handed_in_twice_is_begun_once() -> None:
    line = WaitingLine()
    jobs = make_jobs("a", [2])
    line.add(jobs, now=0.0)
    line.add(jobs, now=0.0)
    assert len(line.take(8, now=0.0).jobs) == 1
    assert (line.num_jobs, line.num_tokens, line.num_skipped) == (0, 0, 1)


def test_clearing_begins_all_that_was_not_cancelled() -> None:
    line = WaitingLine()
    first, second = make_jobs("a", [2, 3])
    line.add([first, second], now=0.0)
    first.answer.cancel()
    assert line.clear() == [second]
    assert second.answer.running()
    assert (line.num_jobs, line.num_tokens, line.num_skipped) == (0, 0, 1)


def batches_of_both(*, slice_tokens: int | None) -> list[tuple[int, int]]:
    """Return the tokens of a small and of a large request in each of four batches."""
    line, found = WaitingLine(), []
    line.add(large := make_jobs("a", [5] * 400), now=0.0)
    for number in range(4):
        line.add(make_jobs("a", [7, 7]), now=0.1 * number)
        batch = line.take(1000, now=0.1 * number, slice_tokens=slice_tokens)
        of_large = set(large).intersection(batch.jobs)
        found.append((batch.num_tokens - 5 * len(of_large), 5 * len(of_large)))
    return found


def test_beside_small_requests_a_large_one_gets_a_slice_every_other_batch() -> None:
    assert batches_of_both(slice_tokens=50) == [(14, 50), (14, 0), (14, 50), (14, 0)]


def test_without_slices_a_small_request_is_computed_with_as_much_as_fits() -> None:
    assert batches_of_both(slice_tokens=None)[0] == (14, 985)


def test_a_large_request_that_is_alone_gets_whole_batches() -> None:
    line = WaitingLine()
    line.add(make_jobs("a", [5] * 400), now=0.0)
    assert line.take(1000, now=0.0, slice_tokens=50).num_tokens == 1000


def test_company_is_forgotten_after_a_while() -> None:
    line = WaitingLine()
    line.add(make_jobs("a", [7]), now=0.0)
    line.take(1000, now=0.0, slice_tokens=50)
    line.add(make_jobs("a", [5] * 400), now=0.5)
    assert line.take(100, now=0.5, slice_tokens=50).num_tokens == 50
    assert line.take(100, now=2.0, slice_tokens=50).num_tokens == 100


def test_between_small_requests_a_large_one_gets_one_slice_after_the_other() -> None:
    line = WaitingLine()
    line.add(make_jobs("a", [7]), now=0.0)
    line.add(make_jobs("a", [5] * 400), now=0.0)
    found = [line.take(1000, now=0.1, slice_tokens=50).num_tokens for _ in range(3)]
    assert found == [57, 50, 50]


@pytest.mark.parametrize(
    ("now", "num_begun", "expected"), [(4.9, 0, 57), (5.1, 0, 97), (5.1, 190, 97), (5.1, 200, 57)]
)
def test_a_large_request_that_is_late_is_not_sliced(
    now: float, num_begun: int, expected: int
) -> None:
    line = WaitingLine()
    line.add(make_jobs("a", [5] * 400, deadline=10.0), now=0.0)
    line.take(5 * num_begun, now=0.0)
    line.add(make_jobs("a", [7]), now=now)
    assert line.take(100, now=now, slice_tokens=50).num_tokens == expected


def test_a_long_text_of_a_large_request_comes_though_it_is_longer_than_a_slice() -> None:
    line = WaitingLine()
    line.add(large := make_jobs("a", [90] * 3), now=0.0)

    def flood() -> None:
        line.add(make_jobs("a", [7]), now=0.0)
        line.take(100, now=0.0, slice_tokens=50)

    assert count_batches_until_served(line, large, flood) < 9


def test_only_what_is_as_small_goes_before_a_small_request() -> None:
    line = WaitingLine()
    line.add(make_jobs("a", [5] * 400), now=0.0)
    assert (line.tokens_before(7), line.tokens_before(3000)) == (0, 2000)
    line.add(make_jobs("b", [7]), now=0.0)
    assert (line.tokens_before(7), line.tokens_before(1)) == (14, 0)  # it has half of each batch
    while line.num_jobs:
        line.take(100, now=0.0)
    assert line.tokens_before(3000) == 0


def test_requests_that_are_alike_have_one_size() -> None:
    assert [size_of(n) for n in (4, 10, 31)] == [1, 1, 1]
    assert [size_of(n) for n in (32, 90, 255)] == [2, 2, 2]
    assert [size_of(n) for n in (1, 256, 5000)] == [0, 3, 4]
    assert size_of(1 << 60) < NUM_SIZES


def test_those_who_take_hardly_longer_than_one_go_together_however_large_they_are() -> None:
    line = WaitingLine()
    jobs = [Job(Item("a", None, 50, company=3), NEVER) for _ in range(7)]
    for job in jobs:
        line.add([job], now=0.0)
    line.add(make_jobs("b", [50, 50]), now=0.0)
    batches = []
    while line.num_jobs:
        batch = line.take(40, now=1.0, slice_tokens=10)
        batches.append((batch.key, len(batch.jobs)))
    assert sorted(batches) == [("a", 1), ("a", 3), ("a", 3), ("b", 1), ("b", 1)]
    assert line.num_tokens == 0
