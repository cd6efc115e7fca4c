"""Windows show every piece of a long input and fit their room."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import DataError, UsageError
from bertworks.data.windows import (
    cut_beside,
    cut_centered,
    cut_pair,
    cut_places,
    cut_spans,
    cut_text,
    pieces_near,
)


@given(st.integers(0, 99), st.integers(1, 40))
def test_every_piece_is_in_some_window_and_every_window_fits(length: int, room: int) -> None:
    spans = cut_spans(length, room=room)
    shown = {piece for start, end in spans for piece in range(start, end)}
    assert shown == set(range(length))
    assert all(0 <= end - start <= room for start, end in spans)
    assert [start for start, _ in spans] == sorted({start for start, _ in spans})
    assert all(end - start > 0 for start, end in spans) or length == 0


@given(st.integers(5, 99), st.integers(4, 40))
def test_neighbours_overlap_and_none_is_needless(length: int, room: int) -> None:
    spans = cut_spans(length, room=room)
    for (_, end), (start, _) in pairwise(spans):
        assert end - start == room // 4
    assert all(end < length for _, end in spans[:-1])


def test_a_text_that_fits_is_one_window() -> None:
    assert cut_spans(7, room=7) == [(0, 7)]
    assert cut_spans(0, room=7) == [(0, 0)]
    assert cut_spans(8, room=7) == [(0, 7), (6, 8)]


def test_windows_of_a_text_are_its_pieces() -> None:
    windows = cut_text(np.arange(11), room=5)
    assert [window.tolist() for window in windows] == [
        [0, 1, 2, 3, 4],
        [4, 5, 6, 7, 8],
        [8, 9, 10],
    ]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 30))
def test_windows_of_a_pair_show_every_piece_of_both(first: int, second: int, room: int) -> None:
    windows = cut_pair(np.arange(first), np.arange(100, 100 + second), room=room)
    assert {int(piece) for window, _ in windows for piece in window} == set(range(first))
    shown = {int(piece) for _, window in windows for piece in window}
    assert shown == set(range(100, 100 + second))
    assert all(len(left) + len(right) <= room for left, right in windows)
    assert all(len(left) > 0 for left, _ in windows) or not first
    assert all(len(right) > 0 for _, right in windows) or not second


def test_a_pair_that_fits_is_one_window() -> None:
    windows = cut_pair(np.arange(9), np.arange(2), room=11)
    assert [(left.tolist(), right.tolist()) for left, right in windows] == [
        (list(range(9)), [0, 1])
    ]


def test_a_short_text_leaves_its_room_to_the_other() -> None:
    for windows in (
        cut_pair(np.arange(3), np.arange(50), room=23),
        [(b, a) for a, b in cut_pair(np.arange(50), np.arange(3), room=23)],
    ):
        assert all(len(short) == 3 for short, _ in windows)
        assert len(windows[0][1]) == 20


@pytest.mark.parametrize("room", [0, -1, -7])
def test_no_room_is_refused_instead_of_losing_text(room: int) -> None:
    with pytest.raises(UsageError, match=f"room for {room} pieces .*raise --longest"):
        cut_text(np.arange(5), room=room)
    with pytest.raises(UsageError, match="raise --longest"):
        cut_pair(np.arange(5), np.arange(5), room=room)


def test_two_texts_need_room_for_two_pieces() -> None:
    with pytest.raises(UsageError, match="room for 1 pieces of two texts; raise --longest"):
        cut_pair(np.arange(5), np.arange(5), room=1)


@given(st.integers(0, 99), st.integers(1, 40), st.sets(st.integers(0, 98)))
def test_every_place_is_asked_for_once_in_a_window_that_shows_it(length, room, wanted) -> None:
    places = np.array(sorted(place for place in wanted if place < length), dtype=np.int64)
    windows = cut_places(length, places, room=room)
    assert [(start, end) for start, end, _ in windows] == cut_spans(length, room=room)
    assert all(0 <= place < end - start for start, end, at in windows for place in at)
    assert [start + place for start, _, at in windows for place in at] == places.tolist()


@given(st.integers(0, 99), st.integers(1, 40), st.integers(1, 60))
def test_windows_begin_as_far_apart_as_is_asked_and_leave_no_gap(
    length: int, room: int, step: int
) -> None:
    spans = cut_spans(length, room=room, step=step)
    assert {piece for start, end in spans for piece in range(start, end)} == set(range(length))
    assert all(b - a == min(step, room) for (a, _), (b, _) in pairwise(spans))
    assert all(end < length for _, end in spans[:-1])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.integers(0, 99), st.integers(2, 40))
def test_texts_beside_a_longer_one_share_its_windows(
    kept: list[int], length: int, room: int
) -> None:
    shown, spans = cut_beside([np.arange(count) for count in kept], length, room=room)
    assert {piece for start, end in spans for piece in range(start, end)} == set(range(length))
    for pieces, count in zip(shown, kept, strict=True):
        assert pieces.tolist() == list(range(count))[count - len(pieces) :]  # its end
        assert all(len(pieces) + end - start <= room for start, end in spans)
        assert len(pieces) == count or len(pieces) == max(room // 2, room - length)


def test_texts_without_any_room_are_refused() -> None:
    with pytest.raises(UsageError, match="room for 1 pieces of two texts; raise --longest"):
        cut_beside([np.arange(3)], 5, room=1)


@given(st.integers(1, 99), st.integers(1, 40), st.sets(st.integers(0, 98)))
def test_every_place_is_asked_for_where_most_is_seen_around_it(length, room, wanted) -> None:
    places = np.array(sorted(place for place in wanted if place < length), dtype=np.int64)
    windows = cut_centered(length, places, room=room)
    assert [(start, end) for start, end, _ in windows] == cut_spans(length, room=room)
    assert sorted(number for _, _, asked in windows for number in asked) == [*range(len(places))]

    def seen(place: int, start: int, end: int) -> int:
        if not start <= place < end:
            return -1
        sides = (place - start if start else length, end - 1 - place if end < length else length)
        return min(sides)

    for start, end, asked in windows:
        for place in places[asked]:
            assert seen(place, start, end) == max(
                seen(place, *span) for span in cut_spans(length, room=room)
            )
            assert seen(place, start, end) >= 0


def test_the_memory_for_many_windows_grows_with_the_text_alone() -> None:
    places = np.arange(20_001)
    tracemalloc.start()
    windows = cut_centered(len(places), places, room=41)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(windows) > 600
    assert most < 100 * len(places)


@given(st.data(), st.integers(2, 90), st.integers(8, 60))
def test_what_lies_nearest_to_marked_places_is_shown(data, length: int, room: int) -> None:
    starts = [data.draw(st.integers(0, length - 1)) for _ in range(2)]
    places = [(start, min(start + data.draw(st.integers(1, 4)), length)) for start in starts]
    shown = pieces_near(length, places, room=room)
    assert shown.tolist() == sorted(set(shown.tolist()))
    assert len(shown) == min(length, room)
    assert {piece for place in places for piece in range(*place)} <= set(shown.tolist())

    def distance(piece: int) -> int:
        return min(max(start - piece, piece - end + 1, 0) for start, end in places)

    hidden = set(range(length)) - set(shown.tolist())
    if hidden:
        assert max(map(distance, shown.tolist())) <= min(map(distance, hidden))


def test_places_that_do_not_fit_are_said_to_be_too_long() -> None:
    with pytest.raises(DataError, match="take 9 pieces, but a window has room for 8"):
        pieces_near(50, [(0, 5), (20, 24)], room=8)
