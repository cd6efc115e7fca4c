"""Encoding texts on the CPU: real tokens per second, against transformers' padded batches.

    python benchmarks/inference.py

BERT-mini and a 6x384 encoder with random weights read the same 256 texts of natural lengths in
batches of 32: transformers as they come, padded to the longest of each batch; bertworks by its own
way (like lengths together, a token budget, no padding). The vectors of both sides are compared. The
sides take turns in one process; the best of five rounds counts.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from lengths import natural_lengths
from transformers import BertConfig, BertModel

from bertworks.core.device import prepare
from bertworks.data.example_batches import length_sorted_batches
from bertworks.data.packing import Features
from bertworks.interop.hugging_face import from_hugging_face
from bertworks.model.config import EncoderConfig
from bertworks.model.weights import load_weights
from bertworks.tasks.answering import BATCH_TOKENS
from bertworks.tasks.task import TaskModel

VOCABULARY = 30_522
SHAPES = {"mini": (4, 256), "6x384": (6, 384)}
NUM_TEXTS, BATCH_SIZE, ROUNDS = 256, 32, 5


def main() -> None:
    """Print both sides of every case and their ratio."""
    prepare("cpu")
    print("shape  longest  transformers    bertworks  speed-up  largest difference")
    for name, shape in SHAPES.items():
        for longest in (128, 512):
            theirs, ours = _sides(shape, longest)
            texts = _texts(longest)
            difference = np.abs(theirs(texts) - ours(texts)).max()
            rates = [sum(map(len, texts)) / seconds for seconds in _best((theirs, ours), texts)]
            print(
                f"{name:6} {longest:7} {rates[0]:10,.0f}/s {rates[1]:10,.0f}/s "
                f"{rates[1] / rates[0]:8.2f}x  {difference:.1e}",
                flush=True,
            )


Side = Callable[[list[np.ndarray]], np.ndarray]


@torch.inference_mode()
def _sides(shape: tuple[int, int], longest: int) -> tuple[Side, Side]:
    layers, width = shape
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        attn_implementation="sdpa",
    )
    theirs = BertModel(config).eval()
    ours = TaskModel(EncoderConfig.of_shape(*shape), []).eval()
    load_weights(ours, from_hugging_face(dict(theirs.state_dict()), tasks=()))

    @torch.inference_mode()
    def run_theirs(texts: list[np.ndarray]) -> np.ndarray:
        rows = []
        for first in range(0, len(texts), BATCH_SIZE):
            group = texts[first : first + BATCH_SIZE]
            widest = max(map(len, group))
            ids = torch.zeros(len(group), widest, dtype=torch.long)
            mask = torch.zeros(len(group), widest, dtype=torch.long)
            for row, text in enumerate(group):
                ids[row, : len(text)] = torch.from_numpy(text)
                mask[row, : len(text)] = 1
            hidden = theirs(input_ids=ids, attention_mask=mask).last_hidden_state
            rows.append(hidden[:, 0].numpy())
        return np.concatenate(rows)

    @torch.inference_mode()
    def run_ours(texts: list[np.ndarray]) -> np.ndarray:
        rows = np.empty((len(texts), width), np.float32)
        features = [Features(text, np.zeros(len(text))) for text in texts]
        for places, batch in length_sorted_batches(features, budget=BATCH_TOKENS):
            hidden = ours.encoder(batch)
            rows[places] = hidden.index_select(0, batch.layout.first_tokens()).numpy()
        return rows

    return run_theirs, run_ours


def _best(sides: tuple[Side, ...], texts: list[np.ndarray]) -> list[float]:
    best = [float("inf")] * len(sides)
    for _ in range(ROUNDS):
        for number, side in enumerate(sides):
            started = time.perf_counter()
            side(texts)
            best[number] = min(best[number], time.perf_counter() - started)
    return best


def _texts(longest: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    lengths = natural_lengths(NUM_TEXTS * longest, longest)[:NUM_TEXTS]
    return [random.integers(1000, VOCABULARY, length) for length in lengths]


if __name__ == "__main__":
    main()
