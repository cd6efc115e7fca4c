"""Curves of a run: from the lines of its log, whatever numbers stand there."""

import math

from bertworks.evaluation.training_curves import MOST_CURVES, MOST_POINTS, course_of


def log_of(num_steps: int) -> list[dict]:
    rows: list[dict] = []
    for step in range(1, num_steps + 1):
        rows.append({"step": step, "classify": 1 / step, "lr": 0.1, "gradient_norm": 2.0})
        if step % 10 == 0:
            scores = {"accuracy": step / num_steps, "loss": 1 / step}
            rows.append({"step": step, "evaluation": scores})
    return rows


def test_losses_scores_rate_and_norm_are_drawn_apart() -> None:
    charts = course_of(log_of(30), best_step=20).charts
    assert [(chart.title, list(chart.curves)) for chart in charts] == [
        ("Training loss, by step", ["classify"]),
        ("Scores after each evaluation", ["accuracy"]),
        ("Losses on held-out examples", ["loss"]),
        ("Learning rate", ["lr"]),
        ("Norm of the gradient", ["gradient norm"]),
    ]
    assert charts[0].mark == (20.0, "kept")
    assert charts[1].curves["accuracy"][-1] == (30.0, 1.0)


def test_bounds_of_a_score_are_no_curves() -> None:
    scores = {"probe_accuracy": 0.5, "probe_low": 0.25, "probe_high": 0.75}
    (chart,) = course_of([{"step": 1, "evaluation": scores}]).charts
    assert list(chart.curves) == ["probe accuracy"]


def test_many_steps_are_averaged_and_keep_their_mean() -> None:
    log = [{"step": step, "task": float(step)} for step in range(1, 2001)]
    (chart,) = course_of(log).charts
    points = chart.curves["task"]
    assert len(points) == MOST_POINTS
    assert all(x == y for x, y in points)


def test_words_that_stand_for_no_numbers_are_read() -> None:
    log: list[dict] = [
        {"step": 1, "task": "nan"},
        {"step": 2, "task": "inf"},
        {"step": 3, "task": 1.0},
    ]
    log.append({"step": 4, "task": [7]})
    points = course_of(log).charts[0].curves["task"]
    assert math.isnan(points[0][1])
    assert points[1:3] == [(2.0, math.inf), (3.0, 1.0)]
    assert math.isnan(points[3][1])


def test_skipped_steps_and_no_steps_at_all_are_no_trouble() -> None:
    log = [{"step": 1, "task": 1.0, "skipped": [3], "reason": "why"}]
    assert list(course_of(log).charts[0].curves) == ["task"]
    assert course_of([]).charts == ()
    assert list(course_of([]).blocks()) == []


def test_of_very_many_scores_the_first_are_drawn() -> None:
    scores = {f"score {number}": 0.5 for number in range(40)}
    (chart,) = course_of([{"step": 1, "evaluation": scores}]).charts
    assert list(chart.curves) == list(scores)[:MOST_CURVES]
