"""The learning rate over a run, in steps or in seconds."""

from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.training.schedule import FALLS, Schedule, ScheduleName

names = st.sampled_from(get_args(ScheduleName))
courses = st.fixed_dictionaries(
    {
        "name": names,
        "end": st.floats(1.0, 1e6),
        "warmup": st.floats(0, 0.9),
        "decay": st.floats(0.01, 1.0),
    }
).map(lambda course: {**course, "warmup": course["warmup"] * course["end"]})


def rate_at(place: float, *, end: float, **schedule: Any) -> float:
    return Schedule(**schedule).at(place, end=end)


def linear(step: int, *, warmup: int, total: int) -> float:
    return Schedule(name="linear", warmup=warmup, decay=0.2).at(step, end=total + 1)


def test_every_schedule_has_a_name_and_a_fall() -> None:
    assert {*FALLS, "root"} == set(get_args(ScheduleName))


def test_the_rate_rises_in_equal_parts_and_falls_in_equal_parts() -> None:
    shares = [linear(step, warmup=4, total=9) for step in range(1, 10)]
    rising, falling = [1 / 4, 2 / 4, 3 / 4, 1], [5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert shares == pytest.approx(rising + falling)


def test_without_warm_up_the_first_step_is_the_fastest() -> None:
    shares = [linear(step, warmup=0, total=4) for step in range(1, 5)]
    assert shares == pytest.approx([4 / 5, 3 / 5, 2 / 5, 1 / 5])


def test_the_step_after_the_last_would_stand_still() -> None:
    assert linear(8, warmup=2, total=7) == 0
    assert linear(100, warmup=2, total=7) == 0


def test_half_way_down_a_cosine_is_a_half() -> None:
    shares = [
        Schedule(name="cosine", warmup=2, decay=0.2).at(place, end=10) for place in (2, 4, 6, 8, 10)
    ]
    assert shares == pytest.approx([1, 0.853553, 0.5, 0.146447, 0], abs=1e-6)


def test_a_stable_schedule_falls_only_in_the_end_and_fast_at_first() -> None:
    places = (1, 2, 7, 8, 8.5, 9, 9.5, 10)
    shares = [Schedule(name="stable", warmup=2, decay=0.2).at(place, end=10) for place in places]
    assert shares == pytest.approx([0.5, 1, 1, 1, 0.5, 0.292893, 0.133975, 0], abs=1e-6)


def test_a_constant_schedule_only_warms_up() -> None:
    places = (1, 4, 9, 11, 100)
    shares = [Schedule(name="constant", warmup=4, decay=0.2).at(place, end=10) for place in places]
    assert shares == [0.25, 1, 1, 1, 1]


def test_a_root_halves_the_rate_in_four_times_the_warm_up() -> None:
    places = (1, 4, 16, 64)
    shares = [Schedule(name="root", warmup=4, decay=0.2).at(place, end=20) for place in places]
    assert shares == [0.25, 1, 0.5, 0.25]
    assert Schedule(name="root").at(5, end=20) == 1


@given(data=st.data(), name=names)
def test_every_step_moves_and_the_rate_has_one_peak(
    data: st.DataObject, name: ScheduleName
) -> None:
    total = data.draw(st.integers(1, 300))
    warmup = data.draw(st.integers(0, total))
    shares = [
        Schedule(name=name, warmup=warmup, decay=0.3).at(step, end=total + 1)
        for step in range(1, total + 1)
    ]
    assert all(0 < share <= 1 for share in shares)
    peak = max(warmup, 1) - 1
    assert shares[: peak + 1] == sorted(shares[: peak + 1])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)
    assert not warmup or shares[peak] == 1
    assert not warmup or shares[:warmup] == [step / warmup for step in range(1, warmup + 1)]


@given(course=courses)
def test_a_rate_begins_at_its_warm_up_and_ends_at_nothing(course: dict) -> None:
    assert rate_at(0, **course) == (0 if course["warmup"] else 1)
    assert rate_at(course["warmup"], **course) == 1
    for place in (course["end"], 2 * course["end"]):
        by_root = (course["warmup"] / place) ** 0.5 if course["warmup"] else 1
        last = {"constant": 1, "root": by_root}.get(course["name"], 0)
        assert rate_at(place, **course) == pytest.approx(last)


@given(course=courses)
def test_a_rate_never_jumps_and_is_never_negative(course: dict) -> None:
    places = [course["end"] * number / 2000 for number in range(2001)]
    shares = [rate_at(place, **course) for place in places]
    assert all(0 <= share <= 1 for share in shares)
    narrow = min(course["warmup"] or course["end"], course["decay"] * course["end"])
    # A root is steep where it begins; a line over the narrowest part is steeper than all else.
    most = (1 / 2000 * course["end"] / narrow) ** 0.5 + 1e-9
    after = [s for place, s in zip(places, shares, strict=True) if place >= course["warmup"]]
    assert all(abs(b - a) <= max(most, 0.08) for a, b in pairwise(after))


@given(course=courses, factor=st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(course: dict, factor: float) -> None:
    scaled = {**course, "warmup": factor * course["warmup"], "end": factor * course["end"]}
    for number in range(21):
        place = course["end"] * (number + 0.5) / 21
        assert rate_at(factor * place, **scaled) == pytest.approx(
            rate_at(place, **course), abs=1e-6
        )
