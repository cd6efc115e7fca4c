"""The thread that computes batches, and how a batch that fails is taken apart."""

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from threading import Thread, current_thread
from typing import Any

from bertworks.service.failures import Failure
from bertworks.service.jobs import Item, Job
from bertworks.service.waiting import Batch

# The key and contents of some items: one answer each, in order; a Failure for one that has none.
Compute = Callable[[Hashable, list[Any]], Sequence[Any]]
logger = logging.getLogger("bertworks.service")


class Pace:
    """How fast tokens are computed; the latest batches count most."""

    def __init__(self, *, least: int = 1) -> None:
        self.tokens_per_second: float | None = None  # None: not known yet
        self._least = least
        self._tokens = 0.0
        self._seconds = 0.0

    def add(self, num_tokens: int, seconds: float) -> None:
        """Count what took some seconds, if it is enough to say something."""
        if num_tokens < self._least:
            return
        self._tokens = 0.8 * self._tokens + num_tokens
        self._seconds = 0.8 * self._seconds + seconds
        self.tokens_per_second = self._tokens / max(self._seconds, 1e-6)

    def seconds(self, num_tokens: int) -> float | None:
        """Return how long some tokens will take."""
        rate = self.tokens_per_second
        return None if rate is None else num_tokens / rate


class Worker:
    """A thread that computes one batch after the other, until it is relieved or lost."""

    def __init__(
        self,
        compute: Compute,
        *,
        warm_up: Item | None,
        full_pace: Pace,
        take: "Callable[[Worker], Batch | None]",
        settle: "Callable[[Worker, Job, Any], None]",
    ) -> None:
        self.held: set[Job] = set()  # begun, not settled; only the batcher changes it
        self.is_relieved = False  # another has its place: it answers nobody any more
        self.is_warm = False  # a forward has passed
        self._compute = compute
        self._warm_up = warm_up
        self._full_pace = full_pace
        self._pace = Pace()
        self._first_pace = Pace()  # of what must always succeed: too slow, but known from the start
        self._take = take
        self._settle = settle
        self._is_dead = False
        self._begun: tuple[float, int] | None = None  # since when, how many tokens
        self._thread = Thread(target=self._run, name="bertworks-worker", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, if it is not the one that asks."""
        if self._thread is not current_thread():
            self._thread.join(timeout)

    def begin(self, num_tokens: int) -> None:
        """Note that some tokens are worked at from now on."""
        self._begun = time.monotonic(), num_tokens

    def rest(self) -> None:
        """Note that nothing is worked at."""
        self._begun = None

    @property
    def is_alive(self) -> bool:
        """Whether its thread has begun and not ended."""
        return self._thread.is_alive() and not self._is_dead

    @property
    def is_busy(self) -> bool:
        """Whether something is worked at."""
        return self._begun is not None

    def is_lost(self, *, stuck_after: float, since: float) -> bool:
        """Tell whether the thread has ended, or is with one thing for too long."""
        if not self.is_alive:
            return True
        begun = self._begun
        if begun is None:
            return False
        pace = self._first_pace if self._pace.tokens_per_second is None else self._pace
        expected = pace.seconds(begun[1]) or 0.0
        return time.monotonic() - max(begun[0], since) > max(stuck_after, 8 * expected)

    def seconds_left(self, pace: Pace) -> float:
        """Return how long what is worked at will still take."""
        begun = self._begun
        if begun is None:
            return 0.0
        return max((pace.seconds(begun[1]) or 0.0) - (time.monotonic() - begun[0]), 0.0)

    def is_late(self, *, late_after: float) -> bool:
        """Tell whether a thing takes suspiciously long: many times what its tokens need."""
        begun = self._begun
        if begun is None:
            return False
        expected = self._pace.seconds(begun[1]) or 0.0
        return time.monotonic() - begun[0] > max(late_after, 8 * expected)

    def _run(self) -> None:
        try:
            self._prove_soundness()
            self.is_warm = True
            while (batch := self._take(self)) is not None:
                self._work(batch)
                del batch  # its contents are not kept while there is nothing to do
        except BaseException:
            logger.exception("the worker thread is lost")
        finally:
            self._is_dead = True

    def _prove_soundness(self) -> None:
        """Compute what must always succeed; where it does not, no other answer is to be trusted."""
        if self._warm_up is None:
            return
        self.begin(self._warm_up.num_tokens)
        start = time.monotonic()
        (outcome,) = self._compute(self._warm_up.key, [self._warm_up.content])
        if isinstance(outcome, Failure):
            raise outcome
        self._first_pace.add(self._warm_up.num_tokens, time.monotonic() - start)

    def _work(self, batch: Batch) -> None:
        for job in batch.expired:
            self._settle(self, job, Failure("too_late", "the deadline passed before its turn came"))
        parts = [batch.jobs] if batch.jobs else []
        while parts and not self.is_relieved:
            part = parts.pop()
            outcomes = self._attempt(batch.key, part)
            if isinstance(outcomes, Failure):
                if part is batch.jobs:  # is it the items, or the network?
                    self._prove_soundness()
                if len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                outcomes = [outcomes]
            for job, outcome in zip(part, outcomes, strict=True):
                self._settle(self, job, outcome)

    def _attempt(self, key: Hashable, jobs: list[Job]) -> Sequence[Any] | Failure:
        num_tokens = sum(job.item.num_tokens for job in jobs)
        self.begin(num_tokens)
        start = time.monotonic()
        try:
            answers = list(self._compute(key, [job.item.content for job in jobs]))
            if len(answers) != len(jobs):
                raise RuntimeError(f"{len(answers)} answers came for {len(jobs)} items")
        except Failure as failure:
            return failure.with_traceback(None)
        except Exception as error:
            # Only its name is kept: the traceback would hold on to the memory of the batch.
            logger.warning("%d items of %.99r failed", len(jobs), key, exc_info=len(jobs) == 1)
            return Failure("failed", f"the model failed on this input: {type(error).__name__}")
        if not self.is_relieved:
            seconds = time.monotonic() - start
            self._pace.add(num_tokens, seconds)
            self._full_pace.add(num_tokens, seconds)
        return answers
