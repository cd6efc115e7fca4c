"""Answers are found where they are said to stand, or where they stand nearest to that."""

from typing import Any

import pytest

from bertworks.core.errors import DataError
from bertworks.data.answer_places import find_answer
from bertworks.data.examples import Found

PASSAGE = "北京人张伟住在北京。Paris and paris"


@pytest.mark.parametrize("start", [7, 7.0, "7", " 7 ", "7.0"])
def test_a_start_counts_however_it_is_written(start: Any) -> None:
    assert find_answer("北京", start, PASSAGE) == Found("北京", 7)


@pytest.mark.parametrize(("start", "found"), [(None, 0), (-1, 0), (1, 0), (5, 7), (99, 7)])
def test_an_answer_that_stands_elsewhere_is_taken_where_it_is_nearest(
    start: int | None, found: int
) -> None:
    moved = start not in (None, -1)
    assert find_answer("北京", start, PASSAGE) == Found("北京", found, is_moved=moved)


def test_an_answer_that_is_nowhere_has_no_place() -> None:
    assert find_answer("上海", 3, PASSAGE) == Found("上海", None)


@pytest.mark.parametrize("start", [7.5, "seven", True, [7], float("nan"), float("inf")])
def test_a_start_that_is_no_number_is_refused(start: Any) -> None:
    with pytest.raises(DataError, match="of an answer is no whole number; count the characters"):
        find_answer("北京", start, PASSAGE)


@pytest.mark.parametrize("text", ["", "  ", None, 7, "\ud800"])
def test_an_answer_that_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(DataError, match="is empty or no text"):
        find_answer(text, 0, PASSAGE)
