"""The line in which jobs wait, and which of them are computed together next.

Jobs of one request stand in the lane of its key and size. Half of every batch goes to those who
came first, so that nobody starves; the other half to small requests, so that nobody waits for the
whole of another's large one. The two take turns at choosing the key. While small requests come, a
batch takes no more than a slice of large ones. No threads and no clock here.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bertworks.service.jobs import Job

COMPANY = 1.0  # seconds for which one small request lets others be expected
NUM_SIZES = 32  # see size_of


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

    def __init__(self) -> None:
        self.num_jobs = 0
        self.num_tokens = 0
        self.num_skipped = 0  # cancelled before they were begun
        self._lanes: dict[_Lane, deque[_Request]] = {}
        self._num_requests = 0
        self._is_age_next = True
        self._was_large = False  # the last batch had some of large requests
        self._tokens = [0] * NUM_SIZES  # that wait, by the size of their request
        self._came = [float("-inf")] * NUM_SIZES  # when the last request of a size did

    def add(self, jobs: Sequence[Job], *, now: float) -> None:
        """Let the jobs of one request wait."""
        by_key: dict[Hashable, list[Job]] = {}
        for job in jobs:
            by_key.setdefault(job.item.key, []).append(job)
        for key, shared in by_key.items():
            shared.sort(key=_cost)
            num_tokens = sum(map(_cost, shared))
            size = size_of(num_tokens)
            self._num_requests += 1
            request = _Request(self._num_requests, now, len(shared), deque(shared))
            self._lanes.setdefault(_Lane(key, size), deque()).append(request)
            self._tokens[size] += num_tokens
            self._came[size] = now
        self.num_jobs += len(jobs)
        self.num_tokens += sum(map(_cost, jobs))

    @property
    def oldest(self) -> float | None:
        """When the one who waits longest came."""
        return min((lane[0].came for lane in self._lanes.values()), default=None)

    def tokens_before(self, num_tokens: int) -> int:
        """Return how many tokens go before a request of some, for it has half of every batch."""
        as_small = sum(self._tokens[: size_of(num_tokens) + 1])
        return min(2 * as_small, self.num_tokens)

    def take(self, num_tokens: int, *, now: float, slice_tokens: int | None = None) -> Batch:
        """Begin the jobs of the next batch; it is empty where all that was looked at had ended.

        A slice is what it takes of large requests while small ones come; None: as much as fits.
        """
        if not self._lanes:
            return Batch(None, [], [])
        room = self._room(num_tokens, slice_tokens, now)
        orders = [self._by_age, self._by_size]
        if room.left_for_large == 0 or not self._is_age_next:
            orders.reverse()
        self._is_age_next = orders[0] == self._by_size
        batch = Batch(min(self._lanes, key=orders[0]).key, [], [])
        self._fill(batch, room, orders[0], leave=num_tokens // 2, now=now)
        self._fill(batch, room, orders[1], leave=0, now=now)
        self._was_large = room.has_large
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
                    expired += [job for job in ended if self._begin(job, name)]
            self._lanes[name] = deque(request for request in lane if request.jobs)
            if not self._lanes[name]:
                del self._lanes[name]
        return expired

    def clear(self) -> list[Job]:
        """Begin, and return, all that wait."""
        waiting = [
            (job, name)
            for name, lane in self._lanes.items()
            for request in lane
            for job in request.jobs
        ]
        self._lanes.clear()
        return [job for job, name in waiting if self._begin(job, name)]

    def _room(self, num_tokens: int, slice_tokens: int | None, now: float) -> "_Room":
        """Return how much of what there is room for; small and large requests take turns."""
        large = NUM_SIZES if slice_tokens is None else size_of(slice_tokens) + 1
        if slice_tokens is None or now - max(self._came[:large]) > COMPANY:
            return _Room(num_tokens, num_tokens, NUM_SIZES)
        if any(self._is_urgent(lane, now) for lane in self._lanes if lane.size >= large):
            return _Room(num_tokens, num_tokens, NUM_SIZES)
        is_turn_of_small = self._was_large and min(lane.size for lane in self._lanes) < large
        return _Room(num_tokens, 0 if is_turn_of_small else slice_tokens, large)

    def _is_urgent(self, lane: "_Lane", now: float) -> bool:
        """Tell whether a request has less than half of its time, and more than half to do."""
        first = self._lanes[lane][0]
        is_half_over = now - first.came > first.jobs[0].deadline - now
        return is_half_over and 2 * len(first.jobs) > first.num_jobs

    def _fill(
        self, batch: Batch, room: "_Room", order: "_Order", *, leave: int, now: float
    ) -> None:
        lanes = [lane for lane in self._lanes if lane.key == batch.key]
        while lanes:
            lane = min(lanes, key=order)
            first = self._lanes[lane][0].jobs[0].item
            cost, has_company = first.num_tokens, len(batch.jobs) >= first.company
            if has_company and room.left <= leave:
                return
            if has_company and not room.fits(lane, cost):
                lanes.remove(lane)
                continue
            job = self._pop(lane)
            if lane not in self._lanes:
                lanes.remove(lane)
            if not self._begin(job, lane):
                continue
            if job.deadline <= now:
                batch.expired.append(job)
                continue
            batch.jobs.append(job)
            room.take(lane, cost)

    def _pop(self, lane: "_Lane") -> Job:
        requests = self._lanes[lane]
        job = requests[0].jobs.popleft()
        if not requests[0].jobs:
            requests.popleft()
        if not requests:
            del self._lanes[lane]
        return job

    def _begin(self, job: Job, lane: "_Lane") -> bool:
        """Take a job's answer over, so that it can no longer be cancelled."""
        self.num_jobs -= 1
        self.num_tokens -= _cost(job)
        self._tokens[lane.size] -= _cost(job)
        if _is_begun(job.answer):
            return True
        self.num_skipped += 1
        return False

    def _by_age(self, lane: "_Lane") -> tuple[int, int]:
        return 0, self._lanes[lane][0].number

    def _by_size(self, lane: "_Lane") -> tuple[int, int]:
        return lane.size, self._lanes[lane][0].number


def size_of(num_tokens: int) -> int:
    """Return to which size a request belongs: 4 to 31 tokens are one, 32 to 255 the next."""
    return num_tokens.bit_length() // 3


_Order = Callable[["_Lane"], tuple[int, int]]


@dataclass(frozen=True)
class _Lane:
    """Requests that are alike: of one key and size."""

    key: Hashable
    size: int


@dataclass
class _Room:
    """What a batch still has room for."""

    left: int  # tokens
    left_for_large: int
    large: int  # the least size of large requests
    has_large: bool = False

    def fits(self, lane: _Lane, cost: int) -> bool:
        return cost <= (
            self.left if lane.size < self.large else min(self.left, self.left_for_large)
        )

    def take(self, lane: _Lane, cost: int) -> None:
        self.left -= cost
        if lane.size >= self.large:
            self.has_large = True
            self.left_for_large -= cost


@dataclass
class _Request:
    """What is left of the jobs that came together."""

    number: int
    came: float
    num_jobs: int  # at first
    jobs: deque[Job] = field(default_factory=deque)  # shortest first, so that neighbors are alike


def _cost(job: Job) -> int:
    return job.item.num_tokens


def _is_begun(answer: "Future[Any]") -> bool:
    # A job that was handed in twice has been begun, or ended, by its first turn.
    with suppress(Exception):
        return answer.set_running_or_notify_cancel()
    return False
