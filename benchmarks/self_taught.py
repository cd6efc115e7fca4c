"""A small Transformer that also learns from what others of its kind made of the same sources.

    python benchmarks/self_taught.py FOLDER --out OUT --at-once
    python benchmarks/self_taught.py FOLDER --out OUT --batch-size 128 --lr 2e-3 --warmup 0.1

FOLDER holds a parallel corpus, as Multi30k: train.en, train.de, val.en and so on. Teachers learn
from it with other seeds and translate all its sources again by beams of five; a student learns from
the corpus and from these (data diversification, Nguyen et al. 2020, arXiv 1911.01986, forward
only). No other text is used. Printed are the minutes of all the work, and then BLEU on val and on
test of each. What is whole already under OUT is not made again, and its minutes are not counted.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PLAIN = ("--recipe", "translate", "--r-drop", 0, "--attention-dropout", 0, "--beta2", 0.98)
BEAMS = ("--beams", 5)
Words = Sequence[object]


def main() -> None:
    """Train teachers and a student, and print how well each translates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a parallel corpus: train.en, train.de, val.en")
    parser.add_argument("--out", type=Path, required=True, help="folder for all that is made")
    parser.add_argument("--pair", default="en-de", help="the language of sources and of targets")
    parser.add_argument("--test", default="test_2016_flickr", help="name of the test files")
    parser.add_argument("--size", default="transformer-tiny")
    parser.add_argument("--teachers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=30, help="of a teacher")
    parser.add_argument("--student-epochs", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--warmup", type=float, default=0.25, help="share of a run")
    parser.add_argument("--at-once", action="store_true", help="teachers beside each other")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    models = [*train_teachers(asked), train_student(asked)]
    minutes = (time.monotonic() - started) / 60
    print(
        f"{minutes:.1f} minutes for the vocabulary, the teachers, their texts and the student",
        flush=True,
    )
    print(f"{'model':14}{'val':>8}{asked.test:>20}")
    for model in models:
        scores = [score(model, asked, part) for part in ("val", asked.test)]
        print(f"{model.name:14}{scores[0]:8.1f}{scores[1]:20.1f}", flush=True)


def train_teachers(asked: argparse.Namespace) -> list[Path]:
    """Learn the vocabulary, and from the corpus with every seed."""
    languages = [asked.folder / f"train.{language}" for language in asked.pair.split("-")]
    words = ("learn-vocab", *languages, "--recipe", "translate", "--out", asked.out / "pieces")
    if not (asked.out / "pieces").exists():
        run([words])
    models = [asked.out / f"teacher-{seed}" for seed in range(asked.teachers)]
    train, epochs = asked.folder / f"train.{asked.pair}", asked.epochs
    commands = [
        [*learning(asked, train, epochs=epochs, last=8), "--seed", seed, "--out", model]
        for seed, model in enumerate(models)
    ]
    run(commands, at_once=asked.at_once)
    how = ("--data", languages[0], "--with-inputs", *BEAMS, "--resume", "auto")
    run(
        [["predict", "--model", model, *how, "--out", taught(model)] for model in models],
        at_once=asked.at_once,
    )
    return models


def train_student(asked: argparse.Namespace) -> Path:
    """Learn from the corpus and from all that teachers made of it, each pair once."""
    files = [asked.folder / f"train.{language}" for language in asked.pair.split("-")]
    pairs = dict.fromkeys(zip(*map(read_lines, files), strict=True))
    for seed in range(asked.teachers):
        with taught(asked.out / f"teacher-{seed}").open(encoding="utf-8") as lines:
            pairs |= dict.fromkeys((row["source"], row["text"]) for row in map(json.loads, lines))
    both = asked.out / "both.jsonl"
    with both.open("w", encoding="utf-8") as file:
        for source, target in pairs:
            file.write(json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n")
    print(f"{len(pairs):,} pairs", flush=True)
    model = asked.out / "student"
    run([[*learning(asked, both, epochs=asked.student_epochs, last=5), "--out", model]])
    return model


def read_lines(file: Path) -> list[str]:
    """Read the lines of one language."""
    return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def learning(asked: argparse.Namespace, train: Path, *, epochs: int, last: int) -> list[object]:
    """Return the words of a fine-tuning, but for its place."""
    return [
        *("finetune", *PLAIN, "--model", asked.out / "pieces", "--size", asked.size),
        *("--train", train, "--dev", asked.folder / f"val.{asked.pair}", "--epochs", epochs),
        *("--average-last", last, "--batch-size", asked.batch_size, "--lr", asked.lr),
        *("--warmup", asked.warmup, "--resume", "auto"),
    ]


def taught(model: Path) -> Path:
    """Return the file of what a teacher made of the sources."""
    return model.with_suffix(".jsonl")


def score(model: Path, asked: argparse.Namespace, part: str) -> float:
    """Return BLEU in percent."""
    report = asked.out / f"{model.name}-{part}"
    data = asked.folder / f"{part}.{asked.pair}"
    if not report.exists():
        run([["evaluate", "--model", model, "--data", data, *BEAMS, "--out", report]])
    return 100 * json.loads((report / "scores.json").read_text(encoding="utf-8"))["bleu"]


def run(commands: Sequence[Words], *, at_once: bool = False) -> None:
    """Run bertworks commands one after the other, or beside each other; a failure ends all."""
    waves = [commands] if at_once else [[words] for words in commands]
    for wave in waves:
        called = [[sys.executable, "-m", "bertworks", *map(str, words)] for words in wave]
        children = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for words in called]
        codes = [child.wait() for child in children]
        if any(codes):
            sys.exit(1)


if __name__ == "__main__":
    main()
