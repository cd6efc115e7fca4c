"""A pre-training step on the CPU: real tokens per second and memory, against transformers.

    python benchmarks/pretrain_step.py

Both sides train masked-language modelling (BERT-mini and a 6x384 encoder, 30,522 pieces) on the
same texts of natural lengths, 15 % of the tokens hidden: forward, backward, clipping, AdamW.
transformers gets what its collator makes: batches padded to the longest text. Each side runs in a
process of its own, so that the peak memory is its own; the sides take turns, and the best round
counts.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from lengths import natural_lengths

VOCABULARY = 30_522
SHAPES = {"mini": (4, 256), "6x384": (6, 384)}
BATCH_TOKENS = {128: 4096, 512: 4096}
DROPOUT = 0.1
Step = Callable[[], None]


def main() -> None:
    """Run every case side by side, or one side of one case for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs=3, metavar=("SIDE", "SHAPE", "LONGEST"))
    parser.add_argument("--seconds", type=float, default=8.0, help="measured per round [8]")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts [3]")
    options = parser.parse_args()
    if options.case:
        side, shape, longest = options.case
        print(json.dumps(measure(side, shape, int(longest), options.seconds)))
        return
    print("shape  longest  side          tokens/s   peak MiB   speed-up   memory")
    for shape in SHAPES:
        for longest in BATCH_TOKENS:
            compare(shape, longest, options.seconds, options.rounds)


def compare(shape: str, longest: int, seconds: float, num_rounds: int) -> None:
    """Print both sides of one case and their ratio."""
    rounds: dict[str, list[dict[str, float]]] = {"transformers": [], "bertworks": []}
    for _ in range(num_rounds):
        for side, results in rounds.items():
            results.append(_in_child(side, shape, longest, seconds))
    rate = {side: max(r["rate"] for r in results) for side, results in rounds.items()}
    peak = {side: min(r["peak"] for r in results) for side, results in rounds.items()}
    faster = rate["bertworks"] / rate["transformers"]
    smaller = peak["bertworks"] / peak["transformers"]
    for side in rounds:
        ratio = f"{faster:8.2f}x  {smaller:6.2f}x" if side == "bertworks" else ""
        print(f"{shape:6} {longest:7}  {side:12} {rate[side]:9,.0f} {peak[side]:10,.0f}  {ratio}")
    sys.stdout.flush()


def measure(side: str, shape: str, longest: int, seconds: float) -> dict[str, float]:
    """Return the tokens per second of one side and the memory it needed above the libraries."""
    torch.set_flush_denormal(True)  # for both sides
    torch.manual_seed(0)
    texts = _texts(BATCH_TOKENS[longest], longest)
    make = {"bertworks": bertworks_step, "transformers": transformers_step}[side]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = make(SHAPES[shape], longest, texts)
    step()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds or count < 2:
        step()
        count += 1
    taken = time.perf_counter() - started
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"rate": count * sum(map(len, texts)) / taken, "peak": peak}


def bertworks_step(shape: tuple[int, int], longest: int, texts: list[np.ndarray]) -> Step:
    """Return the step of this package: a flat batch, logits at hidden places only."""
    from bertworks.core.pieces import SpecialIds
    from bertworks.data.masking import Masking
    from bertworks.data.packing import Features, Goal, flatten
    from bertworks.model.config import EncoderConfig
    from bertworks.tasks.catalog import make_task
    from bertworks.tasks.task import TaskModel
    from bertworks.training.optimizer import make_optimizer

    specials = SpecialIds(pad=0, unknown=100, first=101, separator=102, mask=103)
    config = EncoderConfig.named("{}x{}".format(*shape)).with_dropout(DROPOUT)
    model = TaskModel(config, [make_task("fill_mask")]).train()
    optimizer = make_optimizer(model, lr=1e-4, weight_decay=0.01)
    lengths = np.array([len(text) for text in texts])
    tokens = np.concatenate(texts)
    hidden, at = Masking(specials, VOCABULARY).hide(tokens, lengths, np.random.default_rng(0))
    ends = np.cumsum(lengths)
    features = []
    for end, length in sorted(zip(ends, lengths, strict=True), key=lambda pair: pair[1]):
        start = end - length
        own = at[(at >= start) & (at < end)]
        goals = {"fill_mask": Goal(tokens[own], own - start)}
        features.append(Features(hidden[start:end], np.zeros(length), goals))
    batch = flatten(features)

    def step() -> None:
        loss = model(batch)["fill_mask"] / batch.targets["fill_mask"].count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def transformers_step(shape: tuple[int, int], longest: int, texts: list[np.ndarray]) -> Step:
    """Return the step of transformers: a padded batch with its mask, logits everywhere."""
    from transformers import BertConfig, BertForMaskedLM

    layers, width = shape
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
        attn_implementation="sdpa",
    )
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    widest = max(map(len, texts))
    ids = torch.zeros(len(texts), widest, dtype=torch.long)
    mask = torch.zeros(len(texts), widest, dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.from_numpy(text)
        mask[row, : len(text)] = 1
    is_hidden = (torch.rand(ids.shape) < 0.15) & mask.bool()
    labels = torch.where(is_hidden, ids, -100)
    ids = ids.masked_fill(is_hidden, 103)

    def step() -> None:
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _texts(tokens: int, longest: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(1000, VOCABULARY, n) for n in natural_lengths(tokens, longest)]


def _in_child(side: str, shape: str, longest: int, seconds: float) -> dict[str, float]:
    words = [sys.executable, __file__, "--seconds", str(seconds)]
    words += ["--case", side, shape, str(longest)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
