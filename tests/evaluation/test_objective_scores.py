"""Scores of the pre-training objectives, and their ranges over documents."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn import functional

from bertworks.core.batch import Batch, Target
from bertworks.core.device import Machine
from bertworks.core.pieces import IGNORE
from bertworks.data.packing import Features, Goal, flatten
from bertworks.evaluation.bootstrap import mean_interval
from bertworks.evaluation.objective_scores import DocumentSums, evaluate_objectives
from bertworks.tasks.catalog import make_task
from bertworks.tasks.electra import Electra
from bertworks.tasks.next_piece import WithNextPiece
from bertworks.tasks.task import Judged, TaskModel


@pytest.fixture
def model(config) -> TaskModel:
    tasks = [make_task("fill_mask"), make_task("next_sentence")]
    return TaskModel(config, tasks, seed=3, deviation=0.3)


@pytest.fixture
def batches() -> list[Batch]:
    """Make two batches with different numbers of hidden pieces and of pairs."""
    random = np.random.default_rng(8)

    def text(length: int, label: int) -> Features:
        at = np.sort(random.permutation(length)[: length // 2])
        goals = {
            "fill_mask": Goal(random.integers(50, size=len(at)), at),
            "next_sentence": Goal((label,)),
        }
        return Features(random.integers(50, size=length), np.arange(length) // 5 % 2, goals)

    return [
        flatten([text(5, 0), text(11, 1), text(3, IGNORE)]),
        flatten([text(31, 1), text(7, IGNORE)]),
    ]


def test_objectives_are_means_over_all_targets_of_all_batches(model, batches, machine) -> None:
    found = evaluate_objectives(model, batches, machine=machine)
    model.eval()
    with torch.no_grad():
        for name in model.tasks:
            logits = torch.cat([model.logits(batch, name) for batch in batches])
            values = torch.cat([batch.targets[name].values for batch in batches])
            expected = functional.cross_entropy(logits, values, ignore_index=IGNORE)
            assert found.metrics[f"{name}_loss"] == pytest.approx(float(expected), abs=1e-5)
            kept = values != IGNORE
            hits = (logits.argmax(1) == values)[kept].float().mean()
            assert found.metrics[f"{name}_accuracy"] == pytest.approx(float(hits))
    total = found.metrics["fill_mask_loss"] + found.metrics["next_sentence_loss"]
    assert found.metrics["loss"] == pytest.approx(total)
    assert found.score == -found.metrics["loss"]
    weights = {"next_sentence": 0.0}
    other = evaluate_objectives(model, batches, machine=machine, weights=weights)
    assert other.metrics == found.metrics
    assert other.score == -found.metrics["fill_mask_loss"]


def test_finding_what_was_replaced_is_scored_by_what_is_found(config, machine) -> None:
    class Told:
        """Answers that are given, to be judged by what was replaced."""

        tasks: ClassVar = {"replaced_token": make_task("replaced_token")}
        training = False

        def train(self, mode: bool) -> None:
            pass

        def judged(self, batch: Batch) -> Judged:
            logits = torch.tensor([[2.0], [-1.0], [0.5], [-2.0], [3.0], [-3.0]])
            return {"replaced_token": (logits, Target(torch.tensor([1, 1, 0, 0, IGNORE, 0])))}

    batch = flatten([Features(np.arange(6), np.zeros(6, np.int64))])
    found = evaluate_objectives(Told(), [batch, batch], machine=machine)
    expected = {"accuracy": 3 / 5, "share": 2 / 5, "precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2}
    for name, value in expected.items():
        assert found.metrics[f"replaced_token_{name}"] == pytest.approx(value)
    assert found.score is None


def test_what_a_generator_draws_is_the_same_at_each_evaluation(config, machine) -> None:
    generator = TaskModel(config, [make_task("fill_mask")], seed=2)
    learner = Electra(generator, TaskModel(config, [make_task("replaced_token")], seed=3))
    goals = {
        "fill_mask": Goal((7, 9, 11), (1, 3, 5)),
        "replaced_token": Goal(np.zeros(9, np.int64), np.arange(9)),
    }
    batch = flatten([Features(np.arange(9), np.zeros(9, np.int64), goals)])
    torch.manual_seed(5)
    first = evaluate_objectives(learner, [batch], machine=machine)
    torch.manual_seed(6)
    assert evaluate_objectives(learner, [batch], machine=machine) == first
    assert learner.training


def test_objectives_do_not_depend_on_how_texts_are_batched(model, batches, machine) -> None:
    straight = evaluate_objectives(model, batches, machine=machine)
    doubled = evaluate_objectives(model, [*batches, *batches[::-1]], machine=machine)
    assert doubled.metrics == pytest.approx(straight.metrics, abs=1e-5)
    one = evaluate_objectives(model, batches[:1], machine=machine)
    assert one.metrics["loss"] != pytest.approx(straight.metrics["loss"], abs=1e-3)


def test_an_objective_without_targets_has_no_score_that_could_be_taken_for_one(
    model, machine
) -> None:
    goals = {"fill_mask": Goal((3,), (1,)), "next_sentence": Goal((IGNORE,))}
    texts = [Features(np.arange(5), np.zeros(5, np.int64), goals)]
    found = evaluate_objectives(model, [flatten(texts)], machine=machine)
    assert set(found.metrics) == {"loss", "fill_mask_loss", "fill_mask_accuracy"}
    assert found.score == -found.metrics["fill_mask_loss"]


@pytest.mark.parametrize("is_training", [True, False])
def test_scoring_leaves_the_model_as_it_was(model, batches, machine, is_training: bool) -> None:
    model.train(is_training)
    first = evaluate_objectives(model, batches, machine=machine)
    assert model.training is is_training
    assert evaluate_objectives(model, batches, machine=machine) == first  # without dropout


def documents_of(learner, batches: list[Batch], machine: Machine) -> DocumentSums:
    documents = DocumentSums()
    plain = evaluate_objectives(learner, batches, machine=machine)
    assert evaluate_objectives(learner, batches, machine=machine, documents=documents) == plain
    return documents


def test_every_score_has_a_range_around_it(model, batches, machine) -> None:
    named = [replace(batches[0], ids=(4, 5, 6)), replace(batches[1], ids=(7, 8))]
    documents = documents_of(model, named, machine)
    found = documents.intervals()
    plain = evaluate_objectives(model, named, machine=machine)
    assert len(documents) == 5
    assert {name: one.mean for name, one in found.items()} == pytest.approx(plain.metrics, abs=1e-5)
    assert all(one.low <= one.mean <= one.high for one in found.values())
    assert found["loss"].low < found["loss"].high


def test_a_range_is_that_of_one_number_a_document(model, machine) -> None:
    random, batches, losses = np.random.default_rng(5), [], []
    for number in range(40):
        goals = {"fill_mask": Goal(random.integers(50, size=3), (1, 2, 4))}
        text = Features(random.integers(50, size=7), np.zeros(7, np.int64), goals, number)
        batches.append(flatten([text]))
        losses.append(evaluate_objectives(model, batches[-1:], machine=machine).metrics["loss"])
    found = documents_of(model, batches, machine).intervals()["fill_mask_loss"]
    expected = mean_interval(np.array(losses))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.01)


def test_texts_of_a_document_are_drawn_together(model, batches, machine) -> None:
    together = [replace(batches[0], ids=(1, 1, 2)), replace(batches[1], ids=(2, 1))]
    doubled = [*together, *together]
    first, second = (documents_of(model, own, machine) for own in (together, doubled))
    assert len(first) == len(second) == 2
    for name, one in first.intervals().items():
        other = second.intervals()[name]  # as wide: no new document has come
        assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-5)


def test_one_document_has_no_range(model, batches, machine) -> None:
    alone = [replace(batch, ids=(3,) * batch.num_texts) for batch in batches]
    assert documents_of(model, alone, machine).intervals() == {}


def test_a_sample_that_asks_nothing_of_an_objective_does_not_make_it_perfect(
    model, machine
) -> None:
    def text(number: int, label: int) -> Features:
        goals = {"fill_mask": Goal((3, 5), (1, 2)), "next_sentence": Goal((label,))}
        return Features(np.arange(5), np.zeros(5, np.int64), goals, number)

    batch = flatten([text(0, IGNORE), text(1, 1), text(2, IGNORE)])
    found = documents_of(model, [batch], machine).intervals()["next_sentence_loss"]
    assert found.low == pytest.approx(found.mean)
    assert found.high == pytest.approx(found.mean)


def test_what_was_replaced_has_ranges_too(config, machine) -> None:
    generator = TaskModel(config, [make_task("fill_mask")], seed=2, deviation=0.3)
    found = TaskModel(config, [make_task("replaced_token")], seed=3, deviation=0.3)
    learner = Electra(generator, found)
    goals = {
        "fill_mask": Goal((7, 9, 11), (1, 3, 5)),
        "replaced_token": Goal(np.zeros(9, np.int64), np.arange(9)),
    }
    texts = [Features(np.arange(9), np.zeros(9, np.int64), goals, number) for number in range(7)]
    ranges = documents_of(learner, [flatten(texts)], machine).intervals()
    plain = evaluate_objectives(learner, [flatten(texts)], machine=machine)
    assert {name: one.mean for name, one in ranges.items()} == pytest.approx(plain.metrics)
    assert {"replaced_token_precision", "replaced_token_f1"} < ranges.keys()


def test_objectives_of_one_head_have_ranges_of_their_own(config, machine) -> None:
    alone = TaskModel(config, [make_task("fill_mask")], seed=3, deviation=0.3)
    learner, random, batches = WithNextPiece(alone), np.random.default_rng(1), []
    for name in ("fill_mask", "next_piece"):
        texts = [
            Features(
                random.integers(50, size=9),
                np.zeros(9, np.int64),
                {name: Goal(random.integers(50, size=3), (1, 3, 5))},
                number,
            )
            for number in range(6)
        ]
        batches.append(replace(flatten(texts), is_causal=name == "next_piece"))
    ranges = documents_of(learner, batches, machine).intervals()
    plain = evaluate_objectives(learner, batches, machine=machine)
    assert {name: one.mean for name, one in ranges.items()} == pytest.approx(plain.metrics)
