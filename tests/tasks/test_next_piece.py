"""Next piece: the fill-mask head answers, and sees nothing of what it is asked for."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from bertworks.core.batch import Batch
from bertworks.core.errors import UsageError
from bertworks.data.packing import Features, Goal, flatten
from bertworks.model.config import EncoderConfig, Local
from bertworks.tasks.catalog import make_task
from bertworks.tasks.next_piece import WithNextPiece
from bertworks.tasks.task import TaskModel

LENGTHS = (5, 5, 11)


@pytest.fixture
def learner(config) -> WithNextPiece:
    tasks = [make_task("fill_mask"), make_task("next_sentence")]
    return WithNextPiece(TaskModel(config, tasks, seed=4, deviation=0.3)).eval()


@pytest.fixture
def batch() -> Batch:
    """Ask of every token which one follows."""
    random = np.random.default_rng(3)
    texts = []
    for length in LENGTHS:
        tokens = random.integers(5, 50, size=length)
        goal = Goal(tokens[1:], np.arange(length - 1))
        texts.append(Features(tokens, np.zeros(length, np.int64), {"next_piece": goal}))
    return replace(flatten(texts), is_causal=True)


def test_a_causal_batch_has_the_loss_of_the_next_piece_alone(learner, batch) -> None:
    losses = learner(batch)
    assert list(losses) == ["next_piece"]
    logits, target = learner.judged(batch)["next_piece"]
    assert logits.shape == (sum(LENGTHS) - 3, learner.model.config.vocab_size)
    expected = functional.cross_entropy(logits, target.values, reduction="sum")
    torch.testing.assert_close(losses["next_piece"], expected)


def test_no_answer_depends_on_what_follows(learner, batch) -> None:
    def logits(is_causal: bool, tokens: torch.Tensor) -> torch.Tensor:
        asked = {"fill_mask": batch.targets["next_piece"]}
        given = replace(batch, tokens=tokens, targets=asked, is_causal=is_causal)
        return learner.model.judged(given)["fill_mask"][0]

    changed = batch.tokens.clone()
    changed[3] = 7 if changed[3] != 7 else 8  # the fourth of the first text
    for is_causal in (True, False):
        before, after = logits(is_causal, batch.tokens), logits(is_causal, changed)
        moved = [not torch.equal(a, b) for a, b in zip(before[:4], after[:4], strict=True)]
        assert moved == ([False] * 3 + [True] if is_causal else [True] * 4)


def test_other_batches_are_the_models_own(learner, batch) -> None:
    goals = {"fill_mask": batch.targets["next_piece"]}
    masked = replace(batch, targets=goals, is_causal=False)
    assert list(learner(masked)) == ["fill_mask"]
    assert torch.equal(learner(masked)["fill_mask"], learner.model(masked)["fill_mask"])


def test_there_is_no_weight_but_the_models(learner) -> None:
    names = {name.removeprefix("model.") for name, _ in learner.named_parameters()}
    assert names == {name for name, _ in learner.model.named_parameters()}


@pytest.mark.parametrize(
    ("change", "named"),
    [({"mixer": "convolution"}, "convolution"), ({"local": Local(window=3)}, "local attention")],
)
def test_a_network_that_cannot_but_look_ahead_is_refused(config, change, named: str) -> None:
    other: EncoderConfig = replace(config, **change)
    with pytest.raises(UsageError, match=f"next_piece needs attention to whole .* has {named}"):
        WithNextPiece(TaskModel(other, [make_task("fill_mask")]))
