"""A comparison in words: what it says of a difference, and its tables."""

import json
from dataclasses import replace

import pytest

from bertworks.evaluation.comparison import Compared, Comparison
from bertworks.evaluation.comparison_report import comparison_rows, notes, verdict
from bertworks.evaluation.paired_tests import Difference
from bertworks.evaluation.statistics import Interval


def make_difference(mean: float, p_value: float, *, needed: int | None = 900) -> Difference:
    interval = Interval(mean, mean - 0.02, mean + 0.02)
    return Difference(0.7, 0.7 + mean, interval, p_value, "McNemar", 500, needed)


def make_comparison(one: Difference) -> Comparison:
    labels = [Compared("a|b", 40, one), Compared("rare", 3, None, "fewer than 10 examples have it")]
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


@pytest.mark.parametrize(("mean", "better"), [(0.4, "first"), (-0.4, "second")])
def test_of_an_error_the_lower_is_the_better(mean: float, better: str) -> None:
    one = make_difference(mean, 0.01)
    found = Comparison(500, 480, {"mean_absolute_error": one}, "mean_absolute_error", [], [])
    assert verdict(found).startswith(f"the {better} is better in mean_absolute_error")


def test_models_that_differ_in_each_of_few_texts_are_not_called_the_same() -> None:
    interval = Interval(1.0, 1.0, 1.0)
    one = Difference(0.0, 1.0, interval, 0.125, "McNemar, exact", 4, None)
    said = verdict(make_comparison(one))
    assert said.endswith("4 texts are too few to tell")


def test_scores_that_one_side_lacks_are_named() -> None:
    found = replace(make_comparison(make_difference(0.01, 0.3)), undefined=("pearson", "spearman"))
    told = "not compared, for they are not defined for both: pearson, spearman"
    assert told in comparison_rows(found)["notes"]
    assert not any("not compared" in note for note in notes(replace(found, undefined=())))
