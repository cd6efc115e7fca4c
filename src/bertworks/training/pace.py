"""How far a run has come and when it ends: by its steps, by the time that it has, or by both."""

import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bertworks.core.errors import UsageError
from bertworks.training.schedule import Schedule

UNITS = {"h": 3600, "m": 60, "s": 1}
SECONDS_TO_CLOSE = 1.0  # beside what is measured


def seconds_of(duration: str) -> int:
    """Read a duration such as 25m, 90s or 1h30m."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", duration)
    numbers = (int(number or 0) for number in found.groups()) if found else ()
    seconds = sum(number * size for number, size in zip(numbers, UNITS.values(), strict=False))
    if not seconds:
        raise UsageError(f"the budget is {duration!r}, but it must be a time such as 25m or 1h30m")
    return seconds


@dataclass(frozen=True)
class Spent:
    """The time that a run has taken, in all processes that have gone on with it."""

    seconds: float = 0.0
    place: float = 0.0  # under a budget: how far along its way the rate has come
    way: float = 0.0  # the length of that way, in seconds of the process that began it


@dataclass
class Stopwatch:
    """A clock that starts when it is made."""

    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def spent(self) -> float:
        """Return the seconds since the start."""
        return self.clock() - self.began


@dataclass(kw_only=True)
class Budget(Stopwatch):
    """The time that a run has; its clock starts here."""

    seconds: float


@dataclass(kw_only=True)
class Pace:
    """Where a run stands between its first step and its end, and how fast it learns there.

    With steps and a budget it ends with whichever is over first, and stands where the farther is.
    """

    steps: int | None  # None: as many as the budget allows
    budget: Budget | None = None  # None: as much time as the steps take
    schedule: Schedule = field(default_factory=Schedule)  # in steps, or in seconds of the budget
    before: Spent = field(default_factory=Spent)  # what processes before this one have taken

    has_ended: bool = field(default=False, init=False)
    _step: int = field(default=0, init=False)  # the step at hand
    _ready: float = field(default=0.0, init=False)  # when this process had taken its first step
    _begun: float = field(default=0.0, init=False)  # when the step at hand began
    _quickest: float = field(default=math.inf, init=False)  # seconds of a step
    _taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list), init=False)

    def __post_init__(self) -> None:
        self._watch = self.budget or Stopwatch()

    @property
    def spent(self) -> Spent:
        """The time that the run has taken."""
        if self.budget is None:
            return Spent(self.seconds)
        return Spent(seconds := self.seconds, self._place(seconds), self._way)

    @property
    def seconds(self) -> float:
        """The seconds of all processes so far: under a budget, the part of it that is spent."""
        return self.before.seconds + self._watch.spent()

    @property
    def end(self) -> float:
        """Where the rate would come to nothing: just behind the last step."""
        if self.budget is None:
            return (self.steps or 0) + 1
        return self.budget.seconds - self._seconds_to_end()

    def rate(self, step: int) -> float:
        """Return the share of the highest learning rate for a step that begins now."""
        if self.budget is None:
            return self.schedule.at(step, end=self.end)
        self._get_ready()
        self._begun, self._step = self.seconds, step
        return self.schedule.at(self._place(self._begun), end=self._way)

    def share(self, step: int) -> float:
        """Return how much of the run lies behind a step."""
        if self.budget is None:
            return step / (self.steps or 1)
        return min(self._place(self.seconds) / max(self._way, 1e-9), 1.0)

    def is_last(self, step: int) -> bool:
        """Tell whether a step that has just been taken is the last."""
        if self.budget is None or step == self.steps:
            self.has_ended = step == self.steps
        else:
            self._get_ready()
            spent, is_first = self.seconds, math.isinf(self._quickest)
            self._quickest = min(self._quickest, spent - self._begun)
            # The first step also prepares those that follow, and tells little about them.
            self.has_ended = spent + (0.0 if is_first else self._quickest) >= self.end
        return self.has_ended

    def goes_on_after(self, step: int) -> bool:
        """Tell whether a run that stands at a step has any left."""
        if self.steps is not None and step >= self.steps:
            return False
        return self.budget is None or (not self.has_ended and self.seconds < self.end)

    def note(self) -> str:
        """Say how much time is left, of a budget."""
        return f", {max(self.end - self.seconds, 0):,.0f} s left" if self.budget else ""

    def wants(self, work: str) -> bool:
        """Tell whether it has yet to be seen how long some work takes."""
        return self.budget is not None and work not in self._taken

    @contextmanager
    def timing(self, work: str) -> Iterator[None]:
        """Measure work that will be done once more at the end."""
        begun = self.seconds
        yield
        self._taken[work].append(self.seconds - begun)

    def rehearse(self, work: str, do: Callable[[], object], *, compiles: bool) -> None:
        """Do before a run what will be done at its end; where it compiles first, do it twice.

        How long it takes then is what the run must leave for it, and compiling is no part of that.
        """
        for _ in range(1 + compiles):
            with self.timing(work):
                do()

    def _get_ready(self) -> None:
        """Let the rate begin to move only after the first step, which prepares those that follow.

        What is opened, timed and compiled before that would use up the rise of the rate; after a
        resume it would make the rate leap.
        """
        if math.isinf(self._quickest):
            self._ready = self.seconds

    @property
    def _way(self) -> float:
        """The seconds from the first step's end to where the rate would come to nothing."""
        return self.before.way or self.before.place + self.end - self._ready

    def _place(self, seconds: float) -> float:
        """Return where on its way the rate stands at a time, or at the step at hand if farther.

        A later process goes on from where the one before it stood, and takes the rest of the way
        in the time that is left, which its own start has made shorter.
        """
        left = max(self.end - self._ready, 1e-9)
        rest = self._way - self.before.place
        by_time = self.before.place + rest * (seconds - self._ready) / left
        return max(by_time, self._way * self._step / (self.steps + 1)) if self.steps else by_time

    def _seconds_to_end(self) -> float:
        """Return what the last evaluations and saves will take: the loop's and the stage's."""
        longest = (max(taken[1:] or taken) for taken in self._taken.values())
        return SECONDS_TO_CLOSE + 2 * sum(longest)
