"""The judge of a run: the same batches each time, failures named, weights that broke refused."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.core.errors import TrainingError
from bertworks.data.corpus_counts import CorpusCounts
from bertworks.data.packing import Features, Goal, flatten
from bertworks.evaluation.judge import HeldOutJudge
from bertworks.evaluation.objective_scores import evaluate_objectives
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

FALLING = [{"step": n, "fill_mask": 6 - n / 30, "gradient_norm": 0.5} for n in range(60)]


@dataclass(frozen=True)
class Judged:
    """A network, and what it is judged by."""

    model: TaskModel
    batches: list[Batch]
    make: Callable[..., HeldOutJudge]


@pytest.fixture
def judged(config, machine: Machine) -> Judged:
    model = TaskModel(config, [make_task("fill_mask")], seed=3)
    random = np.random.default_rng(2)

    def text(length: int, document: int) -> Features:
        tokens = random.choice([7, 8, 9], size=length)
        goals = {"fill_mask": Goal(tokens[1:4], (1, 2, 3))}
        return Features(tokens, np.zeros(length, np.int64), goals, document)

    batches = [flatten([text(5, 0), text(9, 1)]), flatten([text(7, 2)])]
    counts = np.bincount([7, 8, 9] * 50_000, minlength=config.vocab_size)

    def make(duplicate_share: float = 0.0, weight: float = 1.0, **more) -> HeldOutJudge:
        corpus, weights = CorpusCounts(counts, duplicate_share), {"fill_mask": weight}
        return HeldOutJudge(model, batches, corpus, machine=machine, weights=weights, **more)

    return Judged(model, batches, make)


def test_scores_are_those_of_the_held_out_batches_and_more_where_it_is_due(
    judged: Judged, machine: Machine
) -> None:
    asked: list[int] = []

    def more(step: int) -> dict[str, float]:
        asked.append(step)
        return {"probe_accuracy": 0.5} if step % 2 == 0 else {}

    judge = judged.make(more=more)
    plain = evaluate_objectives(judged.model, judged.batches, machine=machine)
    assert judge.score(3) == plain
    assert judge.score(4).metrics == plain.metrics | {"probe_accuracy": 0.5}
    assert judge.final_scores().metrics == plain.metrics | {"probe_accuracy": 0.5}
    assert asked == [3, 4, 0]


def test_final_scores_come_with_ranges_over_documents_and_that_of_a_probe(judged: Judged) -> None:
    bounds = {"probe_low": 0.25, "probe_high": 0.75}
    final = judged.make(more=lambda step: {"probe_accuracy": 0.5, **bounds}).final_scores()
    assert final.num_documents == 3
    assert list(final.intervals) == [
        "loss",
        "fill_mask_loss",
        "fill_mask_accuracy",
        "probe_accuracy",
    ]
    shown = {one.name: (one.low, one.high) for one in final.part().scores}
    assert shown["probe_accuracy"] == (0.25, 0.75)
    assert shown.keys() == final.intervals.keys()  # its bounds are no scores
    assert shown == final.as_json()["held_out_intervals"]
    assert final.lacking() == []


def test_one_document_is_said_to_tell_no_ranges(judged: Judged) -> None:
    judged.batches[:] = [replace(own, ids=(4,) * own.num_texts) for own in judged.batches]
    final = judged.make().final_scores()
    assert final.intervals == {}
    said = "all held-out text is of one document, so the scores have no intervals"
    assert final.lacking() == [*final.part().lacking] == [said]


def test_the_best_moment_is_chosen_by_the_weights(judged: Judged) -> None:
    plain, weighted = judged.make().score(1), judged.make(weight=0.25).score(1)
    assert weighted.metrics == plain.metrics
    assert plain.score is not None
    assert weighted.score == 0.25 * plain.score


def test_a_fresh_network_is_no_better_than_guessing_and_that_is_said_once(
    judged: Judged, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = judged.make()
    times = []
    for step in range(4):
        judge.score(step)
        times.append(capsys.readouterr().err.count("warning: the loss of fill_mask is"))
    assert times == [0, 0, 1, 0]  # before the first step there is nothing to blame
    found = judge.warnings(judge.final_scores(), FALLING, clip=1.0)
    assert list(found) == ["unigram"]
    assert "1.100" in found["unigram"]  # three pieces, equally often


def test_a_network_that_learned_has_no_warning(judged: Judged) -> None:
    optimizer = torch.optim.Adam(judged.model.parameters(), lr=0.01)
    for _ in range(30):
        loss = sum(judged.model(batch)["fill_mask"] for batch in judged.batches)
        assert isinstance(loss, torch.Tensor)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    judge = judged.make()
    assert judge.warnings(judge.final_scores(), FALLING, clip=1.0) == {}


def test_the_corpus_and_the_course_are_looked_at_too(judged: Judged) -> None:
    judge = judged.make(duplicate_share=0.4)
    level = [entry | {"fill_mask": 5.0, "gradient_norm": 7.0} for entry in FALLING]
    found = judge.warnings(judge.final_scores(), level, clip=1.0)
    assert list(found) == ["duplicates", "loss_not_falling", "clipping", "unigram"]


def test_weights_that_came_apart_are_an_error_at_the_end_and_not_before(judged: Judged) -> None:
    judge = judged.make()
    with torch.no_grad():
        next(judged.model.parameters()).fill_(float("nan"))
    assert np.isnan(judge.score(1).metrics["loss"])
    with pytest.raises(TrainingError, match="the loss on held-out text is nan in the end"):
        judge.final_scores()
