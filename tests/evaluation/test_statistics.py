"""An interval for people."""

from bertworks.evaluation.statistics import Interval


def test_an_interval_is_written_for_people() -> None:
    assert str(Interval(0.5, 0.25, 0.75)) == "0.5000 [0.2500, 0.7500]"
