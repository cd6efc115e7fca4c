"""The thread that computes batches, and how a batch that fails is taken apart."""

import logging
import os
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from threading import Thread, current_thread, get_native_id
from typing import Any

from bertworks.service.failures import Failure
from bertworks.service.freed_memory import Housekeeping
from bertworks.service.jobs import Item, Job
from bertworks.service.pace import Pace
from bertworks.service.waiting import Batch

# The key and contents of some items: one answer each, in order; a Failure for one that has none.
Compute = Callable[[Hashable, list[Any]], Sequence[Any]]
STEP_BACK = 4  # in the units of nice
logger = logging.getLogger("bertworks.service")


class Worker:
    """A thread that computes one batch after the other, until it is relieved or lost."""

    def __init__(
        self,
        compute: Compute,
        *,
        warm_up: Item | None,
        time_batch: Callable[[int, float], None],
        take: "Callable[[Worker], Batch | None]",
        settle: "Callable[[Worker, Job, Any], None]",
    ) -> None:
        self.held: set[Job] = set()  # begun, not settled; only the batcher changes it
        self.is_relieved = False  # another has its place: it answers nobody any more
        self.is_warm = False  # a forward has passed
        self._compute = compute
        self._warm_up = warm_up
        self._time_batch = time_batch  # told the tokens of each batch, and the seconds it took
        self._pace = Pace()
        self._writing_pace = Pace()  # a piece that is written takes many times one that is read
        self._first_pace = Pace()  # of what must always succeed: too slow, but known from the start
        self._take = take
        self._settle = settle
        self._is_dead = False
        self._begun: tuple[float, int] | None = None  # since when, how many tokens
        self._is_writing = False
        self._thread = Thread(target=self._run, name="bertworks-worker", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, if it is not the one that asks."""
        if self._thread is not current_thread():
            self._thread.join(timeout)

    def begin(self, num_tokens: int, *, is_writing: bool = False) -> None:
        """Note that some tokens are worked at from now on."""
        self._is_writing = is_writing
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
        expected = self._expected(begun[1], is_guessed=True)
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
        expected = self._expected(begun[1], is_guessed=self._is_writing)
        return time.monotonic() - begun[0] > max(late_after, 8 * expected)

    def _expected(self, num_tokens: int, *, is_guessed: bool) -> float:
        """Return how long some tokens should take, by what such ones took."""
        pace = self._writing_pace if self._is_writing else self._pace
        seconds = pace.seconds(num_tokens)
        if seconds is None and is_guessed:
            seconds = self._first_pace.seconds(num_tokens)
        return seconds or 0.0

    def _run(self) -> None:
        try:
            step_back()
            self._prove_soundness()
            self.is_warm, keeping = True, Housekeeping()
            while (batch := self._take(self)) is not None:
                start = time.monotonic()
                is_sound = self._work(batch)
                if is_sound and not self.is_relieved:
                    self._time_batch(batch.num_tokens, time.monotonic() - start)
                del batch  # its contents are not kept while there is nothing to do
                keeping.look()
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

    def _work(self, batch: Batch) -> bool:
        """Answer the jobs of a batch, and tell whether it could be computed as a whole."""
        for job in batch.expired:
            self._settle(self, job, Failure("too_late", "the deadline passed before its turn came"))
        parts, is_sound = [batch.jobs] if batch.jobs else [], True
        while parts and not self.is_relieved:
            part = parts.pop()
            outcomes = self._attempt(batch.key, part)
            if isinstance(outcomes, Failure):
                is_sound = False
                if part is batch.jobs:  # is it the items, or the network?
                    self._prove_soundness()
                if len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                outcomes = [outcomes]
            for job, outcome in zip(part, outcomes, strict=True):
                self._settle(self, job, outcome)
        return is_sound

    def _attempt(self, key: Hashable, jobs: list[Job]) -> Sequence[Any] | Failure:
        num_tokens, is_writing = sum(job.item.num_tokens for job in jobs), jobs[0].item.is_written
        self.begin(num_tokens, is_writing=is_writing)
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
            pace = self._writing_pace if is_writing else self._pace
            pace.add(num_tokens, time.monotonic() - start)
        return answers


def step_back() -> None:
    """Let other threads of this process go first where cores are short.

    Who computes has much to do at a time, who talks to clients little, but at once. On Linux each
    thread has a priority of its own, which the threads that it starts inherit.
    """
    if sys.platform == "linux":
        own = get_native_id()
        os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + STEP_BACK)
