"""A comparison in words: what it says of a difference, and its tables."""

import json

import pytest

from bertworks.evaluation.comparison import Comparison, Part
from bertworks.evaluation.comparison_report import comparison_rows, notes, verdict
from bertworks.evaluation.paired_tests import Difference
from bertworks.evaluation.statistics import Interval


def make_difference(mean: float, p_value: float, *, needed: int | None = 900) -> Difference:
    interval = Interval(mean, mean - 0.02, mean + 0.02)
    return Difference(0.7, 0.7 + mean, interval, p_value, "McNemar", 500, needed)


def make_comparison(one: Difference) -> Comparison:
    labels = [Part("a|b", 40, one), Part("rare", 3, None, "fewer than 10 examples have it")]
    return Comparison(500, 480, {"accuracy": one}, "accuracy", labels, [])


@pytest.mark.parametrize(
    ("mean", "p_value", "needed", "said"),
    [
        (0.03, 0.01, 400, "the second is better in accuracy: +0.0300 [+0.0100, +0.0500], p = 0.01"),
        (-0.03, 0.01, 400, "the first is better in accuracy: -0.0300"),
        (0.01, 0.3, 900, "about 400 more texts (900 in all) to be found four times in five"),
        (0.0, 1.0, None, "it is the same for both"),
        (0.01, 0.06, 450, "the data are just about enough"),
    ],
)
def test_the_verdict_is_by_the_first_score(
    mean: float, p_value: float, needed: int | None, said: str
) -> None:
    found = make_comparison(make_difference(mean, p_value, needed=needed))
    assert said in verdict(found)
    assert ("does not tell them apart" in verdict(found)) is (p_value > 0.05)


def test_the_tables_are_json_and_what_is_not_known_is_null() -> None:
    result = comparison_rows(make_comparison(make_difference(0.01, 0.3)))
    assert json.loads(json.dumps(result)) == result
    assert result["scores"][0]["more_texts"] == 400
    assert result["labels"][1]["p"] is None
    assert result["labels"][1]["note"] == "fewer than 10 examples have it"
    assert "slices" not in result


def test_the_correction_is_said_aloud() -> None:
    said = notes(make_comparison(make_difference(0.01, 0.3)))
    assert "the p-values of labels and slices are corrected for 1 comparisons (Holm)" in said
