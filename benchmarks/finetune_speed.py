"""Fine-tuning from texts to weights: examples per second, against transformers' own way.

    python benchmarks/finetune_speed.py                           both cases, on the CPU or GPU here
    python benchmarks/finetune_speed.py --cases sentences --size mini --rounds 3
    python benchmarks/finetune_speed.py --model DIR --sentences train.tsv --questions train.json

The cases are those of SST-2 (one sentence, two labels, 32 a step) and of SQuAD (a question and a
passage, windows of 384 pieces, 12 a step). Without files, texts of made-up words have the lengths
of those sets; without a model, both sides get the same untrained BERT (6x384 unless --size says
otherwise). The peer is transformers' Trainer with dynamic padding or, where its package accelerate
is missing, the plain loop that it runs (see peer.py).
Each side runs in a process of its own, the sides take turns, and the best round counts. `prepare`
is the way from texts to features, `train` the steps alone, `whole` both for one epoch.
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peer import (
    Peer,
    Row,
    encode_questions,
    encode_texts,
    has_accelerate,
    peer_name,
    require_transformers,
    run_loop,
    run_trainer,
)

from bertworks.core.errors import BertworksError

Timed = dict[str, float]
BATCH_SIZES = {"sentences": 32, "questions": 12}
LONGEST = {"sentences": 128, "questions": 384}
SHAPES = {"tiny": (2, 128), "mini": (4, 256), "6x384": (6, 384), "base": (12, 768)}
GOALS = {"cpu": 1.5, "cuda": 2.0}
WARM_STEPS = 5
LR = 5e-5


def main() -> None:
    """Run every case side by side, or one side of one case for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", choices=BATCH_SIZES, default=list(BATCH_SIZES))
    parser.add_argument("--model", type=Path, help="folder of a model for both sides")
    parser.add_argument("--size", choices=SHAPES, default="6x384", help="without a model [6x384]")
    parser.add_argument("--sentences", type=Path, help="a labelled file of the form of SST-2")
    parser.add_argument("--questions", type=Path, help="a labelled file of the form of SQuAD")
    parser.add_argument("--examples", type=int, help="per case [1,000 on a CPU, 20,000 on a GPU]")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts [3]")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--side", nargs=3, metavar=("SIDE", "CASE", "FOLDER"))
    asked = parser.parse_args()
    device = asked.device or ("cuda" if torch.cuda.is_available() else "cpu")
    refuse_odd(parser, asked, device)
    if asked.side:
        side, case, folder = asked.side
        print(json.dumps(SIDES[side](case, Path(folder), device)))
        return
    print(f"torch {torch.__version__} on {describe(device)}; peer: {peer_name()}")
    print(f"{'case':12}{'side':14}{'prepare/s':>12}{'train/s':>12}{'whole/s':>12}"
          f"{'train':>9}{'whole':>9}  goal")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for case in asked.cases:
            place = Path(folder) / case
            try:
                write_case(case, place, asked, device)
            except BertworksError as error:
                sys.exit(str(error))
            compare(case, place, device, asked.rounds)


def refuse_odd(parser: argparse.ArgumentParser, asked: argparse.Namespace, device: str) -> None:
    """Stop where something that is asked for is missing."""
    for path in filter(None, (asked.model, asked.sentences, asked.questions)):
        if not path.exists():
            parser.error(f"there is no {path}")
    if min(asked.rounds, 1 if asked.examples is None else asked.examples) < 1:
        parser.error("--rounds and --examples are 1 or more")
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; leave --device out")
    require_transformers()


def describe(device: str) -> str:
    """Say where the sides compute."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"a CPU with {torch.get_num_threads()} threads"


def compare(case: str, folder: Path, device: str, num_rounds: int) -> None:
    """Print both sides of a case and how much faster ours is."""
    rounds: dict[str, list[Timed]] = {"transformers": [], "bertworks": []}
    for _ in range(num_rounds):
        for side, results in rounds.items():
            results.append(in_child(side, case, folder, device))
    best = {
        side: {key: max(found[key] for found in results) for key in results[0]}
        for side, results in rounds.items()
    }
    theirs, ours = best["transformers"], best["bertworks"]
    for side, rates in best.items():
        row = f"{case:12}{side:14}" + "".join(
            f"{rates[key]:>12,.0f}" for key in ("prepare", "train", "whole")
        )
        if side == "bertworks":
            ratios = (ours[key] / theirs[key] for key in ("train", "whole"))
            row += "".join(f"{ratio:>8.2f}x" for ratio in ratios) + f"  {GOALS[device]}x"
        print(row, flush=True)


def in_child(side: str, case: str, folder: Path, device: str, *, script: str = __file__) -> Timed:
    """Run one side in a process of its own."""
    words = [sys.executable, script, "--device", device, "--side", side, case, str(folder)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{side} failed on {case}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


# The data and the network, the same for both sides


def write_case(case: str, folder: Path, asked: argparse.Namespace, device: str) -> None:
    """Write examples and a model for both sides."""
    folder.mkdir(parents=True)
    count = asked.examples or (20_000 if device == "cuda" else 1_000)
    file = asked.sentences if case == "sentences" else asked.questions
    rows = read_rows(file, case)[:count] if file else make_rows(case, count)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    (folder / "train.jsonl").write_text("".join(lines), encoding="utf-8")
    model = folder / "model"
    if asked.model:
        model.symlink_to(asked.model.resolve())
    else:
        write_model(model, SHAPES[asked.size])


def read_rows(file: Path, case: str) -> list[Row]:
    """Read a file by our own reader, in our own columns."""
    from bertworks.core.quarantine import Quarantine
    from bertworks.data.example_rows import row_of
    from bertworks.data.rows import read_examples

    form = "label" if case == "sentences" else "answers"
    columns = {"text": "sentence"} if case == "sentences" else {}
    examples = read_examples(file, Quarantine(), form=form, columns=columns)
    return [row_of(example, form=form) for example in examples]


def make_rows(case: str, count: int) -> list[Row]:
    """Make texts of made-up words whose lengths follow those of SST-2 or SQuAD."""
    chance = random.Random(0)
    return [make_sentence(chance) if case == "sentences" else make_question(chance)
            for _ in range(count)]  # fmt: skip


def make_sentence(chance: random.Random) -> Row:
    """Make a phrase with a label."""
    words = make_words(chance, median=7, deviation=0.75, most=55)
    return {"text": " ".join(words), "label": chance.choice("01")}


def make_question(chance: random.Random) -> Row:
    """Make a question and a passage with the words that answer it."""
    question = " ".join(make_words(chance, median=10, deviation=0.35, most=40))
    words = make_words(chance, median=110, deviation=0.45, most=650, least=20)
    first = chance.randrange(len(words))
    answer = " ".join(words[first : first + chance.randint(1, 5)])
    start = len(" ".join([*words[:first], ""])) if first else 0
    found = {"text": answer, "start": start}
    return {"question": question, "passage": " ".join(words), "answers": [found]}


def make_words(
    chance: random.Random, *, median: float, deviation: float, most: int, least: int = 1
) -> list[str]:
    """Make some words; a fifth of them are two pieces long."""
    count = round(math.exp(chance.gauss(math.log(median), deviation)))
    stems = chance.choices(STEMS, k=min(max(count, least), most))
    return [stem + chance.choice(ENDINGS) if chance.random() < 0.2 else stem for stem in stems]


STEMS = [a + b + c for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u") for c in
         (x + y for x in "bdfgklmnprst" for y in ("a", "e", "i", "o", "u"))]  # fmt: skip
ENDINGS = ["ring", "ness", "ly", "ment"]


def write_model(folder: Path, shape: tuple[int, int]) -> None:
    """Write an untrained BERT whose vocabulary has the pieces of the made-up words."""
    from transformers import BertConfig, BertModel, BertTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder.mkdir()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*specials, *STEMS, *(f"##{ending}" for ending in ENDINGS)]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    layers, width = shape
    config = BertConfig(
        vocab_size=30_522,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=width // 64 if width % 64 == 0 else 12,
        intermediate_size=4 * width,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    BertTokenizer(vocab={piece: n for n, piece in enumerate(pieces)}).save_pretrained(folder)


# Ours


def run_bertworks(case: str, folder: Path, device: str) -> Timed:
    """Fine-tune as the command does, without scoring on dev."""
    kind = "classify" if case == "sentences" else "answer"
    sizes = {"longest": LONGEST[case], "batch_size": BATCH_SIZES[case]}
    return fine_tune(kind, folder, device, **sizes)


def fine_tune(kind: str, folder: Path, device: str, *, longest: int, batch_size: int) -> Timed:
    """Fine-tune the model of a folder on its examples."""
    from bertworks.core.artifact import Origin
    from bertworks.core.device import prepare
    from bertworks.core.progress import mute
    from bertworks.core.quarantine import Quarantine
    from bertworks.data.example_batches import ExampleBatches
    from bertworks.data.rows import read_examples
    from bertworks.serving.model_folder import open_model
    from bertworks.tasks.answering import windows_of
    from bertworks.tasks.catalog import KINDS, learn_task
    from bertworks.training.loop import train
    from bertworks.training.plan import TrainingPlan
    from bertworks.training.run import Run
    from bertworks.training.schedule import Schedule

    mute()
    machine = prepare(device)
    examples = read_examples(folder / "train.jsonl", Quarantine(), form=KINDS[kind].form)
    task = learn_task(kind, examples)
    opened = open_model(folder / "model", tasks=[task])

    def make() -> ExampleBatches:
        windows = windows_of(task, examples, opened.tokenizer, longest=longest)
        return ExampleBatches(windows, batch_size=batch_size)

    def run(batches: ExampleBatches, steps: int) -> None:
        plan = TrainingPlan(steps=steps, lr=LR, schedule=Schedule(warmup=0.1 * steps))
        with tempfile.TemporaryDirectory() as place:
            running = Run(Path(place) / "run", origin=Origin(), resume=False)
            train(opened.model, batches, plan, run=running, machine=machine)

    return timed(len(examples), make, run, device, steps=lambda made: made.steps_per_epoch)


# Theirs


def run_transformers(case: str, folder: Path, device: str) -> Timed:
    """Fine-tune by the Trainer, or by the loop that it runs."""
    import transformers
    from transformers import AutoTokenizer, DataCollatorWithPadding

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    with (folder / "train.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    kind = "SequenceClassification" if case == "sentences" else "QuestionAnswering"
    model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder / "model")
    collate = DataCollatorWithPadding(tokenizer)
    peer = Peer(model.to(device).train(), collate, BATCH_SIZES[case], LR, device)
    run = run_trainer if has_accelerate() else run_loop

    def make() -> list[Row]:
        if case == "questions":
            return encode_questions(rows, tokenizer, longest=LONGEST[case])
        features = encode_texts(rows, tokenizer, longest=LONGEST[case])
        labels = (int(row["label"]) for row in rows)
        return [{**each, "labels": label} for each, label in zip(features, labels, strict=True)]

    return timed(
        len(rows),
        make,
        lambda features, steps: run(peer, features, steps=steps),
        device,
        steps=lambda features: -(-len(features) // peer.batch_size),
    )


# Both


def timed(
    count: int,
    make: Callable[[], Any],
    run: Callable[[Any, int], None],
    device: str,
    *,
    steps: Callable[[Any], int],
) -> Timed:
    """Return the examples per second of making features, of an epoch of steps, and of both."""
    run(make(), WARM_STEPS)  # kernels are compiled, caches filled
    started = time.perf_counter()
    made = make()
    prepared = time.perf_counter()
    run(made, steps(made))
    if device == "cuda":
        torch.cuda.synchronize()
    ended = time.perf_counter()
    return {
        "prepare": count / (prepared - started),
        "train": count / (ended - prepared),
        "whole": count / (ended - started),
    }


SIDES = {"bertworks": run_bertworks, "transformers": run_transformers}

if __name__ == "__main__":
    main()
