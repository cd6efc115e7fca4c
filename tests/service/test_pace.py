"""How fast it goes, and how much fits into some time."""

import pytest

from bertworks.service.pace import Pace, Portion


def test_the_pace_is_not_known_before_something_was_computed() -> None:
    pace = Pace()
    pace.add(0, 3.0)
    assert pace.seconds(7) is None
    pace.add(100, 0.5)
    assert pace.seconds(50) == 0.25


def test_the_pace_forgets() -> None:
    pace = Pace()
    pace.add(1000, 1.0)
    for _ in range(40):
        pace.add(10, 1.0)
    assert 9.9 < 1 / (pace.seconds(1) or 0) < 11


def took(num_tokens: int) -> float:
    """Return the seconds of a network that takes 10 ms, and 1 ms for five tokens more."""
    return 0.01 + num_tokens / 5000


@pytest.mark.parametrize("at_first", [64, 1024])
def test_a_portion_becomes_what_takes_its_time(at_first: int) -> None:
    portion = Portion(0.04, least=64, most=1024, at_first=at_first)
    assert portion.num_tokens == at_first
    for _ in range(40):
        portion.add(portion.num_tokens, took(portion.num_tokens))
    assert took(portion.num_tokens) == pytest.approx(0.04, rel=0.05)


@pytest.mark.parametrize(("seconds", "expected"), [(1e-9, 64), (60.0, 1024)])
def test_a_portion_is_never_too_small_or_too_large(seconds: float, expected: int) -> None:
    portion = Portion(seconds, least=64, most=1024, at_first=128)
    portion.add(128, 0.1)
    assert portion.num_tokens == expected


def test_few_tokens_say_nothing_of_many() -> None:
    portion = Portion(1.0, least=64, most=1024, at_first=1024)
    portion.add(511, 9.0)
    assert portion.pace.seconds(1) is None
    portion.add(512, 0.5)
    assert portion.num_tokens == 1024


def test_after_a_mishap_few_tokens_do() -> None:
    portion = Portion(0.2, least=64, most=1024, at_first=1024)
    portion.add(1024, 20.0)
    assert portion.num_tokens == 64
    for _ in range(40):
        portion.add(20, took(20))  # no more than these are let in
    assert portion.num_tokens > 200
