"""An interval for people."""

from bertworks.evaluation.statistics import Interval, has_no_width, interval_rows


def test_an_interval_is_written_for_people() -> None:
    assert str(Interval(0.5, 0.25, 0.75)) == "0.5000 [0.2500, 0.7500]"


def test_a_range_of_one_number_has_no_width() -> None:
    wide, narrow = Interval(0.5, 0.25, 0.75), Interval(1.0, 1.0, 1.0)
    assert has_no_width([wide, narrow])
    assert not has_no_width([wide])
    assert not has_no_width([])


def test_ranges_become_rows_of_a_result() -> None:
    rows = interval_rows({"f1": Interval(0.5, 0.25, 0.75)})
    assert rows == [{"score": "f1", "low": 0.25, "high": 0.75}]
