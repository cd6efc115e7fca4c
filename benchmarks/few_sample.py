"""Fine-tuning on few examples: plain, each ingredient of stability alone, and our default.

    python benchmarks/few_sample.py --model minilm --data ../shared/data --out few.json
    python benchmarks/few_sample.py --model minilm --sets rte --recipes plain default --seeds 10

RTE, MRPC, STS-B and CoLA are cut to so many training examples, the same for all, and scored on the
whole official dev set with the weights of the last step: nothing is chosen on dev, so that a recipe
with more epochs has no more chances than another. `plain` is three epochs at a rate of 5e-5 without
bias correction, as BERT's own code has it; an ingredient is plain with that one thing changed;
`default` is what `bertworks finetune` does with so few examples. A run has collapsed when one and
the same answer for all scores as much. `p` is that of a paired t-test over the seeds against plain.
Every run is written to --out at once, and a later call goes on with those that are missing.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bertworks.core.artifact import Origin
from bertworks.core.device import Machine, prepare
from bertworks.core.errors import InterruptedRunError, TrainingError
from bertworks.core.progress import mute
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import make_settings, read_values
from bertworks.data.example_batches import ExampleBatches
from bertworks.data.example_rows import row_of
from bertworks.data.packing import Features
from bertworks.evaluation.dev_scores import DevScores, DevSet
from bertworks.evaluation.floors import SeedScores, majority_metrics
from bertworks.evaluation.suite_data import gather, sample, write_at_once
from bertworks.evaluation.suites import GLUE
from bertworks.model.config import Dropout
from bertworks.serving.model_folder import open_model
from bertworks.stages.finetune_plan import plan_of
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.answering import windows_of
from bertworks.tasks.catalog import KINDS, learn_task
from bertworks.tasks.task import Task
from bertworks.training.loop import train
from bertworks.training.run import Run

SETS = ("rte", "mrpc", "stsb", "cola")
LARGE_SETS = ("sst2", "qnli")  # for a comparison on all examples
PLAIN = {"reinit": 0, "lr": 5e-5}
# What is changed of plain; default begins with nothing.
RECIPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bias correction": {"bias_correction": True},
    "longer": {"epochs": 20},
    "longer, corrected": {"epochs": 20, "bias_correction": True},
    "reinit": {"reinit": 1},
    "layer decay": {"layer_decay": 0.9},
    "toward pretrained": {"decay_toward": "pretrained", "weight_decay": 0.1},
    "mixout": {"mixout": 0.5},
    "parameter dropout": {"parameter_dropout": 0.1},
    "dropout 0.2": {"dropout": 0.2},
    "r-drop": {"r_drop": 1.0},
    "fgm": {"adversary": "fgm"},
    "pgd": {"adversary": "pgd"},
    "freelb": {"adversary": "freelb"},
    "average": {"average": 0.98},
    "average last": {"average_last": 2},
    "smoothing": {"label_smoothing": "0.1..0"},
    "lora": {"lora": 8, "lora_on": "all", "lr": 5e-4},
    "class weights": {"class_weights": "balanced"},
    "default": {},
}
OF_CLASSES = {"class weights", "smoothing"}


def main() -> None:
    """Run what is missing, and print all that is known."""
    asked = parse()
    mute()
    machine = prepare(asked.device, threads=asked.threads)
    found = json.loads(asked.out.read_text()) if asked.out.is_file() else {}
    where = {name: getattr(asked, name) for name in ("examples", "lr", "epochs", "corrected")}
    where["model"] = asked.model.name
    if found and {name: found.get(name) for name in where} != where:
        sys.exit(f"{asked.out} is of another model or other flags; give another --out")
    found = {"runs": {}, **found, **where}
    for name in asked.sets:
        try:
            for recipe, seed, score in run_set(name, asked, machine, found["runs"]):
                found["runs"][key(name, recipe, seed)] = score
                write_at_once(asked.out, json.dumps(found, indent=1))
                print(f"{name:6}{recipe:22}seed {seed:<4}{100 * score['score']:8.2f}", flush=True)
        except InterruptedRunError:
            print("stopped; the same command goes on with what is missing")
            break
    print(f"\n{asked.model.name}, {asked.examples} examples, {machine.device.type}")
    for name in asked.sets:
        report(name, found["runs"], asked)


def parse() -> argparse.Namespace:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="folder of an encoder")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("few_sample.json"))
    parser.add_argument("--sets", nargs="*", choices=SETS + LARGE_SETS, default=SETS)
    parser.add_argument("--recipes", nargs="*", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=1000, help="0 takes all")
    parser.add_argument(
        "--lr", type=float, help="of plain and default; by default BERT's, finetune's"
    )
    parser.add_argument("--epochs", type=int, default=3, help="of plain, if a recipe has no own")
    parser.add_argument("--corrected", action="store_true", help="plain has bias correction too")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


def key(name: str, recipe: str, seed: int) -> str:
    """Return the name of a run in the file."""
    return f"{name} / {recipe} / {seed}"


def run_set(
    name: str, asked: argparse.Namespace, machine: Machine, done: Mapping[str, Any]
) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Fine-tune what is missing of a set, seed by seed, and yield each score."""
    missing = [
        (recipe, seed)
        for seed in range(asked.seeds)
        for recipe in asked.recipes
        if key(name, recipe, seed) not in done
        if recipe not in OF_CLASSES or name != "stsb"  # numbers have no classes
    ]
    if not missing:
        return
    data = Data.read(name, asked)
    for recipe, seed in missing:
        yield recipe, seed, fine_tune(data, recipe, seed, machine, asked)


@dataclass(frozen=True)
class Lesson:
    """A task, and its training examples as the network reads them."""

    task: Task
    windows: list[list[Features]]


@dataclass(frozen=True)
class Data:
    """One set as it is trained and scored on; its texts are cut once for all runs."""

    model: Path
    metric: str
    plain: Lesson
    balanced: Lesson | None  # the same with class weights
    dev: DevSet

    @classmethod
    def read(cls, name: str, asked: argparse.Namespace) -> "Data":
        """Read a set and cut its training part."""
        suite = GLUE[name]
        assert suite.kind is not None
        form = KINDS[suite.kind].form
        parts = gather(suite, form, data=asked.data, quarantine=Quarantine())
        by_line = {json.dumps(row_of(e, form=form), ensure_ascii=False): e for e in parts["train"]}
        examples = [by_line[line] for line in sample(list(by_line), asked.examples or None)]
        opened = open_model(asked.model, tasks=[])
        longest = opened.model.config.max_positions

        def learn(**settings: Any) -> Lesson:
            task = learn_task(suite.kind or "", examples, **settings)
            return Lesson(task, windows_of(task, examples, opened.tokenizer, longest=longest))

        plain, balanced = learn(), None
        if "class_weights" in KINDS[suite.kind].settings:
            balanced = learn(class_weights="balanced")
        windows = windows_of(plain.task, parts["dev"], opened.tokenizer, longest=longest)
        dev = DevSet(parts["dev"], windows)
        return cls(asked.model, suite.metrics[0].name, plain, balanced, dev)


def fine_tune(
    data: Data, recipe: str, seed: int, machine: Machine, asked: argparse.Namespace
) -> dict[str, float]:
    """Fine-tune once and score the last weights on dev."""
    settings = settings_of(recipe, seed, asked)
    lesson = data.balanced if settings.of_task.class_weights and data.balanced else data.plain
    task = lesson.task
    dropout = Dropout(**vars(settings.dropping))
    opened = open_model(data.model, tasks=[task], dropout=dropout, seed=seed)
    batches = ExampleBatches(lesson.windows, batch_size=settings.batch_size, seed=seed)
    plan = plan_of(
        settings,
        opened,
        {task.name: 1.0},
        num_examples=len(lesson.windows),
        steps_per_epoch=batches.steps_per_epoch,
    )
    scores = DevScores(
        opened.model, opened.tokenizer, {task.name: data.dev}, machine=machine,
        choose_by=data.metric,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run", origin=Origin(), resume=False)
        try:
            train(opened.model, batches, plan, run=run, machine=machine)
            score = scores.score().score
        except TrainingError as error:  # its weights came apart
            print(f"{recipe}, seed {seed}: {error}", file=sys.stderr)
            score = float("nan")
    floor = majority_metrics(task, data.dev, opened.tokenizer)[data.metric]
    if machine.device.type == "cuda":
        torch.cuda.empty_cache()
    return {"score": float("nan") if score is None else score, "floor": floor}


def settings_of(recipe: str, seed: int, asked: argparse.Namespace) -> FinetuneSettings:
    """Return the flags of finetune that a recipe stands for."""
    files = {"model": str(asked.model), "train": "train", "dev": "dev", "out": "out", "seed": seed}
    rate = {} if asked.lr is None else {"lr": asked.lr}
    plain = {**PLAIN, "epochs": asked.epochs, "bias_correction": asked.corrected}
    plain = {} if recipe == "default" else plain
    chosen = {**files, **plain, **rate, **RECIPES[recipe]}
    values = read_values(FinetuneSettings, chosen, where=recipe)
    return make_settings(FinetuneSettings, values, command="finetune")


def report(name: str, runs: Mapping[str, Any], asked: argparse.Namespace) -> None:
    """Print what is known of a set, each recipe beside plain on the seeds that both have."""
    print(f"\n{name} ({GLUE[name].metrics[0].name}, percent)")
    print(
        f"{'recipe':22}{'seeds':>6}{'mean':>8}{'deviation':>11}{'collapsed':>11}{'gain':>8}{'p':>8}"
    )
    table = {
        recipe: {
            seed: runs[key(name, recipe, seed)]
            for seed in range(asked.seeds)
            if key(name, recipe, seed) in runs
        }
        for recipe in asked.recipes
    }
    plain = table.get("plain", {})
    for recipe, found in table.items():
        if not found:
            continue
        floor = next(iter(found.values()))["floor"]
        scores = SeedScores({seed: 100 * one["score"] for seed, one in found.items()}, 100 * floor)
        both = [seed for seed in found if seed in plain and recipe != "plain"]
        gain, chance = compare([found[s]["score"] for s in both], [plain[s]["score"] for s in both])
        print(
            f"{recipe:22}{len(found):>6}{scores.mean:>8.2f}{scores.deviation:>11.2f}"
            f"{len(scores.collapsed):>11}{gain:>8}{chance:>8}"
        )


def compare(ours: list[float], plain: list[float]) -> tuple[str, str]:
    """Return the mean gain over plain in points, and the chance of one as large by luck."""
    from scipy.stats import ttest_rel

    if not ours:
        return "", ""
    gains = [a - b for a, b in zip(ours, plain, strict=True)]
    gain = f"{100 * sum(gains) / len(gains):+.2f}"
    if len(gains) < 2 or max(gains) == min(gains):
        return gain, ""
    return gain, f"{ttest_rel(ours, plain).pvalue:.3f}"


if __name__ == "__main__":
    main()
