"""The health of a run: which steps may change the weights, when it goes back, and when it stops.

Nothing here computes or writes. `judge` is fed with what a step measured; it tells what to do, and
what to remember for the next. The memory travels in the checkpoint, so that a resumed run decides
as one that was never stopped.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

MOST_BAD_IN_A_ROW = 3  # steps that are not finite
MOST_SPIKES_IN_A_ROW = 5  # beyond it the weights are at fault, not the batches
MOST_ROLLBACKS = 3
NUM_SUSPECTS = 50  # steps before a spike that may have brought it about
LONGEST_ROLLBACK = NUM_SUSPECTS + (MOST_SPIKES_IN_A_ROW + 1) * (MOST_BAD_IN_A_ROW + 1)
LARGEST_SKIPPED_SHARE = 0.001  # of the steps so far
MOST_SKIPPED_EARLY = 10  # while that share is less
NUM_UNJUDGED = 20  # losses that an average needs before it can judge
AVERAGE_RATE = 0.02  # the weight of the newest loss
LEAST_AVERAGE = 1.0  # small losses rise to their multiple by chance


@dataclass(frozen=True)
class Rollback:
    """The steps that a run left out when it went back, and why."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True)
class Health:
    """What a run remembers of its steps."""

    averages: dict[str, float] = field(default_factory=dict)  # of each task's losses
    num_seen: dict[str, int] = field(default_factory=dict)  # losses in each average
    num_skipped: int = 0
    bad_in_a_row: int = 0
    spikes_in_a_row: int = 0
    first_spike: int = 0  # the step where they began
    rollbacks: tuple[Rollback, ...] = ()

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> Self:
        """Take it out of a checkpoint."""
        rollbacks = tuple(Rollback(**rollback) for rollback in entries["rollbacks"])
        return cls(**{**entries, "rollbacks": rollbacks})

    def leaves_out(self, step: int) -> bool:
        """Tell whether a step belongs to what was rolled back."""
        return self._rollback_of(step) is not None

    def why_left_out(self, step: int) -> str:
        """Return the reason of the rollback that a step belongs to."""
        rollback = self._rollback_of(step)
        return rollback.reason if rollback else ""

    def _rollback_of(self, step: int) -> Rollback | None:
        return next((r for r in self.rollbacks if r.first <= step <= r.last), None)


@dataclass(frozen=True)
class Verdict:
    """What to do about a step, and why."""

    act: Literal["update", "skip", "leave out", "go back", "stop"]
    reason: str = ""


GOOD = Verdict("update")


def judge(
    health: Health, step: int, losses: Mapping[str, float], *, norm: float, spike: float
) -> tuple[Verdict, Health]:
    """Judge one step by its losses and the norm of its gradient; return what to remember too.

    A loss above `spike` times its average is not learned from; 0 lets every loss pass.
    """
    if health.leaves_out(step):
        return Verdict("leave out", health.why_left_out(step)), health
    if not all(map(math.isfinite, (norm, *losses.values()))):
        bad = _skipping(health, bad_in_a_row=health.bad_in_a_row + 1)
        return _judge_bad(bad, step), bad
    if reason := _find_spike(health, losses, spike):
        first = health.first_spike or step
        count = health.spikes_in_a_row + 1
        return _judge_spike(
            _skipping(health, spikes_in_a_row=count, first_spike=first), step, reason
        )
    return GOOD, _remember(health, losses)


def limits(health: Health, spike: float) -> dict[str, float]:
    """Return up to where the losses of the next step are learned from; others have no limit."""
    known = (name for name, count in health.num_seen.items() if count >= NUM_UNJUDGED and spike)
    return {name: spike * max(health.averages[name], LEAST_AVERAGE) for name in known}


def _skipping(health: Health, **changes: Any) -> Health:
    return replace(health, num_skipped=health.num_skipped + 1, **changes)


def _judge_bad(health: Health, step: int) -> Verdict:
    if health.bad_in_a_row > MOST_BAD_IN_A_ROW:
        steps = f"{health.bad_in_a_row} steps in a row up to {step}"
        return Verdict("stop", f"{steps} had a loss or gradient that is not finite")
    return _skip(health, step, "its loss or gradient is not finite")


def _judge_spike(health: Health, step: int, reason: str) -> tuple[Verdict, Health]:
    """Suspect the batch at first, and after some in a row the weights."""
    if health.spikes_in_a_row <= MOST_SPIKES_IN_A_ROW:
        return _skip(health, step, reason), health
    if len(health.rollbacks) == MOST_ROLLBACKS:
        reason = f"step {step} comes after {MOST_ROLLBACKS} rollbacks, and {reason}"
        return Verdict("stop", reason), health
    first = max(1, health.first_spike - NUM_SUSPECTS)
    rollback = Rollback(first, step, f"rolled back, for at step {step} {reason}")
    return Verdict("go back", reason), replace(health, rollbacks=(*health.rollbacks, rollback))


def _skip(health: Health, step: int, reason: str) -> Verdict:
    """Skip a step, unless that is one too many."""
    if health.num_skipped <= max(MOST_SKIPPED_EARLY, step * LARGEST_SKIPPED_SHARE):
        return Verdict("skip", reason)
    return Verdict(
        "stop", f"{health.num_skipped} of {step:,} steps were skipped, the last because {reason}"
    )


def _find_spike(health: Health, losses: Mapping[str, float], spike: float) -> str:
    """Say which loss is far above its average, in words; an empty string: none is."""
    highest = limits(health, spike)
    for name, loss in losses.items():
        if loss > highest.get(name, math.inf):
            return f"its {name} loss is {loss:.2f}, its average {health.averages[name]:.2f}"
    return ""


def _remember(health: Health, losses: Mapping[str, float]) -> Health:
    """Put good losses into their averages; one of nothing tells of no usual size."""
    averages, num_seen = dict(health.averages), dict(health.num_seen)
    for name, loss in losses.items():
        if loss > 0:
            num_seen[name] = num_seen.get(name, 0) + 1
            weight = max(1 / num_seen[name], AVERAGE_RATE)  # the first ones are a plain mean
            average = averages.get(name, 0.0)
            averages[name] = average + (loss - average) * weight
    return replace(
        health,
        averages=averages,
        num_seen=num_seen,
        bad_in_a_row=0,
        spikes_in_a_row=0,
        first_spike=0,
    )
