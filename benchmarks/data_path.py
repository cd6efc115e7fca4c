"""Does the data path keep up? Tokens per second that it makes, and what a GPU waits for it.

    python benchmarks/data_path.py [--shards FOLDER] [--workers 0 1 2 4] [--size modern-12x512]

Batches of 131,072 tokens (25 % hidden, texts of at most 128 pieces) are made from shards, given or
made up, by each number of worker processes. With a GPU the network of --size trains on them, first
on one batch again and again, then on each batch as it is made; what is lost between the two is the
share of the time that the device waits for data. Without a GPU the rate alone is shown.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bertworks.core.batch import Batch
from bertworks.core.pieces import SpecialIds
from bertworks.core.settings import Ramp
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.loader import Ahead, load
from bertworks.data.masking import Masking
from bertworks.data.shards import Shards, ShardWriter, TokenizedDocuments
from bertworks.model.config import EncoderConfig
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

SPECIALS = SpecialIds(pad=0, unknown=1, first=2, separator=3, mask=4)
VOCABULARY = 16_384
TOKENS, LONGEST = 131_072, 128
WARM = 5  # steps before the clock starts
Step = Callable[[Batch], None]


def main() -> None:
    """Print a line for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=Path)
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 1, 2, 4])
    parser.add_argument("--size", default="modern-12x512")
    parser.add_argument("--steps", type=int, default=30)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shards = Shards(asked.shards or make_shards(Path(folder)))
        masking = Masking(shards.specials, shards.vocab_size, rate=0.25)
        plan = BatchPlan(tokens=Ramp(TOKENS, TOKENS), longest=LONGEST, objectives=("fill_mask",))
        batches = CorpusBatches(shards, masking, plan)
        step = make_step(asked.size, shards.vocab_size)
        top = rate_of(step, Ahead(iter([batches.at(0)] * (asked.steps + WARM))))
        if torch.cuda.is_available():
            print(f"one batch again and again: {top / 1e3:,.0f} k tokens/s")
        for workers in asked.workers:
            made = load(batches, first=0, last=asked.steps + WARM, workers=workers)
            rate = rate_of(step, Ahead(made))
            made.close()
            lost = f", {1 - rate / top:.1%} lost to waiting" if torch.cuda.is_available() else ""
            print(f"{workers} workers: {rate / 1e3:,.0f} k tokens/s{lost}", flush=True)


def rate_of(step: Step, ahead: Ahead) -> float:
    """Return the tokens per second of a loop that looks at every loss."""
    tokens, started = 0, time.perf_counter()
    for number, (batch,) in enumerate(ahead):
        step(batch)
        ahead.fetch()  # as the training loop does, while the device computes
        finish()
        tokens += len(batch.tokens)
        if number == WARM - 1:
            tokens, started = 0, time.perf_counter()
    return tokens / (time.perf_counter() - started)


def make_step(size: str, vocab_size: int) -> Step:
    """Return a training step on the GPU, or one that does nothing."""
    if not torch.cuda.is_available():
        return lambda batch: None
    config = replace(EncoderConfig.named(size), vocab_size=vocab_size, max_positions=512)
    model = TaskModel(config, [make_task("fill_mask")]).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batch: Batch) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            sums = model(batch.to(torch.device("cuda")))
        (sums["fill_mask"] / batch.targets["fill_mask"].count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def finish() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_shards(folder: Path) -> Path:
    """Write documents of random pieces: eight million tokens."""
    random = np.random.default_rng(0)
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
