"""Curves of a run from its log: losses, scores, the learning rate and the norm of the gradient."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bertworks.evaluation.report_blocks import Curves, Point
from bertworks.evaluation.run_parts import Course
from bertworks.training.log import LOG_KEYS

MOST_POINTS = 200  # of a curve; more are averaged
MOST_CURVES = 6  # in one chart
BOUNDS = ("_low", "_high")  # of a score, which are none


def course_of(log: Sequence[Mapping[str, Any]], *, best_step: int = 0) -> Course:
    """Return the charts of a run; a line marks the step whose weights were kept."""
    steps = [row for row in log if "evaluation" not in row]
    scored = [(row["step"], row["evaluation"]) for row in log if "evaluation" in row]
    mark = (float(best_step), "kept") if best_step else None
    losses = {name.replace("_", " "): _points(steps, name) for name in _names(steps)}
    charts = [Curves("Training loss, by step", _few(losses), mark)]
    for title, is_loss in (
        ("Scores after each evaluation", False),
        ("Losses on held-out examples", True),
    ):
        found = dict(_scores(scored, is_loss=is_loss))
        charts.append(Curves(title, _few(found), mark))
    for name, title in (("lr", "Learning rate"), ("gradient_norm", "Norm of the gradient")):
        charts.append(Curves(title, {name.replace("_", " "): _points(steps, name)}))
    return Course(tuple(chart for chart in charts if any(chart.curves.values())))


def _names(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in steps for name in row if name not in LOG_KEYS))


def _points(steps: Sequence[Mapping[str, Any]], name: str) -> list[Point]:
    return _thinned([(float(row["step"]), _number(row[name])) for row in steps if name in row])


def _scores(
    scored: Sequence[tuple[int, Mapping[str, Any]]], *, is_loss: bool
) -> Iterator[tuple[str, list[Point]]]:
    names = dict.fromkeys(name for _, metrics in scored for name in metrics)
    for name in (name for name in names if not name.endswith(BOUNDS)):
        if name.endswith("loss") == is_loss:
            points = [(float(step), _number(own[name])) for step, own in scored if name in own]
            yield name.replace("_", " "), _thinned(points)


def _thinned(points: list[Point]) -> list[Point]:
    """Average neighbours, so that the course of a long or noisy curve can be seen."""
    width = -(-len(points) // MOST_POINTS)
    if width < 2:
        return points
    groups = [points[start : start + width] for start in range(0, len(points), width)]
    return [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
        for group in groups
    ]


def _few(curves: dict[str, list[Point]]) -> dict[str, list[Point]]:
    return dict(list(curves.items())[:MOST_CURVES])


def _number(value: Any) -> float:
    """Return a value of the log, in which what is no number is a word."""
    try:
        return float(value)
    except (TypeError, ValueError):  # a line that says more than numbers
        return math.nan
