"""Does the training loop keep a GPU busy? Tokens per second of a step alone and in the loop.

    python benchmarks/data_path.py [--shards FOLDER] [--workers 0 1 2 4] [--size modern-12x512]
    python benchmarks/data_path.py --objectives replaced_token=50 fill_mask=1

Batches of 131,072 tokens (25 % hidden, texts of at most 128 pieces) are made from shards, given or
made up, by each number of worker processes, and the training loop learns from them. The step alone
takes one batch that is on the device again and again and never asks how it went; what is lost
between the two is the share of the time that the device waits: for batches, for the order of their
texts, which the loop finds for each and the step alone for its one, and for the loop, which reads
every loss before it begins the next step. Without a GPU the rate of the batches alone is
shown, or with --train, on a small --size and with few --tokens, the same table.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bertworks.core.artifact import Origin
from bertworks.core.batch import Batch
from bertworks.core.device import Machine, prepare
from bertworks.core.pieces import SpecialIds
from bertworks.core.settings import Ramp
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.loader import load
from bertworks.data.masking import Masking
from bertworks.data.shards import Shards, ShardWriter, TokenizedDocuments
from bertworks.model.config import EncoderConfig
from bertworks.serving.learners import AnyLearner, Wanted, draw_learner
from bertworks.tasks.objectives import read_objectives
from bertworks.training.loop import train
from bertworks.training.optimizer import make_optimizer
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Run

SPECIALS = SpecialIds(pad=0, unknown=1, first=2, separator=3, mask=4)
VOCABULARY = 16_384
LONGEST = 128
WARM = 10  # steps before the clock starts
HIDDEN = Ramp(0.25, 0.25)
LEARNING = {"lr": 1e-4, "weight_decay": 0.1}


class Timed(nn.Module):
    """A model that notes when each of its steps begins, and how many tokens it has."""

    def __init__(self, model: AnyLearner) -> None:
        super().__init__()
        self.model = model
        self.begun: list[float] = []
        self.tokens: list[int] = []

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the model."""
        self.begun.append(time.perf_counter())
        self.tokens.append(len(batch.tokens))
        return self.model(batch)

    def rate(self) -> float:
        """Return the tokens per second of all steps but those that warm up, and the last."""
        return sum(self.tokens[WARM:-1]) / (self.begun[-1] - self.begun[WARM])


def main() -> None:
    """Print a line for the step alone, and one for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=Path)
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 1, 2, 4])
    parser.add_argument("--size", default="modern-12x512")
    parser.add_argument("--objectives", nargs="*", default=["fill_mask"])
    parser.add_argument("--optimizer", default="muon", choices=["adamw", "muon"])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=131_072, help="of a step")
    parser.add_argument("--train", action="store_true", help="also without a GPU")
    asked = parser.parse_args()
    machine, weights = prepare(), read_objectives(asked.objectives, "own")
    plan = TrainingPlan(
        steps=WARM + asked.steps, optimizer=asked.optimizer, weights=weights, **LEARNING
    )
    with tempfile.TemporaryDirectory() as folder:
        shards = Shards(asked.shards or make_shards(Path(folder) / "shards"))
        masking = Masking(shards.specials, shards.vocab_size)
        tokens, names = Ramp(asked.tokens, asked.tokens), tuple(weights)
        batch_plan = BatchPlan(tokens=tokens, longest=LONGEST, objectives=names, mask_rate=HIDDEN)
        batches = CorpusBatches(shards, masking, batch_plan)
        if not (asked.train or machine.device.type == "cuda"):
            for workers in asked.workers:
                rate = rate_of_batches(batches, asked.steps, workers)
                print(f"{workers} workers: {rate / 1e3:,.0f} k tokens/s are made", flush=True)
            return
        config = replace(EncoderConfig.named(asked.size), vocab_size=shards.vocab_size)
        alone = rate_of_step(draw_learner(config, Wanted(objectives=names)), batches, plan, machine)
        print(f"the step alone: {alone / 1e3:,.0f} k tokens/s")
        for workers in asked.workers:
            model = Timed(draw_learner(config, Wanted(objectives=names)))
            place, own = Path(folder) / f"run-{workers}", replace(plan, workers=workers)
            run = Run(place, origin=Origin(), resume=False)
            train(model, batches, own, run=run, machine=machine)
            rate = model.rate()
            lost = 1 - rate / alone
            print(f"{workers} workers: {rate / 1e3:,.0f} k tokens/s, {lost:.1%} lost", flush=True)


def rate_of_batches(batches: CorpusBatches, steps: int, workers: int) -> float:
    """Return the tokens per second that are made, of batches that nobody learns from."""
    tokens, started = 0, 0.0
    for number, parts in enumerate(load(batches, first=0, last=WARM + steps, workers=workers)):
        if number < WARM:
            started = time.perf_counter()
        else:
            tokens += sum(len(part.tokens) for part in parts)
    return tokens / (time.perf_counter() - started)


def rate_of_step(
    model: AnyLearner, batches: CorpusBatches, plan: TrainingPlan, machine: Machine
) -> float:
    """Return the tokens per second of steps on one batch, which nothing waits for."""
    model.to(machine.device).train()
    (batch,) = (part.to(machine.device) for part in batches.at(0))
    optimizer = make_optimizer(model, name=plan.optimizer, **LEARNING)
    started = 0.0
    for number in range(plan.steps or 0):
        if number == WARM:
            finish()
            started = time.perf_counter()
        with machine.autocast():
            losses = model(batch)
        total = sum(loss / batch.targets[name].count for name, loss in losses.items())
        assert isinstance(total, Tensor)
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        optimizer.step()
        optimizer.zero_grad()
    finish()
    return ((plan.steps or 0) - WARM) * len(batch.tokens) / (time.perf_counter() - started)


def finish() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_shards(folder: Path) -> Path:
    """Write documents of random pieces: eight million tokens."""
    random = np.random.default_rng(0)
    folder.mkdir()
    writer = ShardWriter(
        folder, specials=SPECIALS, vocab_size=VOCABULARY, words={"words": "pieces"}
    )
    for _ in range(40):
        sentences = random.integers(5, 60, size=6250)
        tokens = random.integers(5, VOCABULARY, size=int(sentences.sum()))
        begins_word, held_out = np.ones(len(tokens), bool), np.zeros(250, bool)
        writer.add(TokenizedDocuments(tokens, begins_word, sentences, np.full(250, 25), held_out))
    writer.finish()
    return folder


if __name__ == "__main__":
    main()
