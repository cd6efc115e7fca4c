"""How likely a model calls its answers, beside what is right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True, eq=False)
class Claims:
    """The chances of an answer, and which of them are of what is right."""

    chances: np.ndarray
    is_right: np.ndarray
    is_choice: bool = False  # the chances are of things of which one is right

    @classmethod
    def choice(cls, chances: Sequence[float], right: int) -> Self:
        """Make them of the chances of things of which one is right."""
        return cls(np.array(chances), np.arange(len(chances)) == right, is_choice=True)

    @classmethod
    def each(cls, chances: Sequence[float], is_right: Sequence[bool] | np.ndarray) -> Self:
        """Make them of chances that stand by themselves."""
        return cls(np.array(chances, np.float64), np.array(is_right, bool))

    @property
    def made(self) -> tuple[np.ndarray, np.ndarray]:
        """The chances that the answer claims, and whether it is right in each."""
        if not self.is_choice:
            return self.chances, self.is_right
        best = int(self.chances.argmax())
        return self.chances[best : best + 1], self.is_right[best : best + 1]

    @property
    def brier(self) -> float:
        """The mean square of what the chances lack; of two choices it is that of either."""
        squares = (self.chances - self.is_right) ** 2
        return float(squares.sum() / 2 if self.is_choice else squares.mean())
