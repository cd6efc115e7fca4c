"""Scores: numbers on any scale, learned as deviations from their mean."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.data.examples import TextExample
from bertworks.data.packing import flatten
from bertworks.tasks.catalog import learn_task, make_task
from bertworks.tasks.score import Score, learn_scale


def examples_of(*scores: float | None) -> list[TextExample]:
    return [TextExample("t", score=score) for score in scores]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_scale_is_that_of_the_training_data(scores: list[float]) -> None:
    if np.ptp(scores) == 0 or np.std(scores) < 1e-9:
        return
    found = learn_scale(examples_of(*scores, None))
    assert found["mean"] == pytest.approx(np.mean(scores))
    assert 0.7 <= found["deviation"] / np.std(scores) <= 1.42
    assert math.log2(found["deviation"]).is_integer()


@pytest.mark.parametrize("scores", [(3.0,), (2.5, 2.5, 2.5)])
def test_one_score_alone_is_nothing_to_learn(scores: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="one score only"):
        learn_scale(examples_of(*scores))


@pytest.mark.parametrize("scores", [(1e300, -1e300), (1.7e308, 1.6e308), (1e-40, 2e-40)])
def test_scores_beyond_what_a_network_counts_are_refused(scores: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="write them in another unit"):
        learn_scale(examples_of(*scores))


def test_windows_share_the_number_in_deviations(tokenizer) -> None:
    task = Score(mean=3.0, deviation=0.5)
    windows = task.features(TextExample("the cat " * 50, score=4.0), tokenizer, longest=20)
    goals = [window.goals["score"] for window in windows]
    assert len(goals) > 1
    assert sum(goal.weight for goal in goals) == pytest.approx(1)
    assert all(goal.values.tolist() == [2.0] for goal in goals)


def test_a_number_that_is_not_known_is_asked_for_without_a_target(tokenizer) -> None:
    (window,) = Score().features(TextExample("the cat", "a dog"), tokenizer, longest=67)
    target = flatten([window]).targets["score"]
    assert target.count == 0
    assert float(Score().loss(torch.ones(1, 1), target)) == 0.0


def test_the_loss_is_the_squared_distance_with_every_window_at_its_weight() -> None:
    logits = torch.tensor([[1.0], [2.0], [5.0]])
    target = Target(torch.tensor([0.0, 4.0, math.nan]), weights=torch.tensor([0.5, 1.0, 1.0]))
    assert float(Score().loss(logits, target)) == 0.5 * 1 + 4


def test_the_answer_averages_the_windows_and_lies_on_the_scale(tokenizer) -> None:
    task = Score(mean=100.0, deviation=8.0)
    logits = [np.array([[1.0]], np.float32), np.array([[-0.5]], np.float32)]
    found = task.decode(TextExample("t"), [], logits, tokenizer)
    assert found == {"score": 102.0}


def test_numbers_are_scored_by_how_they_rise_and_fall_with_the_gold(score) -> None:
    gold = [1.0, 2.0, 3.0, 10.0]
    answers = [{"score": value} for value in (2.0, 4.0, 6.0, 7.0)]
    found = score(Score(), answers, examples_of(*gold))
    assert list(found) == ["pearson", "spearman", "mean_absolute_error"]
    assert found["pearson"] == pytest.approx(np.corrcoef(gold, [2, 4, 6, 7])[0, 1])
    assert (found["spearman"], found["mean_absolute_error"]) == (pytest.approx(1.0), 2.25)


def test_a_verdict_is_the_worse_the_farther_off() -> None:
    scorer = Score(deviation=2.0).scorer()
    (example,) = examples_of(3.25)
    near, off, far = (scorer.add(example, {"score": value}) for value in (3.25, 5.25, 9999.0))
    assert (near.gold, near.given, near.score) == ("3.25", "3.25", 1.0)
    assert off.score == 0.5
    assert far.score is not None
    assert 0 < far.score < 0.01


def test_the_head_gives_one_number_and_knows_no_labels(config) -> None:
    task = learn_task("score", examples_of(1.0, 2.0))
    assert task.labels == ()
    assert task.head(config).output.out_features == 1
    assert make_task("score", ("a", "b")).labels == ()
