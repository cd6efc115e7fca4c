"""Jobs of many clients, computed together: admission, batches, deadlines, a worker that is watched.

One lock guards all that is shared. Answers are given without it, because a client's callbacks run
then; each by whoever has taken the job out of the worker's hands, so that nobody answers twice.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition, Event, Thread, current_thread
from typing import Any, Literal

from bertworks.service.failures import Failure
from bertworks.service.jobs import Item, Job
from bertworks.service.pace import Portion
from bertworks.service.waiting import Batch, WaitingLine
from bertworks.service.worker import Compute, Worker

BEAT = 0.25  # seconds between two looks at the worker
MINUTE = 60.0
SLICE = 0.04  # seconds that a batch takes from large requests while small ones come
LEAST = 64  # tokens of a slice, or a batch, however slow the network is
TIMES_OWN = 16  # as long as a request takes itself it may wait: for so many that are alike
logger = logging.getLogger("bertworks.service")


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """How much is computed at once, how much may wait, and when a worker is given up."""

    batch_tokens: int = 4096  # of one batch; a larger item goes alone
    queue_tokens: int = 65536  # that wait; more are refused
    wait: float = 0.4  # seconds of work that may wait before a small request, or it is refused
    oldest: float = 0.0  # seconds that a job may wait for company while nothing else is computed
    late_after: float = 1.5  # seconds; a batch that takes this and far too long: not ready
    stuck_after: float = 8.0  # seconds; a batch that takes this and far too long: worker lost
    restarts: int = 5  # of the worker in a minute; one more and all is given up


class Batcher:
    """A queue of jobs, the one thread that computes them, and the one that watches it."""

    def __init__(
        self,
        compute: Compute,
        limits: BatchLimits,
        *,
        warm_up: Item | None = None,
        on_give_up: Callable[[], None] | None = None,
        on_batch: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        self.num_submitted = 0
        self.num_refused = 0  # requests for which there was no room
        self.num_computed = 0
        self.num_expired = 0
        self.num_failed = 0
        self.num_batches = 0
        self.num_tokens = 0  # of all batches
        self.num_restarts = 0
        self._compute = compute
        self._limits = limits
        self._warm_up = warm_up  # must always succeed; None: soundness is taken for granted
        self._on_give_up = on_give_up
        self._on_batch = on_batch  # told of each that is begun
        least, most = min(LEAST, limits.batch_tokens), limits.batch_tokens
        self._full = Portion(limits.wait / 2, least=least, most=most, at_first=most)
        self._slice = Portion(SLICE, least=least, most=most, at_first=most // 8)
        self._pace = self._full.pace
        self._line = WaitingLine()
        self._changed = Condition()
        self._state: Literal["new", "running", "stopping", "stopped", "given up"] = "new"
        self._worker: Worker | None = None
        self._has_ended = Event()
        self._watchdog = Thread(target=self._watch, name="bertworks-watchdog", daemon=True)
        self._last_look = 0.0
        self._awake_since = 0.0  # before that the whole process was held up, not the worker
        self._lost: list[tuple[float, Worker]] = []  # lately, or with a thread that still hangs

    def start(self) -> None:
        """Begin to compute; jobs that were handed in before have waited."""
        with self._changed:
            if self._state != "new":
                raise RuntimeError(f"a batcher is started once, and this one is {self._state}")
            self._last_look = time.monotonic()
            self._hire()
            self._watchdog.start()
            self._state = "running"

    def require_room(self, deadline: float) -> None:
        """Refuse what could not wait however small it is, before any work is put into it."""
        with self._changed:
            self._admit(1, deadline, last=1)

    def seconds_to_come(self, num_tokens: int, *, behind: int = 0) -> float | None:
        """Return after how long to send a request again that would wait too long; None: at once.

        It is a guess, so nothing is locked. Behind are tokens that do not wait yet but will before.
        """
        ahead = self._pace.seconds(self._line.tokens_before(num_tokens) + behind)
        if ahead is None or self._state != "running":
            return None
        own = self._pace.seconds(num_tokens) or 0.0
        patience = max(self._limits.wait, TIMES_OWN * own)
        return ahead - patience if ahead > patience else None

    def submit(self, jobs: Sequence[Job]) -> None:
        """Let all jobs of a request wait for their answers, or none."""
        with self._changed:
            deadline = min((job.deadline for job in jobs), default=None)
            costs = [job.item.num_tokens for job in jobs]
            self._admit(sum(costs), deadline, last=max(costs, default=0))
            self._line.add(jobs, now=time.monotonic())
            self.num_submitted += len(jobs)
            self._changed.notify_all()

    def stop(self, drain: float) -> None:
        """Refuse what comes, finish what waits within some seconds, and fail the rest."""
        with self._changed:
            if self._state in ("new", "running"):
                self._state = "stopping"
            self._changed.notify_all()
            self._changed.wait_for(self._is_drained, timeout=drain)
            worker, left = self._worker, self._relieve() + self._line.clear()
            self._end("stopped")
        self._fail(left, "stopping", "the service stopped before this was computed; send it again")
        if worker is not None and not worker.is_busy:
            worker.join(timeout=BEAT)
        if self._watchdog.is_alive() and self._watchdog is not current_thread():
            self._watchdog.join(timeout=BEAT)

    def wait_until_ready(self, timeout: float) -> bool:
        """Wait for the first forward, at most some seconds, and tell whether it has passed."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_ready or self._has_ended.is_set(), timeout)
        return self.is_ready

    @property
    def is_ready(self) -> bool:
        """Whether a forward has passed and the worker is neither dead nor suspiciously slow."""
        worker, limits = self._worker, self._limits
        if worker is None or self._state != "running" or not worker.is_warm:
            return False
        if time.monotonic() - self._last_look > max(limits.late_after, 4 * BEAT):
            return False
        return not (self._is_lost(worker) or worker.is_late(late_after=limits.late_after))

    @property
    def num_waiting(self) -> int:
        """How many jobs wait."""
        return self._line.num_jobs

    @property
    def waiting_tokens(self) -> int:
        """How many tokens wait."""
        return self._line.num_tokens

    @property
    def num_skipped(self) -> int:
        """How many jobs were cancelled before their turn."""
        return self._line.num_skipped

    @property
    def num_in_hand(self) -> int:
        """How many jobs are being computed."""
        worker = self._worker
        return 0 if worker is None else len(worker.held)

    def _admit(self, num_tokens: int, deadline: float | None, *, last: int) -> None:
        if self._state in ("stopping", "stopped"):
            raise Failure("stopping", "the service stops and takes no more; ask it again later")
        if self._state == "given up":
            raise Failure(
                "worker_lost", "the model cannot be computed; the service must be restarted"
            )
        most, waiting = self._limits.queue_tokens, self._line.num_tokens
        if num_tokens > most:
            raise Failure(
                "too_large",
                f"the request has {num_tokens} tokens but {most} may wait; send fewer at once",
            )
        if waiting + num_tokens > most:
            raise self._refusal(self._pace.seconds(waiting + num_tokens - most))
        if (seconds := self.seconds_to_come(num_tokens)) is not None:
            raise self._refusal(seconds)
        if deadline is not None:
            self._require_time(num_tokens - last, deadline - time.monotonic())

    def _require_time(self, num_tokens: int, left: float) -> None:
        """Refuse a request whose last job, behind some tokens of its own, would come too late."""
        waiting, own = self._line.num_tokens, self._pace.seconds(num_tokens)
        in_hand = 0.0 if self._worker is None else self._worker.seconds_left(self._pace)
        if own is None or left <= 0:
            return
        if own > left:
            raise Failure(
                "too_large",
                f"the request would take about {own:.0f} seconds, and it may wait {left:.0f}; "
                "send fewer at once",
            )
        if in_hand + (self._pace.seconds(waiting) or 0.0) + own > left:
            raise self._refusal(self._pace.seconds(waiting))

    def _refusal(self, seconds: float | None) -> Failure:
        self.num_refused += 1
        wait = 1.0 if seconds is None else min(max(seconds, 0.1), MINUTE)
        return Failure(
            "overloaded",
            f"{self._line.num_tokens} tokens wait already; send this again in {wait:.1f} seconds",
            retry_after=wait,
        )

    def _take(self, worker: Worker) -> Batch | None:
        """Wait for the worker's next batch; None: it is no longer needed."""
        with self._changed:
            worker.rest()
            self._changed.notify_all()
            while not worker.is_relieved:
                wait = self._seconds_to_wait()
                if wait is not None and wait <= 0:
                    return self._hand_out(worker)
                self._changed.wait(wait)
        return None

    def _seconds_to_wait(self) -> float | None:
        came = self._line.oldest
        if came is None:
            return None
        if self._state == "stopping" or self._line.num_tokens >= self._limits.batch_tokens:
            return 0.0
        return came + self._limits.oldest - time.monotonic()

    def _hand_out(self, worker: Worker) -> Batch:
        full, of_large = self._full.num_tokens, self._slice.num_tokens
        batch = self._line.take(full, now=time.monotonic(), slice_tokens=of_large)
        worker.held.update(batch.jobs, batch.expired)
        worker.begin(batch.num_tokens)
        self._on_batch(batch)
        self.num_batches += bool(batch.jobs)
        self.num_tokens += batch.num_tokens
        return batch

    def _time_batch(self, num_tokens: int, seconds: float) -> None:
        with self._changed:
            self._full.add(num_tokens, seconds)
            self._slice.add(num_tokens, seconds)

    def _settle(self, worker: Worker, job: Job, outcome: Any) -> None:
        """Answer a job, unless it was taken out of the worker's hands."""
        with self._changed:
            if job not in worker.held:
                return
            worker.held.remove(job)
            self._count(outcome)
        _give(job, outcome)

    def _fail(self, jobs: Sequence[Job], code: str, message: str) -> None:
        """Tell all of some jobs, which nobody holds any more, why there is no answer."""
        for job in jobs:
            failure = Failure(code, message, retry_after=1.0 if code == "worker_lost" else None)
            with self._changed:
                self._count(failure)
            _give(job, failure)

    def _count(self, outcome: Any) -> None:
        if not isinstance(outcome, Failure):
            self.num_computed += 1
        elif outcome.code == "too_late":
            self.num_expired += 1
        else:
            self.num_failed += 1

    def _watch(self) -> None:
        beat = min(BEAT, self._limits.stuck_after / 4)
        while not self._has_ended.wait(beat):
            self._look()

    def _look(self) -> None:
        """Fail what waits too long or is in lost hands; put a new worker in a lost one's place."""
        with self._changed:
            now = time.monotonic()
            if now - self._last_look > 4 * BEAT:
                self._awake_since = now
            self._last_look = now
            expired = self._line.sweep(now=now)
            lost = self._replace_worker(now)
            has_given_up = self._state == "given up"
        self._fail(expired, "too_late", "the deadline passed before its turn came")
        self._fail(lost, "worker_lost", "the worker was lost while it computed this; send it again")
        if has_given_up and self._on_give_up is not None:
            self._on_give_up()

    def _replace_worker(self, now: float) -> list[Job]:
        """Return what a lost worker leaves undone."""
        worker = self._worker
        if worker is None or not self._is_lost(worker):
            return []
        jobs = self._relieve()
        self._lost.append((now, worker))
        self._lost = [one for one in self._lost if one[0] > now - MINUTE or one[1].is_alive]
        if len(self._lost) > self._limits.restarts:
            logger.error("%d workers are lost, and no other is tried", len(self._lost))
            jobs += self._line.clear()
            self._end("given up")
            return jobs
        self.num_restarts += 1
        try:
            self._hire()
        except RuntimeError:  # no more threads: the next look finds it lost
            logger.exception("no new worker could be started")
        return jobs

    def _hire(self) -> None:
        self._worker = Worker(
            self._compute,
            warm_up=self._warm_up,
            time_batch=self._time_batch,
            take=self._take,
            settle=self._settle,
        )
        self._worker.start()

    def _relieve(self) -> list[Job]:
        """Take everything out of the worker's hands; should it wake, it answers nobody."""
        worker, self._worker = self._worker, None
        if worker is None:
            return []
        worker.is_relieved = True
        jobs = list(worker.held)
        worker.held.clear()
        return jobs

    def _end(self, state: Literal["stopped", "given up"]) -> None:
        if self._state != "given up":
            self._state = state
        self._has_ended.set()
        self._changed.notify_all()

    def _is_lost(self, worker: Worker) -> bool:
        return worker.is_lost(stuck_after=self._limits.stuck_after, since=self._awake_since)

    def _is_drained(self) -> bool:
        worker = self._worker
        if worker is None:
            return True
        is_computing = bool(worker.held) or (worker.is_warm and worker.is_busy)
        return not self._line.num_jobs and not is_computing


def _give(job: Job, outcome: Any) -> None:
    """Fulfil a promise; a callback of the client's that fails is no reason to fail the others."""
    try:
        if isinstance(outcome, Failure):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome)
    except BaseException:
        logger.exception("an answer could not be delivered")
