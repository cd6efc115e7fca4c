"""Work ahead: the same items in the same order, and errors in their place."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.ahead import MOST_AHEAD, ahead


@given(st.lists(st.integers(), max_size=9))
def test_items_come_in_their_order(items: list[int]) -> None:
    assert list(ahead(items)) == items


def test_another_thread_makes_them_ahead_but_not_too_far() -> None:
    made: list[int] = []
    third = threading.Event()

    def numbers() -> Iterator[int]:
        for number in range(100):
            made.append(threading.get_ident())
            if number == MOST_AHEAD:
                third.set()
            yield number

    found = ahead(numbers())
    assert next(found) == 0
    assert third.wait(10)  # it is made while the first is in use
    assert threading.get_ident() not in made
    assert len(made) <= MOST_AHEAD + 2
    found.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_comes_behind_what_was_made_before_it(kind: type[BaseException]) -> None:
    def numbers() -> Iterator[int]:
        yield from range(5)
        raise kind("torn")

    found: list[int] = []
    with pytest.raises(kind, match="torn"):
        found.extend(ahead(numbers()))
    assert found == [0, 1, 2, 3, 4]


def test_who_stops_early_lets_the_thread_end() -> None:
    ended = threading.Event()

    def numbers() -> Iterator[int]:
        try:
            while True:
                yield 7
        finally:
            ended.set()

    found = ahead(numbers())
    assert next(found) == 7
    found.close()  # type: ignore[attr-defined]
    assert ended.wait(10)
