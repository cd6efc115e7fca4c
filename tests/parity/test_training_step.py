"""One training step: the same loss, gradients and weights as in transformers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM, BertForPreTraining, BertForSequenceClassification

from bertworks.core.batch import Batch, Target
from bertworks.core.pieces import IGNORE
from bertworks.data.packing import Features, flatten
from bertworks.interop.descriptions import TaskNote
from bertworks.interop.tensor_names import to_hugging_face
from bertworks.serving.model_folder import open_model
from bertworks.tasks.task import TaskModel
from bertworks.training.optimizer import make_optimizer

LENGTHS = (5, 40, 1, 17, 17, 130)
MASK = 4


@pytest.fixture
def open_both(tmp_path, pieces, draw_config, roughen):
    """Make their model and ours with the same weights, both ready to train."""

    def opened(cls: Any) -> tuple[TaskModel, Any]:
        config = draw_config(4, hidden_size=21, num_attention_heads=3, num_labels=5)
        theirs = roughen(cls(config), seed=9)
        theirs.save_pretrained(tmp_path)
        pieces.save(tmp_path)
        return open_model(tmp_path).model.train(), theirs.train()

    return opened


def hide(texts: list[Features], seed: int) -> tuple[list[Features], list[np.ndarray]]:
    """Put masks into texts, and return what was hidden with IGNORE elsewhere."""
    random = np.random.default_rng(seed)
    hidden, labels = [], []
    for text in texts:
        is_hidden = random.random(len(text.tokens)) < 0.3
        hidden.append(replace(text, tokens=np.where(is_hidden, MASK, text.tokens)))
        labels.append(np.where(is_hidden, text.tokens, IGNORE))
    return hidden, labels


def with_targets(texts: list[Features], **targets: Target) -> Batch:
    return replace(flatten(texts), targets=targets)


def piece_target(labels: list[np.ndarray]) -> Target:
    values = np.concatenate(labels)
    (at,) = np.nonzero(values != IGNORE)
    return Target(torch.from_numpy(values[at]), torch.from_numpy(at))


def side_by_side(labels: list[np.ndarray]) -> torch.Tensor:
    rows = torch.full((len(labels), max(map(len, labels))), IGNORE)
    for row, values in zip(rows, labels, strict=True):
        row[: len(values)] = torch.from_numpy(values)
    return rows


def backward(ours: TaskModel, theirs: Any, batch: Batch, inputs: dict[str, Any]) -> float:
    """Take the gradients of both sides; return how far their losses are apart."""
    sums = ours(batch)
    loss = sum(sums[name] / batch.targets[name].count for name in sums)
    loss.backward()
    told = theirs(**inputs).loss
    told.backward()
    return abs(float(loss.detach()) - float(told.detach()))


def worst_gradient(ours: TaskModel, theirs: Any) -> float:
    grads = {
        name: p.grad for name, p in ours.named_parameters() if p.grad is not None and p.grad.any()
    }
    notes = {name: TaskNote(task.labels, task.options) for name, task in ours.tasks.items()}
    renamed = to_hugging_face(grads, ours.config, tasks=notes, pad_id=0)
    named = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    assert renamed.keys() == named.keys()
    return max(float((renamed[name] - named[name]).abs().max()) for name in named)


def test_masked_language_modelling_learns_the_same(open_both, draw_texts, padded) -> None:
    ours, theirs = open_both(BertForMaskedLM)
    texts, labels = hide(draw_texts(LENGTHS, seed=1), seed=2)
    batch = with_targets(texts, fill_mask=piece_target(labels))
    inputs = {**padded(texts), "labels": side_by_side(labels)}
    assert backward(ours, theirs, batch, inputs) <= 1e-5
    assert worst_gradient(ours, theirs) <= 1e-5


def test_that_check_notices_a_target_that_is_off(open_both, draw_texts, padded) -> None:
    ours, theirs = open_both(BertForMaskedLM)
    texts, labels = hide(draw_texts(LENGTHS, seed=1), seed=2)
    target = piece_target(labels)
    other = Target(torch.cat([target.values[:1] % 96 + 1, target.values[1:]]), target.at)
    batch = with_targets(texts, fill_mask=other)
    inputs = {**padded(texts), "labels": side_by_side(labels)}
    assert backward(ours, theirs, batch, inputs) > 1e-4
    assert worst_gradient(ours, theirs) > 1e-4


def test_pre_training_with_both_objectives_learns_the_same(open_both, draw_texts, padded) -> None:
    ours, theirs = open_both(BertForPreTraining)
    texts, labels = hide(draw_texts(LENGTHS, seed=3), seed=4)
    order = torch.tensor([0, 1, 1, 0, 1, 0])
    batch = with_targets(texts, fill_mask=piece_target(labels), next_sentence=Target(order))
    inputs = {**padded(texts), "labels": side_by_side(labels), "next_sentence_label": order}
    assert backward(ours, theirs, batch, inputs) <= 1e-5
    assert worst_gradient(ours, theirs) <= 1e-5


def test_classification_learns_the_same(open_both, draw_texts, padded) -> None:
    ours, theirs = open_both(BertForSequenceClassification)
    texts = draw_texts(LENGTHS, seed=5)
    gold = torch.tensor([4, 0, 1, 2, 3, 1])
    batch = with_targets(texts, classify=Target(gold))
    assert backward(ours, theirs, batch, {**padded(texts), "labels": gold}) <= 1e-5
    assert worst_gradient(ours, theirs) <= 1e-5


@pytest.mark.parametrize(
    "family", ["bert", "roberta", "distilbert", "albert", "electra", "modernbert", "mpnet"]
)
def test_one_step_of_the_optimizer_makes_the_same_weights(
    family: str, make_theirs, open_ours, draw_texts, padded, largest_gap
) -> None:
    theirs = make_theirs(family, "ForSequenceClassification", seed=6, num_labels=5)
    ours, before = (open_ours(theirs).model.train() for _ in range(2))
    texts = draw_texts((5, 41, 1, 17, 17, 30), seed=5)
    gold = torch.tensor([4, 0, 1, 2, 3, 1])
    inputs = {**padded(texts, theirs.config.pad_token_id), "labels": gold}
    if not hasattr(theirs.config, "type_vocab_size"):
        inputs.pop("token_type_ids")
    optimizers = [make_optimizer(model, lr=3e-4, weight_decay=0.1) for model in (ours, theirs)]
    batch = with_targets(texts, classify=Target(gold))
    assert backward(ours, theirs.train(), batch, inputs) <= 1e-5
    for optimizer in optimizers:
        optimizer.step()
    after = open_ours(theirs).model
    for name, parameter in ours.named_parameters():
        assert largest_gap(parameter, after.get_parameter(name)) <= 1e-5, name
        assert largest_gap(parameter, before.get_parameter(name)) > 1e-4, name
