"""Learning to write: pieces per second, against transformers' padded training of BERT2BERT.

    python benchmarks/generation_training.py                   both cases, on the CPU or GPU here
    python benchmarks/generation_training.py --cases titles --size base --rounds 2

Sources and targets of made-up words have the lengths of captions and their translations (13 words
each, 128 a step) or of abstracts and their titles (80 words and 10, 32 a step). Both sides begin
with the same untrained BERT as encoder and decoder, and train as in finetune_speed.py: theirs is
the Trainer, whose batches are padded to their longest text on both sides. Pieces of sources and
targets count, padding does not. Each side runs in a process of its own, the sides take turns, and
the best round counts.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path

import torch
from finetune_speed import (
    LR,
    SHAPES,
    Timed,
    describe,
    fine_tune,
    in_child,
    make_words,
    timed,
    write_model,
)
from peer import (
    IGNORED,
    Peer,
    Row,
    has_accelerate,
    peer_name,
    require_transformers,
    run_loop,
    run_trainer,
)
from torch.nn.utils.rnn import pad_sequence

BATCH_SIZES = {"captions": 128, "titles": 32}
# Words of a source and of a target: the median, the deviation of its logarithm, the most.
WORDS = {"captions": ((12, 0.35, 40), (11, 0.35, 40)), "titles": ((80, 0.25, 120), (9, 0.3, 18))}
LONGEST, GOAL = 256, 2.0


def main() -> None:
    """Run every case side by side, or one side of one case for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", choices=BATCH_SIZES, default=list(BATCH_SIZES))
    parser.add_argument("--size", choices=SHAPES, default="6x384")
    parser.add_argument("--examples", type=int, help="per case [600 on a CPU, 12,800 on a GPU]")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts [3]")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--side", nargs=3, metavar=("SIDE", "CASE", "FOLDER"))
    asked = parser.parse_args()
    require_transformers()
    device = asked.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if asked.side:
        side, case, folder = asked.side
        print(json.dumps(SIDES[side](case, Path(folder), device)))
        return
    print(f"torch {torch.__version__} on {describe(device)}; peer: {peer_name()}; {asked.size}")
    print(f"{'case':10}{'side':14}{'pieces/s':>12}{'ratio':>9}  goal")
    for case in asked.cases:
        with tempfile.TemporaryDirectory() as folder:
            count = asked.examples or (12_800 if device == "cuda" else 600)
            write_case(case, Path(folder), count, SHAPES[asked.size])
            compare(case, Path(folder), device, asked.rounds)


def compare(case: str, folder: Path, device: str, num_rounds: int) -> None:
    """Print the rates of both sides of a case."""
    best = {"transformers": 0.0, "bertworks": 0.0}
    for _ in range(num_rounds):
        for side in best:
            found = in_child(side, case, folder, device, script=__file__)
            best[side] = max(best[side], found["train"])
    num_pieces, num_rows = count_pieces(folder)
    for side, rate in best.items():
        ratio = f"{rate / best['transformers']:>8.2f}x  {GOAL}x" if side == "bertworks" else ""
        print(f"{case:10}{side:14}{rate * num_pieces / num_rows:>12,.0f}{ratio}", flush=True)


def write_case(case: str, folder: Path, count: int, shape: tuple[int, int]) -> None:
    """Write examples and a model for both sides."""
    chance = random.Random(0)
    with (folder / "train.jsonl").open("w", encoding="utf-8") as file:
        for _ in range(count):
            source, target = (
                " ".join(make_words(chance, median=middle, deviation=deviation, most=most, least=3))
                for middle, deviation, most in WORDS[case]
            )
            file.write(json.dumps({"source": source, "target": target}) + "\n")
    write_model(folder / "model", shape)


def read_rows(folder: Path) -> list[Row]:
    """Return the examples."""
    with (folder / "train.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def count_pieces(folder: Path) -> tuple[int, int]:
    """Return how many pieces the examples have on both sides, and how many examples there are."""
    rows = encode(read_rows(folder), folder)
    return sum(len(row["input_ids"]) + len(row["labels"]) for row in rows), len(rows)


def encode(rows: list[Row], folder: Path) -> list[Row]:
    """Cut sources and targets into pieces by the fast tokenizer of transformers."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    sides = (
        tokenizer([row[side] for row in rows], truncation=True, max_length=LONGEST)["input_ids"]
        for side in ("source", "target")
    )
    # A decoder of theirs begins with [CLS] by itself.
    return [{"input_ids": a, "labels": b[1:]} for a, b in zip(*sides, strict=True)]


def collate(rows: list[Row]) -> dict[str, torch.Tensor]:
    """Pad sources and targets to the longest of each."""

    def padded(name: str, filling: int) -> torch.Tensor:
        texts = [torch.tensor(row[name]) for row in rows]
        return pad_sequence(texts, batch_first=True, padding_value=filling)

    ids = padded("input_ids", 0)
    is_text = torch.zeros_like(ids)
    for mask, row in zip(is_text, rows, strict=True):
        mask[: len(row["input_ids"])] = 1
    return {"input_ids": ids, "attention_mask": is_text, "labels": padded("labels", IGNORED)}


def run_bertworks(case: str, folder: Path, device: str) -> Timed:
    """Fine-tune as the command does, without scoring on dev."""
    return fine_tune("generate", folder, device, longest=LONGEST, batch_size=BATCH_SIZES[case])


def run_transformers(case: str, folder: Path, device: str) -> Timed:
    """Fine-tune by the Trainer, or by the loop that it runs."""
    import transformers
    from transformers import EncoderDecoderModel

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    rows, model = read_rows(folder), str(folder / "model")
    network = EncoderDecoderModel.from_encoder_decoder_pretrained(model, model)
    pieces = transformers.AutoTokenizer.from_pretrained(model)
    network.config.decoder_start_token_id = pieces.cls_token_id
    network.config.pad_token_id = pieces.pad_token_id
    peer = Peer(network.to(device).train(), collate, BATCH_SIZES[case], LR, device)
    run = run_trainer if has_accelerate() else run_loop
    return timed(
        len(rows),
        lambda: encode(rows, folder),
        lambda features, steps: run(peer, features, steps=steps),
        device,
        steps=lambda features: -(-len(features) // peer.batch_size),
    )


SIDES = {"bertworks": run_bertworks, "transformers": run_transformers}

if __name__ == "__main__":
    main()
