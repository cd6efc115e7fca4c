"""What a step waits for: on a GPU for nothing, until somebody reads what it has measured."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from bertworks.core.batch import Batch
from bertworks.core.crew import Crew
from bertworks.core.device import Machine
from bertworks.data.packing import Features, Goal, flatten
from bertworks.model.config import EncoderConfig
from bertworks.serving.learners import AnyLearner, Wanted, draw_learner
from bertworks.training.descent import Descent
from bertworks.training.gradients import Gradients
from bertworks.training.plan import TrainingPlan

VOCAB_SIZE, MASK = 53, 4
PLAN = TrainingPlan(steps=9, lr=0.01, weight_decay=0.1, optimizer="muon")
OBJECTIVES = ("replaced_token", "fill_mask")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def draw_batch(seed: int, *, longest: int) -> Batch:
    """Draw texts of which every third piece is hidden."""
    random, texts = np.random.default_rng(seed), []
    for length in (7, 13, longest):
        tokens = random.integers(5, VOCAB_SIZE, size=length)
        at, all_of_it = np.arange(1, length - 1, 3), np.arange(1, length - 1)
        goals = {
            "fill_mask": Goal(tokens[at], at),
            "replaced_token": Goal(np.zeros(length - 2, np.int64), all_of_it),
        }
        hidden = tokens.copy()
        hidden[at] = MASK
        texts.append(Features(hidden, np.zeros(length, np.int64), goals, seed))
    return flatten(texts)


def draw_network(device: torch.device) -> AnyLearner:
    config = replace(
        EncoderConfig.named("modern-2x64"), vocab_size=VOCAB_SIZE, hidden_size=128, num_heads=4
    )
    learner = draw_learner(config, Wanted(objectives=OBJECTIVES, generator_size=0.5))
    return learner.to(device).train()


@contextmanager
def refusing_to_wait(device: torch.device) -> Iterator[None]:
    """Let whatever waits for a GPU fail."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def state_of(descent: Descent) -> dict[str, Tensor]:
    return {
        f"{file}/{name}": tensor.detach().cpu().clone()
        for file, tensors in descent.state().items()
        for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("longest", [40, 200])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_step_is_told_as_a_whole_and_bad_ones_change_nothing(
    device: str, optimizer: str, longest: int, same_bits: Callable[..., bool]
) -> None:
    place = torch.device(device)
    machine = Machine(place, "bf16" if device == "cuda" else "fp32")
    plan = replace(PLAN, optimizer=optimizer)
    learner = draw_network(place)
    descent = Descent(learner, plan, moves_first=True)
    gradients = Gradients(learner, plan, machine, Crew())
    batches = [draw_batch(seed, longest=longest) for seed in range(4)]
    found, kept = [], []
    for step, batch in enumerate(batches, start=1):
        limits = {"fill_mask": 0.0} if step == 3 else {}  # every loss is above it
        # The first step on a machine compiles, and makes what is kept.
        with refusing_to_wait(place) if step > 1 else nullcontext():
            parts = [batch.to(place)]
            measured = gradients.compute(parts, step, share=0.0, weights=nullcontext())
            assert descent.step_unless(measured.is_bad(limits), plan.lr, number=step)
            descent.forget_gradients()
        found.append(measured.read())
        kept.append(state_of(descent))
    assert [same_bits(*pair) for pair in pairwise(kept)] == [False, True, False]
    for losses, norm in found:
        assert losses.keys() == set(OBJECTIVES)
        assert np.isfinite([*losses.values(), norm]).all()


@pytest.mark.gpu
def test_who_asks_waits_and_that_is_noticed() -> None:
    with pytest.raises(RuntimeError), refusing_to_wait(torch.device("cuda")):
        torch.ones((), device="cuda").item()
