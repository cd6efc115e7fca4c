"""Answers written by beams, in pieces a second, against the `generate` of transformers.

    python benchmarks/generation_speed.py [--device cuda] [--size 6x384] [--texts 32] [--batch 16]

Both sides have the weights of one random network, an encoder and a decoder of the same size, and
read the same texts of mixed length in the same order, some at a time; theirs are padded. Ends are
out of reach, so that every answer has as many pieces as may be written and both sides write the
same number. Sides take turns; the best round counts. On a GPU both compute in bf16, on a CPU in
fp32, where the answers are compared too.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers import BertConfig, EncoderDecoderConfig, EncoderDecoderModel

from bertworks.core.batch import Batch
from bertworks.data.packing import Features, flatten
from bertworks.interop.hugging_face import open_folder
from bertworks.model.config import EncoderConfig
from bertworks.model.decoder import Decoder
from bertworks.model.encoder import Encoder
from bertworks.model.search import Search, write_best
from bertworks.model.weights import load_weights

Answers = list[list[int]]
FIRST, END, PAD, FIRST_WORD = 101, 102, 0, 1000
GOAL = 1.5


def main() -> None:
    """Print the rates of both sides and the ratio."""
    asked = parse()
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(asked.threads)
    device = torch.device(asked.device)
    theirs = make_theirs(EncoderConfig.named(asked.size))
    ours = open_ours(theirs).to(device)
    theirs = theirs.to(device, torch.bfloat16 if asked.device == "cuda" else torch.float32)
    texts = draw_texts(asked.texts, longest=asked.longest)
    batches = [texts[at : at + asked.batch] for at in range(0, len(texts), asked.batch)]
    sides: dict[str, Callable[[], Answers]] = {
        "transformers": lambda: by_theirs(theirs, batches, asked),
        "bertworks": lambda: by_ours(ours, batches, asked),
    }
    written = {name: side() for name, side in sides.items()}  # the first round warms up
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(asked.rounds):
        for name, side in sides.items():
            best[name] = min(best[name], seconds_of(side, device))
    counts = {name: sum(map(len, answers)) for name, answers in written.items()}
    for name in sides:
        print(f"{name:14} {counts[name] / best[name]:10,.0f} pieces/s")
    ratio = best["transformers"] / best["bertworks"]
    same = sum(a == b for a, b in zip(*written.values(), strict=True))
    print(f"ratio {ratio:.2f} (goal {GOAL}); {same} of {len(texts)} answers are the same")


def parse() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", default="6x384", help="LAYERSxWIDTH of encoder and decoder")
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16, help="texts answered at once")
    parser.add_argument("--longest", type=int, default=64, help="pieces of the longest text")
    parser.add_argument("--most", type=int, default=40, help="pieces of every answer")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser.parse_args()


def make_theirs(size: EncoderConfig) -> EncoderDecoderModel:
    """Make a network whose answers differ by their texts and never end."""
    torch.manual_seed(0)
    shape = BertConfig(
        hidden_size=size.hidden_size,
        num_hidden_layers=size.num_layers,
        num_attention_heads=size.num_heads,
        intermediate_size=size.feed_forward_size,
        initializer_range=0.1,
    )
    pieces = {"decoder_start_token_id": FIRST, "eos_token_id": END, "pad_token_id": PAD}
    config = EncoderDecoderConfig.from_encoder_decoder_configs(
        shape, BertConfig(**shape.to_dict()), **pieces
    )
    theirs: Any = EncoderDecoderModel(config=config).eval()
    with torch.no_grad():
        theirs.decoder.cls.predictions.bias[END] = -1e4
    return theirs


class Pair(nn.Module):
    """An encoder with a decoder, under the names that a model of the task has."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.heads = nn.ModuleDict({"generate": Decoder(config, target="generate")})


def open_ours(theirs: EncoderDecoderModel) -> Pair:
    """Return the same network as ours, by way of a folder."""
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        found = open_folder(Path(folder))
        ours = Pair(found.config)
        load_weights(ours, found.tensors())
    return ours.eval()


def draw_texts(count: int, *, longest: int) -> list[np.ndarray]:
    """Draw texts of mixed length."""
    random = np.random.default_rng(0)
    lengths = random.integers(max(longest // 8, 1), longest + 1, size=count)
    return [random.integers(FIRST_WORD, 30_000, size=length) for length in lengths]


@torch.inference_mode()
def by_theirs(
    theirs: Any, batches: Sequence[list[np.ndarray]], asked: argparse.Namespace
) -> Answers:
    """Return what transformers writes."""
    found: Answers = []
    for texts in batches:
        ids = torch.full((len(texts), max(map(len, texts))), PAD)
        for row, text in zip(ids, texts, strict=True):
            row[: len(text)] = torch.from_numpy(text)
        ids = ids.to(asked.device)
        rows: Tensor = theirs.generate(
            ids,
            attention_mask=(ids != PAD).long(),
            num_beams=asked.beams,
            max_new_tokens=asked.most,
            do_sample=False,
        )
        found += rows[:, 1:].tolist()
    return found


@torch.inference_mode()
def by_ours(ours: Pair, batches: Sequence[list[np.ndarray]], asked: argparse.Namespace) -> Answers:
    """Return what bertworks writes."""
    search = Search(end=END, most=asked.most, beams=asked.beams)
    found: Answers = []
    for texts in batches:
        batch = flatten([Features(text, np.zeros_like(text)) for text in texts])
        with torch.autocast(asked.device, torch.bfloat16, enabled=asked.device == "cuda"):
            found += answers(ours, batch.to(torch.device(asked.device)), search)
    return found


def answers(ours: Pair, batch: Batch, search: Search) -> Answers:
    """Return the best answer to each text of a batch."""
    decoder: Any = ours.heads["generate"]
    read = ours.encoder(batch)
    draft = decoder.begin(read, batch.layout, ours.encoder, room=search.most)
    prompt = torch.full((batch.num_texts, 1), FIRST, device=read.device)
    return [best[0].tokens for best in write_best(draft, prompt, search)]


def seconds_of(side: Callable[[], Answers], device: torch.device) -> float:
    """Return how long a side takes."""
    started = time.perf_counter()
    side()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
