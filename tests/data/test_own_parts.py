"""Processes share the parts of a step; together they have just what one alone would have."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import Batch
from bertworks.core.crew import Crew
from bertworks.core.device import Seat
from bertworks.core.errors import UsageError
from bertworks.data.own_parts import OwnParts
from bertworks.data.packing import Features, Goal, flatten_parts


class Numbers:
    """Batches of a few texts, each as long as its number says."""

    def __init__(self, num_texts: int, accumulate: int) -> None:
        self.num_texts, self.accumulate = num_texts, accumulate

    def at(self, step: int, parts: Sequence[int] | None = None) -> list[Batch]:
        texts = [self._text(number) for number in range(1, self.num_texts + 1)]
        return flatten_parts([[text] for text in texts], count=self.accumulate, wanted=parts)

    def _text(self, number: int) -> Features:
        goals = {"word": Goal((number,), (0,)), "text": Goal((number,))}
        return Features(np.full(number, number), np.zeros(number, dtype=int), goals, number)


def own(rank: int, size: int, num_texts: int, accumulate: int) -> list[Batch]:
    crew = Crew(Seat(rank, size))
    return OwnParts(Numbers(num_texts, accumulate), accumulate=accumulate, crew=crew).at(3)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 17))
def test_together_they_have_every_text_once(size: int, turns: int, num_texts: int) -> None:
    accumulate = size * turns
    shares = [own(rank, size, num_texts, accumulate) for rank in range(size)]
    alone = Numbers(num_texts, accumulate).at(3)
    joined = [part for turn in zip(*shares, strict=True) for part in turn]
    assert [part.ids for part in joined if part.ids] == [part.ids for part in alone]
    for name in ("word", "text"):
        counts = [sum(part.targets[name].count for part in parts) for parts in (joined, alone)]
        assert counts == [num_texts, num_texts]


def test_each_has_as_many_parts_and_those_without_texts_ask_for_nothing() -> None:
    first, second = own(0, 2, 3, 4), own(1, 2, 3, 4)
    assert [part.ids for part in first] == [(1,), (3,)]
    assert [part.ids for part in second] == [(2,), ()]
    assert second[1].num_texts == 1
    assert [target.count for target in second[1].targets.values()] == [0, 0]


def test_one_alone_has_no_parts_without_texts() -> None:
    assert [part.ids for part in own(0, 1, 3, 7)] == [(1,), (2,), (3,)]


def test_parts_that_cannot_be_shared_evenly_are_refused() -> None:
    with pytest.raises(UsageError, match=r"6 parts, which 4 processes .* --accumulate a multiple"):
        own(1, 4, 9, 6)
