"""Does the data path keep up? Tokens per second that it makes, and what a GPU waits for it.

    python benchmarks/data_path.py [--shards FOLDER] [--workers 0 1 2 4] [--size modern-12x512]

Batches of 131,072 tokens (25 % hidden, texts of at most 128 pieces) are made from shards, given or
made up, by each number of worker processes. With a GPU the network of --size trains on them, and
the share of the time that it waits for the next batch is shown; without one, the rate alone.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bertworks.core.pieces import SpecialIds
from bertworks.core.settings import Ramp
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.loader import load
from bertworks.data.masking import Masking
from bertworks.data.shards import Shards, ShardWriter, TokenizedDocuments
from bertworks.model.config import EncoderConfig
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

SPECIALS = SpecialIds(pad=0, unknown=1, first=2, separator=3, mask=4)
VOCABULARY = 16_384
TOKENS, LONGEST = 131_072, 128


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
        batches.at(0)  # plans the epoch
        for workers in asked.workers:
            measure(batches, workers, asked, vocab_size=shards.vocab_size)


def measure(
    batches: CorpusBatches, workers: int, asked: argparse.Namespace, *, vocab_size: int
) -> None:
    """Train, or only count, over some steps, and print the rate and the wait."""
    step = make_step(asked.size, vocab_size)
    made = load(batches, first=0, last=asked.steps + 5, workers=workers)
    waited, tokens, started = 0.0, 0, time.perf_counter()
    for number in range(asked.steps + 5):
        before = time.perf_counter()
        (batch,) = next(made)
        waited += time.perf_counter() - before
        tokens += len(batch.tokens)
        step(batch)
        if number == 4:  # the first steps warm up
            finish()
            waited, tokens, started = 0.0, 0, time.perf_counter()
    finish()
    taken = time.perf_counter() - started
    made.close()
    rate, share = tokens / taken, waited / taken
    print(f"{workers} workers: {rate / 1e3:,.0f} k tokens/s, {share:.1%} of it waiting", flush=True)


def make_step(size: str, vocab_size: int):  # noqa: ANN201
    """Return a training step on the GPU, or one that does nothing."""
    if not torch.cuda.is_available():
        return lambda batch: None
    config = replace(EncoderConfig.named(size), vocab_size=vocab_size, max_positions=512)
    model = TaskModel(config, [make_task("fill_mask")]).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batch) -> None:  # noqa: ANN001
        with torch.autocast("cuda", torch.bfloat16):
            sums = model(batch.to(torch.device("cuda")))
        (sums["fill_mask"] / batch.targets["fill_mask"].count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()  # as a loop that looks at every loss

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
