"""The work that waits: items, ready to be computed, and the answers they are promised."""

import time
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Item:
    """One input, cut into pieces and ready for the network."""

    key: Hashable  # items of one key may be computed together
    content: Any
    num_tokens: int  # what it costs, special pieces and all windows counted
    is_cut: bool = False  # a part of the input is not read
    num_written: int = 0  # of these tokens, the most that may be written rather than read
    company: int = 1  # so many of a key take hardly longer than one, and go together

    @property
    def is_written(self) -> bool:
        """Whether its answer is written piece by piece."""
        return self.num_written > 0

    @property
    def num_read(self) -> int:
        """How many tokens the network reads."""
        return self.num_tokens - self.num_written


@dataclass(eq=False)
class Job:
    """An item in the queue; a cancelled answer is not computed."""

    item: Item
    deadline: float  # on the monotonic clock; later it is not begun
    answer: "Future[Any]" = field(default_factory=Future)
    came: float = field(default_factory=time.monotonic)
