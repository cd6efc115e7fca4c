"""Pictures: within their frames, and true to their numbers, whatever these are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.evaluation.charts import (
    CELLS,
    WIDTH,
    cell_chart,
    curve_chart,
    diagonal_chart,
    forest_chart,
)
from bertworks.evaluation.report_blocks import Estimate

shares = st.floats(0, 1)
AXES = ("confidence", "right")


def circles(chart: str) -> list[tuple[float, float, float]]:
    found = re.findall(r'<circle class="dot" cx="([-\d.]+)" cy="([-\d.]+)" r="([\d.]+)"', chart)
    return [(float(x), float(y), float(r)) for x, y, r in found]


def ticks(chart: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", chart)


def test_axes_are_marked_with_round_numbers() -> None:
    chart = curve_chart({"a": [(1.0, 0.113), (997.0, 0.871)]})
    assert ticks(chart) == ["0.2", "0.4", "0.6", "0.8", "200", "400", "600", "800"]


def test_a_number_at_the_edge_ends_there_and_is_not_cut_off() -> None:
    chart = curve_chart({"a": [(0.0, 1.0), (1200.0, 2.0)]})
    assert 'text-anchor="end">1,200</text>' in chart
    assert 'text-anchor="middle">600</text>' in chart


def test_a_marked_step_has_a_line_and_a_word_and_one_outside_has_none() -> None:
    curves = {"a": [(10.0, 1.0), (20.0, 2.0)]}
    assert "kept" in curve_chart(curves, mark=(15.0, "kept"))
    assert "kept" not in curve_chart(curves, mark=(25.0, "kept"))


@given(st.lists(st.tuples(shares, shares, st.integers(0, 10**6)), min_size=1, max_size=16))
def test_points_beside_the_diagonal_stay_in_their_frame(points) -> None:
    chart = diagonal_chart(points, axes=AXES)
    width, height = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', chart)[0])
    drawn = circles(chart)
    assert len(drawn) == len(points)
    for x, y, _ in drawn:
        assert 0 <= x <= width
        assert 0 <= y <= height


def test_more_answers_are_a_larger_point_and_more_right_ones_a_higher_one() -> None:
    (x1, y1, r1), (x2, y2, r2) = circles(diagonal_chart([(0.2, 0.1, 5), (0.7, 0.9, 50)], axes=AXES))
    assert x1 < x2
    assert y1 > y2
    assert r1 < r2


finite = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=9))
def test_ranges_stay_in_their_frame(rows) -> None:
    made = [Estimate("name", value, min(a, b), max(a, b)) for value, a, b in rows]
    drawn = circles(forest_chart(made))
    assert len(drawn) == len(rows)
    assert all(0 <= x <= WIDTH for x, _, _ in drawn)


def test_the_line_of_zero_is_named_once_where_ranges_begin_or_end_at_it() -> None:
    chart = forest_chart([Estimate("below", -0.3, -0.5, -0.1)])
    assert chart.count(">0.000<") == 1


def test_a_matrix_of_98_labels_is_a_small_picture_with_all_their_names() -> None:
    labels = [f"language-{number}" for number in range(98)]
    counts = [[(row * 31 + column * 17) % 7 + 1 for column in range(98)] for row in range(98)]
    chart = cell_chart(labels, counts)
    assert len(chart) < 400_000
    assert len(re.findall(r"M[\d.]+ [\d.]+h", chart)) == 98 * 98
    assert all(chart.count(f">{label}<") == 2 for label in labels)
    assert max(map(float, re.findall(r"M([\d.]+) ", chart))) < CELLS


def test_right_cells_lie_on_the_diagonal_and_empty_ones_are_not_drawn() -> None:
    chart = cell_chart(["a", "b", "c"], [[5, 0, 0], [0, 0, 3], [0, 0, 0]])
    assert re.findall(r'class="(right|wrong)"', chart) == ["wrong", "right"]
    assert chart.count("z") == 2


@pytest.mark.parametrize("label", ["x" * 500, "<b>", "نص", ""])
def test_any_name_of_a_label_leaves_the_picture_whole(label: str) -> None:
    chart = cell_chart([label, "other"], [[1, 2], [3, 4]])
    assert "<b>" not in chart
    assert "x" * 19 not in chart


def test_a_chart_of_one_place_is_drawn() -> None:
    assert "polyline" in curve_chart({"a": [(3.0, 1.0), (3.0, 1.0)]})
    assert "polyline" in curve_chart({"a": [(1.0, 5e-324), (2.0, 0.0)]})
