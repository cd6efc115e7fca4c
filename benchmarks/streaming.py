"""Does memory grow with the data set? Peak memory of evaluate and predict on ever larger sets.

    python benchmarks/streaming.py [--rows 3000] [--times 1 4 16] [--kinds classify tag ...]

For each kind of task a small network with drawn weights answers drawn rows: so many, 4 times and 16
times as many, nearly all different. What is kept of each answer is a few numbers, so the peak may
grow by some bytes for each row, which the last column shows (of the line through all sizes), and
peaks waver by some MB; more than 300 is a failure, but only many rows can tell. Rows that were
read, their windows and their answers would take more than a thousand, and must not stay. The C
library is told to give freed memory back at once and the matrix library to remember few shapes, or
what they hold for later use would hide what is in use.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measured import run_bertworks

from bertworks.core.artifact import Origin
from bertworks.data.forms import make_example
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import KINDS, learn_task
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece

WORDS = [first + second for first in ("ba", "ke", "mi", "so", "tu") for second in "lnrstz"]
MOST_BYTES_A_ROW = 300
GIVING_BACK = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
}
Row = dict[str, Any]


def main() -> None:
    """Make a model and a file for each kind, answer it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--kinds", nargs="+", choices=MAKERS, default=list(MAKERS))
    options = parser.parse_args()
    if min(options.rows, *options.times) < 1:
        parser.error("--rows and --times are 1 or more")
    os.environ |= GIVING_BACK  # noqa: TID251
    columns = "".join(f"{f'{times}x':>10}" for times in options.times)
    print(f"peak MB on {options.rows:,} rows, and on so many times more")
    print(f"{'':24}{columns}   bytes a row more")
    grown = []
    with tempfile.TemporaryDirectory() as name:
        for kind in options.kinds:
            grown += report(Path(name), kind, options.rows, options.times)
    if max(grown) > MOST_BYTES_A_ROW:
        sys.exit("memory grows with the data set")


def report(folder: Path, kind: str, num_rows: int, times: list[int]) -> list[float]:
    """Print the peaks of both commands; return by how many bytes a row they grow."""
    chance = random.Random(3)
    rows = [MAKERS[kind](chance) for _ in range(num_rows)]
    model = folder / kind
    save_small_model(model, kind, rows)
    peaks: dict[str, list[float]] = {"evaluate": [], "predict": []}
    for count in times:
        data = folder / f"{kind}-{count}.jsonl"
        with data.open("w") as file:
            file.writelines(
                json.dumps(MAKERS[kind](chance)) + "\n" for _ in range(count * num_rows)
            )
        for command, found in peaks.items():
            out = folder / f"{kind}-{count}-{command}"
            words = ("--model", model, "--data", data, "--out", out, "--device", "cpu")
            found.append(run_bertworks(command, *words, "--threads", 1).peak)
    grown = []
    for command, found in peaks.items():
        grown.append(slope([num_rows * count for count in times], found) * 2**20)
        shown = "".join(f"{peak:10.0f}" for peak in found)
        print(f"{command:10}{kind:14}{shown}{grown[-1]:12.1f}", flush=True)
    return grown


def slope(rows: list[int], peaks: list[float]) -> float:
    """Return by how many MB a row the line through all peaks rises; of one size it is flat."""
    middle = sum(rows) / len(rows)
    spread = sum((count - middle) ** 2 for count in rows)
    return sum((n - middle) * peak for n, peak in zip(rows, peaks, strict=True)) / (spread or 1)


def save_small_model(folder: Path, kind: str, rows: list[Row]) -> None:
    """Save a network with drawn weights and the labels of these rows."""
    tokenizer = learn_wordpiece(lambda: [" ".join(WORDS)] * 3, size=300, cased=False)
    examples = [make_example(row, line, form=KINDS[kind].form) for line, row in enumerate(rows, 1)]
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, num_layers=1, num_heads=2,
        feed_forward_size=64, max_positions=64,
    )  # fmt: skip
    model = TaskModel(config, [learn_task(kind, examples)], seed=3)
    save_model(folder, model, tokenizer, origin=Origin())


def _classify(chance: random.Random) -> Row:
    return {"text": _text(chance, 40), "label": chance.choice("abcde")}


def _tag(chance: random.Random) -> Row:
    tokens = _text(chance, 40).split()
    return {"tokens": tokens, "tags": [chance.choice(("O", "B-A", "B-B")) for _ in tokens]}


def _answer(chance: random.Random) -> Row:
    passage = _text(chance, 80)
    answer = passage.split()[0]
    found = [{"text": answer, "start": 0}]
    return {"question": _text(chance, 5), "passage": passage, "answers": found}


def _match(chance: random.Random) -> Row:
    return {"text": _text(chance, 40), "text_b": _text(chance, 40), "label": chance.choice("01")}


def _intent_slots(chance: random.Random) -> Row:
    return {**_tag(chance), "intent": chance.choice("abcde")}


def _choose(chance: random.Random) -> Row:
    choices = [f"{_text(chance, 5)} {number}" for number in range(3)]
    return {"question": _text(chance, 40), "choices": choices, "label": chance.randrange(3)}


def _text(chance: random.Random, longest: int) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(2, longest)))


MAKERS: dict[str, Callable[[random.Random], Row]] = {
    "classify": _classify,
    "tag": _tag,
    "answer": _answer,
    "match": _match,
    "intent_slots": _intent_slots,
    "choose": _choose,
}

if __name__ == "__main__":
    main()
