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
from transformers import BertConfig, BertModel, PreTrainedModel

from bertworks.core.device import prepare
from bertworks.data.example_batches import length_sorted_batches
from bertworks.data.packing import Features
from bertworks.interop.descriptions import config_from_hugging_face
from bertworks.interop.tensor_names import RenamedTensors
from bertworks.model.weights import load_weights
from bertworks.tasks.answering import BATCH_TOKENS
from bertworks.tasks.task import TaskModel

SHAPES = {"mini": (4, 256), "6x384": (6, 384)}
NUM_TEXTS, BATCH_SIZE, ROUNDS = 256, 32, 5


def main() -> None:
    """Print both sides of every case and their ratio."""
    prepare("cpu")
    print("shape  longest  transformers    bertworks  speed-up  largest difference")
    for name, shape in SHAPES.items():
        theirs, ours = make_sides(_bert(*shape), batch_size=BATCH_SIZE)
        for longest in (128, 512):
            texts = make_texts(NUM_TEXTS, longest)
            difference = np.abs(theirs(texts) - ours(texts)).max()
            seconds = best_of(ROUNDS, [(theirs, texts), (ours, texts)])
            rates = [sum(map(len, texts)) / each for each in seconds]
            print(
                f"{name:6} {longest:7} {rates[0]:10,.0f}/s {rates[1]:10,.0f}/s "
                f"{rates[1] / rates[0]:8.2f}x  {difference:.1e}",
                flush=True,
            )


Side = Callable[[list[np.ndarray]], np.ndarray]


@torch.inference_mode()
def make_sides(theirs: PreTrainedModel, *, batch_size: int) -> tuple[Side, Side]:
    """Return both readers of texts, over the same weights: first tokens' vectors, one per text."""
    config = config_from_hugging_face(theirs.config.to_dict())
    ours = TaskModel.without_weights(config, []).eval()
    pad_id = theirs.config.pad_token_id
    tensors = RenamedTensors(theirs.state_dict(), config, tasks={}, pad_id=pad_id)
    load_weights(ours, tensors, may_miss=["encoder.pooler."])

    @torch.inference_mode()
    def run_theirs(texts: list[np.ndarray]) -> np.ndarray:
        rows = []
        for first in range(0, len(texts), batch_size):
            group = texts[first : first + batch_size]
            widest = max(map(len, group))
            ids = torch.full((len(group), widest), pad_id)
            mask = torch.zeros(len(group), widest, dtype=torch.long)
            for row, text in enumerate(group):
                ids[row, : len(text)] = torch.from_numpy(text)
                mask[row, : len(text)] = 1
            hidden = theirs(input_ids=ids, attention_mask=mask).last_hidden_state
            rows.append(hidden[:, 0].numpy())
        return np.concatenate(rows)

    @torch.inference_mode()
    def run_ours(texts: list[np.ndarray]) -> np.ndarray:
        rows = np.empty((len(texts), config.hidden_size), np.float32)
        features = [Features(text, np.zeros(len(text))) for text in texts]
        for places, batch in length_sorted_batches(features, budget=BATCH_TOKENS):
            hidden = ours.encoder(batch)
            rows[places] = hidden.index_select(0, batch.layout.first_tokens()).numpy()
        return rows

    return run_theirs, run_ours


def best_of(rounds: int, cases: list[tuple[Side, list[np.ndarray]]]) -> list[float]:
    """Return the seconds of each case in its best round; the cases take turns."""
    best = [float("inf")] * len(cases)
    for _ in range(rounds):
        for number, (side, texts) in enumerate(cases):
            started = time.perf_counter()
            side(texts)
            best[number] = min(best[number], time.perf_counter() - started)
    return best


def make_texts(count: int, longest: int) -> list[np.ndarray]:
    """Return texts of random pieces and natural lengths."""
    random = np.random.default_rng(0)
    lengths = natural_lengths(count * longest, longest)[:count]
    return [random.integers(1000, 30_000, length) for length in lengths]


def _bert(layers: int, width: int) -> PreTrainedModel:
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
    )
    return BertModel(config).eval()


if __name__ == "__main__":
    main()
