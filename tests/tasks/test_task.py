"""The model of an encoder and its heads: losses by task, and weights by name."""

import math
from dataclasses import replace
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.core.batch import Batch, Target
from bertworks.data.forms import make_example
from bertworks.data.packing import Features, Goal, flatten
from bertworks.model.config import STYLES
from bertworks.model.weights import load_weights
from bertworks.tasks.catalog import KINDS, learn_task, make_task
from bertworks.tasks.classify import Classify
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.task import TaskModel

SLOTS = [[intent, tag] for intent, tag in product((0, 1), (2, 3))]  # an intent, then a word
STYLE_KINDS = ("fill_mask", "replaced_token", "sentence_order", "classify")


@pytest.fixture
def model(config) -> TaskModel:
    tasks = [FillMask(), Classify(("a", "b", "c"))]
    return TaskModel(config, tasks, seed=5, deviation=0.3).eval()


@pytest.fixture
def batch() -> Batch:
    random = np.random.default_rng(6)
    texts = [
        Features(
            random.integers(50, size=length),
            np.zeros(length, np.int64),
            {"fill_mask": Goal((7, 9), (0, length - 1)), "classify": Goal((length % 3,))},
        )
        for length in (3, 5, 11)
    ]
    return flatten(texts)


def test_the_loss_of_each_task_is_that_of_its_logits(model, batch) -> None:
    losses = model(batch)
    assert list(losses) == ["fill_mask", "classify"]
    for name, task in model.tasks.items():
        expected = task.loss(model.logits(batch, name), batch.targets[name])
        torch.testing.assert_close(losses[name], expected)


def test_only_what_a_batch_asks_for_is_judged(model, batch) -> None:
    asked = replace(batch, targets={"classify": batch.targets["classify"]})
    assert list(model(asked)) == ["classify"]
    logits, target = model.judged(asked)["classify"]
    assert target is batch.targets["classify"]
    assert torch.equal(logits, model.logits(batch, "classify"))


def test_losses_are_sums_over_texts(model, batch) -> None:
    whole = model(batch)["classify"]
    logits, values = model.logits(batch, "classify"), batch.targets["classify"].values
    torch.testing.assert_close(
        whole, -logits.log_softmax(1).gather(1, values[:, None]).sum(), atol=1e-5, rtol=0
    )


def test_every_parameter_learns(config, batch) -> None:
    model = TaskModel(config.with_dropout(0.0), [FillMask(), Classify(("a", "b", "c"))], seed=5)
    torch.stack(list(model(batch).values())).sum().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []


def test_a_task_added_changes_no_weight_of_the_others(config) -> None:
    alone = TaskModel(config, [FillMask()], seed=5)
    both = TaskModel(config, [Classify(("a", "b")), FillMask()], seed=5)
    for name, parameter in alone.named_parameters():
        assert torch.equal(parameter, both.get_parameter(name))
    other = TaskModel(config, [FillMask()], seed=6)
    assert not torch.equal(alone.encoder.pooler.dense.weight, other.encoder.pooler.dense.weight)


def test_a_model_without_tasks_still_encodes(config, batch) -> None:
    model = TaskModel(config, [])
    assert model(batch) == {}
    assert model.encoder(batch).shape == (19, 21)
    assert model.config is config


@pytest.mark.parametrize("name", KINDS)
def test_every_task_knows_the_five_things(name: str, config, tokenizer, make_samples) -> None:
    kind, rows = KINDS[name], make_samples(3).rows(name, 12)
    is_labelled = kind.learn is not None
    examples = [
        make_example(row, line, form=kind.form, labelled=is_labelled)
        for line, row in enumerate(rows, 1)
    ]
    task = learn_task(name, examples) if kind.learn else make_task(name, ("a", "b"))
    model = TaskModel(config, [task], seed=1).eval()
    windows = [task.features(example, tokenizer, longest=31) for example in examples]
    batch = flatten([window for own in windows for window in own])
    logits = model.logits(batch, name)
    assert len(logits) == len(batch.targets[name].values)
    loss = float(model(batch)[name].detach())
    assert loss > 0 if kind.learn else loss == 0  # nothing was said about what is right
    ends = np.cumsum([len(window.goals[name].values) for own in windows for window in own])
    parts = iter(np.split(logits.detach().numpy(), ends[:-1]))
    answers = [
        task.decode(example, own, list(islice(parts, len(own))), tokenizer)
        for example, own in zip(examples, windows, strict=True)
    ]
    if kind.learn is None:
        return
    scorer = task.scorer()
    verdicts = [scorer.add(e, answer) for e, answer in zip(examples, answers, strict=True)]
    assert all(verdict.score is None or 0 <= verdict.score <= 1 for verdict in verdicts)
    assert all(math.isfinite(value) for value in scorer.metrics().values())


def test_a_network_without_weights_draws_none(config) -> None:
    before = torch.get_rng_state()
    model = TaskModel.without_weights(config, [FillMask(tied=False), Classify(("a", "b"))])
    assert torch.equal(torch.get_rng_state(), before)
    drawn = TaskModel(config, [FillMask(tied=False), Classify(("a", "b"))])
    assert {name: p.shape for name, p in model.named_parameters()} == {
        name: p.shape for name, p in drawn.named_parameters()
    }
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())


@pytest.mark.parametrize("style", [style for style in STYLES if style])
def test_a_network_filled_afterwards_is_the_one_that_was_drawn(style: str, draw_model) -> None:
    tasks = [make_task(name, ("a", "b")) for name in STYLE_KINDS]
    drawn, _ = draw_model(style, *tasks)
    filled = TaskModel.without_weights(drawn.config, tasks)
    account = load_weights(filled, dict(drawn.named_parameters()))
    assert account.is_complete
    assert not list(filled.buffers())
    filled.eval()
    batch = small_batch()
    with torch.no_grad():
        found, expected = filled(batch), drawn(batch)
    assert found == expected
    assert all(loss.isfinite() for loss in found.values())


@pytest.mark.parametrize("style", [style for style in STYLES if style])
def test_every_parameter_of_every_family_learns(style: str, draw_model) -> None:
    tasks = [make_task(name, ("a", "b")) for name in STYLE_KINDS]
    drawn, _ = draw_model(style, *tasks)
    model = TaskModel(drawn.config.with_dropout(0.0), tasks, seed=3, deviation=0.3)
    torch.stack(list(model(small_batch()).values())).sum().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []


def small_batch() -> Batch:
    """Return three texts, one of them a pair, with something to find for every task."""
    random = np.random.default_rng(6)
    goals = {
        "fill_mask": Goal((7, 9), (0, 2)),
        "replaced_token": Goal((0, 1, 1), (0, 1, 2)),
        "sentence_order": Goal((1,)),
        "classify": Goal((0,)),
    }
    return flatten(
        [
            Features(random.integers(50, size=length), np.arange(length) // 9, goals)
            for length in (3, 5, 17)
        ]
    )


@pytest.mark.parametrize(
    ("task", "logits", "golds"),
    [
        (make_task("classify", ("a", "b", "c")), (1, 3), [[0], [1], [2]]),
        (make_task("tag", ("B-X", "I-X", "O")), (1, 3), [[0], [1], [2]]),
        (make_task("choose"), (3, 1), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (make_task("answer"), (2, 2), [[3, 0], [0, 3], [1, 2], [2, 1]]),
        (make_task("multilabel", ("a",)), (1, 1), [[[1.0]], [[0.0]]]),
        (make_task("intent_slots", ("i", "j", "B-X", "O"), num_intents=2), (2, 4), SLOTS),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 0.9])
def test_smooth_labels_give_a_share_to_all_alike(
    task: Any, logits: tuple[int, int], golds: list[Any], smoothing: float
) -> None:
    rows = torch.randn(logits, generator=torch.Generator().manual_seed(3))
    groups = torch.zeros(logits[0], dtype=torch.int64)

    def loss(gold: Any, smoothing: float = 0.0) -> float:
        values = torch.tensor(gold)
        grouped = groups if task.kind in ("choose", "answer", "intent_slots") else None
        return task.loss(rows, Target(values, groups=grouped, smoothing=smoothing)).item()

    even = sum(map(loss, golds)) / len(golds)
    expected = (1 - smoothing) * loss(golds[0]) + smoothing * even
    assert loss(golds[0], smoothing) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("is_training", [True, False])
def test_a_task_taken_on_learns_only_if_the_model_does(model, is_training: bool) -> None:
    model.train(is_training)
    model.add(make_task("match", ("x", "y")))
    assert {part.training for part in model.heads["match"].modules()} == {is_training}
