"""Attention, convolution, recurrence and a bag of vectors at equal parameters: accuracy and speed.

    python benchmarks/mixers.py FOLDER [--size 2x128] [--recipe mixers] [--mixers mean ...]

FOLDER holds corpus.jsonl (text) and train.jsonl, dev.jsonl, test.jsonl (text [text_b] label), as a
folder made by `bertworks quickstart` does. For every mixer the commands of the recipe `mixers` run
as a user would run them: one vocabulary, one corpus, the same batches, steps and fine-tuning; only
the mixer differs, and the width of the feed-forward makes up for what it weighs.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.core.quarantine import Quarantine
from bertworks.data.rows import read_examples
from bertworks.evaluation.bootstrap import mean_interval
from bertworks.serving.predictor import load

STYLES = {
    "attention": "",
    "convolution": "convolution-",
    "recurrent": "recurrent-",
    "mean": "mean-",
}


def main() -> None:
    """Train every mixer and print the table."""
    chosen = parse()
    out = chosen.folder / "mixers"
    out.mkdir(exist_ok=True)
    corpus, recipe = chosen.folder / "corpus.jsonl", ["--recipe", chosen.recipe]
    run(out / "tokenizer", "learn-vocab", corpus, *recipe)
    run(out / "shards", "tokenize", corpus, "--tokenizer", out / "tokenizer", *recipe)
    print("mixer        parameters  held-out loss  accuracy             train tokens/s  texts/s")
    for name in chosen.mixers:
        row = measure(name, STYLES[name] + chosen.size, chosen)
        print(
            f"{name:12} {row['parameters']:10,} {row['loss']:14.3f}  {row['accuracy']:20} "
            f"{row['tokens_per_second']:14,.0f} {row['texts_per_second']:8,.0f}",
            flush=True,
        )


def measure(name: str, size: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Pre-train, fine-tune and score one mixer."""
    folder, recipe = chosen.folder, ["--recipe", chosen.recipe]
    out = folder / "mixers"
    model, tuned, report = (out / f"{name}{part}" for part in ("", "-tuned", "-report"))
    run(model, "pretrain", out / "shards", "--size", size, *recipe)
    data = ["--train", folder / "train.jsonl", "--dev", folder / "dev.jsonl"]
    run(tuned, "finetune", "--model", model, *data, *recipe)
    test = folder / "test.jsonl"
    run(report, "evaluate", "--model", tuned, "--data", test)
    rows = (report / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    correct = np.array([row["label"] == row["gold"] for row in map(json.loads, rows)])
    interval = mean_interval(correct)
    predictor = load(tuned)
    examples = read_examples(test, Quarantine())[:1000]
    predictor.answer_examples(examples[:50])
    started = time.perf_counter()
    predictor.answer_examples(examples)
    seconds = time.perf_counter() - started
    trained = json.loads((out / f"{name}.json").read_text())
    batch_tokens = json.loads((model / "manifest.json").read_text())["settings"]["batch_tokens"]
    return {
        "parameters": sum(parameter.numel() for parameter in predictor.model.encoder.parameters()),
        "loss": trained["fill_mask_loss"],
        "accuracy": f"{interval.mean:.1%} [{interval.low:.1%}, {interval.high:.1%}]",
        "tokens_per_second": trained["steps"] * batch_tokens / trained["seconds"],
        "texts_per_second": len(examples) / seconds,
    }


def run(made: Path, command: str, *given: str | Path) -> None:
    """Run one command unless what it makes is there already; what it says is kept beside it."""
    if (made / "manifest.json").exists():
        return
    words = [command, *map(str, given), "--out", str(made), "--json"]
    print(f"$ bertworks {' '.join(words)}", file=sys.stderr)
    called = [sys.executable, "-m", "bertworks", *words]
    said = subprocess.run(called, check=True, stdout=subprocess.PIPE, text=True).stdout
    made.with_name(f"{made.name}.json").write_text(said)


def parse() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="2x128", help="LAYERSxWIDTH of every network")
    parser.add_argument("--recipe", default="mixers", help="recipe by name or .toml file")
    parser.add_argument("--mixers", nargs="+", default=list(STYLES), choices=STYLES)
    return parser.parse_args()


if __name__ == "__main__":
    main()
