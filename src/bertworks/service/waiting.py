"""The line in which jobs wait, and which of them are computed together next.

Jobs of one request stand in the lane of its key and size. Half of every batch goes to those who
came first, so that nobody starves; the other half to small requests, so that nobody waits for the
whole of another's large one. The two take turns at choosing the key. No threads and no clock here.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bertworks.service.jobs import Job


@dataclass(frozen=True)
class Batch:
    """Jobs of one key, shortest first, and those that were found too late for it."""

    key: Hashable
    jobs: list[Job]
    expired: list[Job]

    @property
    def num_tokens(self) -> int:
        """What its jobs cost together."""
        return sum(job.item.num_tokens for job in self.jobs)


class WaitingLine:
    """Jobs that nobody has begun."""

    def __init__(self, batch_tokens: int) -> None:
        self.num_jobs = 0
        self.num_tokens = 0
        self.num_skipped = 0  # cancelled before they were begun
        self._batch_tokens = batch_tokens
        self._lanes: dict[_Lane, deque[_Request]] = {}
        self._num_requests = 0
        self._is_age_next = True

    def add(self, jobs: Sequence[Job], *, now: float) -> None:
        """Let the jobs of one request wait."""
        by_key: dict[Hashable, list[Job]] = {}
        for job in jobs:
            by_key.setdefault(job.item.key, []).append(job)
        for key, shared in by_key.items():
            shared.sort(key=_cost)
            size = sum(map(_cost, shared)).bit_length()
            self._num_requests += 1
            request = _Request(self._num_requests, now, deque(shared))
            self._lanes.setdefault(_Lane(key, size), deque()).append(request)
        self.num_jobs += len(jobs)
        self.num_tokens += sum(map(_cost, jobs))

    @property
    def oldest(self) -> float | None:
        """When the one who waits longest came."""
        return min((lane[0].came for lane in self._lanes.values()), default=None)

    def take(self, *, now: float) -> Batch:
        """Begin the jobs of the next batch; it is empty where all that was looked at had ended."""
        orders = [self._by_age, self._by_size]
        first, second = orders if self._is_age_next else reversed(orders)
        self._is_age_next = not self._is_age_next
        if not self._lanes:
            return Batch(None, [], [])
        batch = Batch(min(self._lanes, key=first).key, [], [])
        self._fill(batch, first, until=(self._batch_tokens + 1) // 2, now=now)
        self._fill(batch, second, until=self._batch_tokens, now=now)
        batch.jobs.sort(key=_cost)
        return batch

    def sweep(self, *, now: float) -> list[Job]:
        """Begin, and return, all that wait too long; forget the cancelled."""
        expired: list[Job] = []
        for name, lane in list(self._lanes.items()):
            for request in lane:
                ended = [job for job in request.jobs if job.answer.done() or job.deadline <= now]
                if ended:
                    gone = set(ended)
                    request.jobs = deque(job for job in request.jobs if job not in gone)
                    expired += [job for job in ended if self._begin(job)]
            self._lanes[name] = deque(request for request in lane if request.jobs)
            if not self._lanes[name]:
                del self._lanes[name]
        return expired

    def clear(self) -> list[Job]:
        """Begin, and return, all that wait."""
        jobs = [job for lane in self._lanes.values() for request in lane for job in request.jobs]
        self._lanes.clear()
        return [job for job in jobs if self._begin(job)]

    def _fill(self, batch: Batch, order: "_Order", *, until: int, now: float) -> None:
        lanes = [lane for lane in self._lanes if lane.key == batch.key]
        num_tokens = batch.num_tokens
        while lanes and num_tokens < until:
            lane = min(lanes, key=order)
            cost = _cost(self._lanes[lane][0].jobs[0])
            if batch.jobs and num_tokens + cost > self._batch_tokens:
                lanes.remove(lane)
                continue
            job = self._pop(lane)
            if lane not in self._lanes:
                lanes.remove(lane)
            if not self._begin(job):
                continue
            if job.deadline <= now:
                batch.expired.append(job)
                continue
            batch.jobs.append(job)
            num_tokens += cost

    def _pop(self, lane: "_Lane") -> Job:
        requests = self._lanes[lane]
        job = requests[0].jobs.popleft()
        if not requests[0].jobs:
            requests.popleft()
        if not requests:
            del self._lanes[lane]
        return job

    def _begin(self, job: Job) -> bool:
        """Take a job's answer over, so that it can no longer be cancelled."""
        self.num_jobs -= 1
        self.num_tokens -= _cost(job)
        if _is_begun(job.answer):
            return True
        self.num_skipped += 1
        return False

    def _by_age(self, lane: "_Lane") -> tuple[int, int]:
        return 0, self._lanes[lane][0].number

    def _by_size(self, lane: "_Lane") -> tuple[int, int]:
        return lane.size, self._lanes[lane][0].number


_Order = Callable[["_Lane"], tuple[int, int]]


@dataclass(frozen=True)
class _Lane:
    """Requests that are alike: of one key, their tokens between two powers of 2."""

    key: Hashable
    size: int


@dataclass
class _Request:
    """What is left of the jobs that came together."""

    number: int
    came: float
    jobs: deque[Job] = field(default_factory=deque)  # shortest first, so that neighbors are alike


def _cost(job: Job) -> int:
    return job.item.num_tokens


def _is_begun(answer: "Future[Any]") -> bool:
    # A job that was handed in twice has been begun, or ended, by its first turn.
    with suppress(Exception):
        return answer.set_running_or_notify_cancel()
    return False
