"""How the learning rate moves over a run.

Places and lengths are in steps or in seconds, as the run is measured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

ScheduleName = Literal["linear", "cosine", "stable", "root", "constant"]

# The share of the highest rate, by the share of the fall that is left.
FALLS: dict[ScheduleName, Callable[[float], float]] = {
    "linear": lambda left: left,
    "cosine": lambda left: (1 - math.cos(math.pi * left)) / 2,
    "stable": lambda left: 1 - math.sqrt(1 - left),
    "constant": lambda left: 1.0,
}  # and root, which knows no end


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The way of the learning rate: it rises in a line to its highest, then falls."""

    name: ScheduleName = "linear"
    warmup: float = 0.0  # how long it rises
    decay: float = 0.2  # the share of the run in which the stable one falls

    def at(self, place: float, *, end: float) -> float:
        """Return the share of the highest rate, which comes to 0 at the end.

        The stable schedule stays at 1 and falls only in the last share `decay` of the run. That of
        a root falls by how often the warm-up is over, and stays where there was none.
        """
        if self.warmup and place <= self.warmup:
            return place / self.warmup
        if self.name == "root":
            return math.sqrt(self.warmup / place) if self.warmup else 1.0
        is_stable = self.name == "stable"
        start = max(self.warmup, end * (1 - self.decay)) if is_stable else self.warmup
        left = (end - place) / max(end - start, 1e-9)
        return FALLS[self.name](min(max(left, 0.0), 1.0))
