"""The model of an encoder and its heads: losses by task, and weights by name."""

import numpy as np
import pytest
import torch

from bertworks.core.batch import Batch
from bertworks.data.examples import Example
from bertworks.data.packing import Features, Goal, flatten
from bertworks.tasks.catalog import TASKS, make_task
from bertworks.tasks.classify import Classify
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.task import TaskModel


@pytest.fixture
def model(config) -> TaskModel:
    return TaskModel(config, [FillMask(), Classify(("a", "b", "c"))], seed=5).eval()


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
    assert not torch.equal(alone.encoder.pooler.weight, other.encoder.pooler.weight)


def test_a_model_without_tasks_still_encodes(config, batch) -> None:
    model = TaskModel(config, [])
    assert model(batch) == {}
    assert model.encoder(batch).shape == (19, 21)
    assert model.config is config


@pytest.mark.parametrize("name", TASKS)
def test_every_task_knows_the_five_things(name: str, config, tokenizer) -> None:
    task = make_task(name, ("a", "b"))
    example = Example("the [MASK] sat", None if name == "fill_mask" else "a dog ran")
    windows = task.features(example, tokenizer, longest=31)
    model = TaskModel(config, [task], seed=1).eval()
    batch = flatten(windows)
    logits = model.logits(batch, name)
    assert len(logits) == len(batch.targets[name].values)
    assert float(model(batch)[name].detach()) == 0.0  # nothing was said about what is right
    answer = task.decode(logits.detach().numpy(), tokenizer)
    gold = answer["label"] if "label" in answer else answer["masks"][0][0]["token"]
    scores = task.metrics([answer], [Example(example.text, example.text_b, gold)])
    assert next(iter(scores.items())) == ("accuracy", 1.0)
