"""How the learning rate moves over a run.

Places and lengths are in steps or in seconds, as the run is measured.
"""

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["linear", "cosine", "stable", "constant"]

# The share of the highest rate, by the share of the fall that is left.
FALLS: dict[ScheduleName, Callable[[float], float]] = {
    "linear": lambda left: left,
    "cosine": lambda left: (1 - math.cos(math.pi * left)) / 2,
    "stable": lambda left: 1 - math.sqrt(1 - left),
    "constant": lambda left: 1.0,
}


def rate_at(
    place: float, *, schedule: ScheduleName, warmup: float, end: float, decay: float
) -> float:
    """Return the share of the highest rate: it rises in a line to 1, then falls to 0 at the end.

    The stable schedule stays at 1 and falls only in the last share `decay` of the run.
    """
    if warmup and place <= warmup:
        return place / warmup
    start = max(warmup, end * (1 - decay)) if schedule == "stable" else warmup
    left = (end - place) / max(end - start, 1e-9)
    return FALLS[schedule](min(max(left, 0.0), 1.0))
