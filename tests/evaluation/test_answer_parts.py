"""The parts about answers: nothing misleading of classes that are absent, NaN and few examples."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.evaluation.answer_parts import (
    MOST_LABELS,
    OTHERS,
    ClassTable,
    Confidence,
    Confusion,
    DifferenceRow,
    Differences,
    Errors,
    Pairs,
    Scores,
)
from bertworks.evaluation.full_report import Report
from bertworks.evaluation.report_blocks import (
    Cards,
    Diagonal,
    Estimate,
    Examples,
    Forest,
    Heading,
    Matrix,
    Piece,
    Shown,
    Table,
    Text,
)
from bertworks.evaluation.statistics import Interval, wilson


def blocks_of(part, kind) -> list:
    return [block for block in part.blocks() if isinstance(block, kind)]


def said(part) -> str:
    return " ".join(block.text for block in blocks_of(part, Text))


def cells(part) -> list[list[str]]:
    (table,) = blocks_of(part, Table)
    return [list(map(str, row)) for row in table.rows]


# Scores


def test_scores_have_the_ranges_that_are_known() -> None:
    intervals = {"f1": Interval(0.5, 0.25, 0.75)}
    part = Scores.of_metrics({"f1": 0.5, "mean_error": 2.0}, intervals, examples=100, of="on dev")
    (cards,) = blocks_of(part, Cards)
    assert list(map(str, cards.cards)) == ["0.500 [0.250, 0.750]", "2.000", "100"]
    assert [card.name for card in cards.cards] == ["f1", "mean error", "examples"]
    assert "95 %" in said(part)


def test_a_score_that_is_no_number_is_said_to_be_none() -> None:
    part = Scores.of_metrics({"pearson": math.nan}, {}, examples=100)
    assert "pearson: there is no number" in said(part)
    (cards,) = blocks_of(part, Cards)
    assert str(cards.cards[0]) == "no number"


def test_few_examples_are_said_to_say_little() -> None:
    assert "1 example says very little" in said(Scores.of_metrics({"f1": 1.0}, {}, examples=1))
    assert "little" not in said(Scores.of_metrics({"f1": 1.0}, {}, examples=1000))
    assert "little" not in said(Scores.of_metrics({"loss": 1.0}, {}))


def test_of_many_scores_the_first_stand_above_all_others() -> None:
    metrics = {f"score_{number}": 0.5 for number in range(9)}
    first, others = blocks_of(Scores.of_metrics(metrics, {}, examples=100), Cards)
    assert [card.name for card in first.cards][-2:] == ["score 4", "examples"]
    assert [card.name for card in others.cards] == [f"score {number}" for number in range(5, 9)]
    assert (first.is_minor, others.is_minor) == (False, True)


# Labels


def test_given_bounds_are_shown_and_missing_ones_are_computed_of_shares_only() -> None:
    row = {
        "precision": 0.5,
        "recall": 0.25,
        "f1": 1 / 3,
        "support": 8,
        "f1_low": 0.1,
        "f1_high": 0.6,
    }
    (made,) = ClassTable.of_labels({"a": row}).rows
    precision, recall, f1 = made.scores
    expected = wilson(2, 4), wilson(2, 8)
    assert (precision.low, precision.high) == (expected[0].low, expected[0].high)
    assert (recall.low, recall.high) == (expected[1].low, expected[1].high)
    assert (f1.low, f1.high) == (0.1, 0.6)


def test_a_label_that_no_example_has_gets_no_scores() -> None:
    table = ClassTable.of_labels(
        {
            "there": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 3},
            "absent": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0},
        }
    )
    assert cells(table)[1] == ["absent", "0", "–", "–", "–"]
    assert "No example has the label absent" in said(table)
    assert list(ClassTable.of_labels({}).blocks()) == []


def test_a_label_that_was_never_found_has_the_bounds_of_its_recall() -> None:
    row = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 10}
    precision, recall, _ = ClassTable.of_labels({"a": row}).rows[0].scores
    assert precision.bounds is None
    assert wilson(3, 3).high == 1
    assert recall.bounds == (0.0, pytest.approx(0.2775, abs=1e-4))


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_wilsons_interval_holds_the_share_and_stays_a_share(count: int, share: float) -> None:
    hits = round(share * count)
    found = wilson(hits, count)
    assert 0 <= found.low <= hits / count + 1e-12
    assert hits / count - 1e-12 <= found.high <= 1


def test_wilsons_interval_is_the_known_one() -> None:
    found = wilson(8, 10)
    assert (found.low, found.high) == (
        pytest.approx(0.4902, abs=1e-4),
        pytest.approx(0.9433, abs=1e-4),
    )
    assert math.isnan(wilson(0, 0).mean)


# Confusion


def test_pairs_become_a_matrix_in_the_order_of_the_labels() -> None:
    pairs = {("b", "b"): 3, ("b", "a"): 2, ("a", "a"): 1}
    made = Confusion.of_pairs(pairs, ["b", "a", "never"])
    assert made.labels == ("b", "a", "never")
    assert made.counts == ((3, 2, 0), (0, 1, 0), (0, 0, 0))
    assert made.confused() == [("b", "a", "2", "40.0%")]


def test_what_was_missed_or_made_up_stands_last() -> None:
    pairs = {("(none)", "x"): 2, ("x", "(none)"): 1, ("y", "x"): 1}
    made = Confusion.of_pairs(pairs, ["B-x", "I-x"])
    assert made.labels == ("x", "y", "(none)")
    assert made.confused()[0] == ("(none)", "x", "2", "–")


def test_of_very_many_labels_those_confused_most_are_kept() -> None:
    names = [f"label {number:03d}" for number in range(500)]
    pairs = {(name, name): 5 for name in names} | {(names[7], names[300]): 9}
    made = Confusion.of_pairs(pairs, names)
    assert len(made.labels) <= MOST_LABELS
    assert {names[7], names[300], OTHERS} <= set(made.labels)
    assert sum(map(sum, made.counts)) == sum(pairs.values())
    assert blocks_of(made, Matrix)


# The others


def test_calibration_shows_what_is_known() -> None:
    points = ((0.6, 0.5, 10), (0.9, 0.95, 30))
    part = Confidence(points, ece=0.05, temperature=1.5)
    assert cells(part) == [["expected calibration error", "0.050"], ["temperature", "1.500"]]
    assert blocks_of(part, Diagonal)[0].points == points
    assert blocks_of(Confidence(points), Table) == []


def test_no_errors_are_said_to_be_none() -> None:
    assert said(Errors((), 0)) == "No answer is wrong."


def test_errors_are_counted_and_their_marks_explained() -> None:
    plain = Shown(1, {"": (Piece("a"),)}, "x", "y")
    marked = Shown(2, {"": (Piece("a", gold="LOC"),)}, "x", "y")
    assert "3 answers are not wholly right, of which 1 are shown." in said(Errors((plain,), 3))
    assert "green" not in said(Errors((plain,), 3))
    assert "green" in said(Errors((marked,), 1))
    assert blocks_of(Errors((marked,), 1), Examples)


def test_written_texts_have_words_of_their_own_for_what_is_worst() -> None:
    shown = Shown(3, {"": (Piece("a"),)}, "x", "y", chrf=0.25)
    part = Errors((shown,), 2, are_texts=True)
    assert [own.text for own in blocks_of(part, Heading)] == [
        "Worst answers, the lowest chrF first"
    ]
    assert "2 answers are not as a reference, of which 1 are shown." in said(part)
    assert said(Errors((), 0, are_texts=True)) == "Every text is as a reference."
    report = Report(title="t", parts=[part])
    assert "<span>chrF 0.250</span>" in report.html()
    assert "- line 3, chrF 0.250: gold **x**" in report.markdown()


def test_pairs_of_words_are_a_table() -> None:
    assert cells(Pairs((("a", "b", 3),))) == [["a", "b", "3"]]


def test_differences_are_drawn_where_they_have_ranges_and_told_everywhere() -> None:
    rows = (
        DifferenceRow("f1", 0.5, 0.75, Estimate("", 0.25, 0.125, 0.375), 0.01),
        DifferenceRow(
            "rare", None, None, Estimate("", None), None, "fewer than 10 examples have it"
        ),
    )
    part = Differences("scores", "Scores", rows, ("second less first",))
    (forest,) = blocks_of(part, Forest)
    assert [row.name for row in forest.rows] == ["f1"]
    assert cells(part) == [
        ["f1", "0.500", "0.750", "0.250 [0.125, 0.375]", "0.010", ""],
        ["rare", "–", "–", "–", "–", "fewer than 10 examples have it"],
    ]
    assert said(part) == "Second less first."


def test_differences_are_read_from_rows_of_a_comparison() -> None:
    row = {"label": "rare", "examples": 3, "first": None, "second": None, "difference": None}
    row |= {"low": None, "high": None, "p": None, "note": "too few"}
    known = {
        "score": "f1",
        "first": 0.5,
        "second": 0.75,
        "difference": 0.25,
        "low": 0.1,
        "high": 0.4,
    }
    part = Differences.of_rows("labels", "Labels", [row, known])
    assert cells(part) == [
        ["rare", "–", "–", "–", "–", "too few"],
        ["f1", "0.500", "0.750", "0.250 [0.100, 0.400]", "–", ""],
    ]


def test_one_wrong_answer_is_counted_as_one() -> None:
    shown = Shown(1, {"": (Piece("a"),)}, "x", "y")
    assert "1 answer is not wholly right" in said(Errors((shown,), 1))


def test_a_range_without_width_is_not_called_certainty() -> None:
    metrics = {"accuracy": 1.0}
    words = "A range without width"
    assert words in said(Scores.of_metrics(metrics, {"accuracy": Interval(1.0, 1.0, 1.0)}))
    assert words not in said(Scores.of_metrics(metrics, {"accuracy": Interval(1.0, 0.9, 1.0)}))


def test_a_label_without_a_range_beside_others_is_said_to_be_rare() -> None:
    row = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "f1_low": None, "f1_high": None}
    rows = {
        "rare": row | {"support": 2},
        "usual": row | {"support": 9, "f1_low": 1.0, "f1_high": 1.0},
    }
    said = [block.text for block in blocks_of(ClassTable.of_labels(rows), Text)]
    assert said == ["Too few examples have the label rare to tell a range of its F1."]
    assert blocks_of(ClassTable.of_labels({"rare": rows["rare"]}), Text) == []
