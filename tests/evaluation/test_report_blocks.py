"""Blocks: how numbers, ranges and marks are written."""

import math

import pytest

from bertworks.evaluation.report_blocks import UNNAMED, Estimate, Piece, number, sentence

NUMBERS = {
    0.5: "0.500",
    -0.25: "-0.250",
    0.0: "0.000",
    0.00012: "1.2e-04",
    1234.56: "1,234.6",
    12345: "12,345",
    math.nan: "no number",
    -math.inf: "no number",
    None: "–",
}


@pytest.mark.parametrize("value", NUMBERS, ids=str)
def test_numbers_are_written_with_the_digits_that_count(value: float | None) -> None:
    assert number(value) == NUMBERS[value]


def test_an_estimate_is_written_with_its_range_where_that_is_known() -> None:
    assert str(Estimate("f1", 0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"
    for bounds in ((None, 0.75), (0.25, None), (math.nan, 0.75), (0.25, math.inf)):
        assert str(Estimate("f1", 0.5, *bounds)) == "0.500"


def test_a_mark_without_a_name_is_told_by_its_side() -> None:
    assert Piece("x", gold=UNNAMED).marks == "gold"
    assert Piece("x", answer=UNNAMED).marks == "answer"
    assert Piece("x", gold=UNNAMED, answer=UNNAMED, is_right=True).marks == "right"
    assert Piece("x", place="first").marks == "first"


def test_a_loss_is_no_share_even_where_it_is_small() -> None:
    assert Estimate("f1", 0.5, 0.25, 0.75).is_share
    assert not Estimate("next_sentence_loss", 0.5, 0.25, 0.75).is_share
    assert not Estimate("mean absolute error", 0.5, 0.25, 0.75).is_share
    assert not Estimate("spearman", 0.5, -0.25, 0.75).is_share
    assert not Estimate("f1", 0.5).is_share


def test_words_become_a_sentence_and_names_in_them_stay() -> None:
    assert sentence("the F1 of PER is low") == "The F1 of PER is low."
    assert sentence("ünlü") == "Ünlü."
