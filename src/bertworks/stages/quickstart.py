"""quickstart: the whole life of a small BERT on text that every Python carries.

Each part is a command of its own, run as a user would run it; this stage only makes the text,
strings the commands together and tells what came out.
"""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.core.artifact import MANIFEST, read_object, refuse_existing
from bertworks.core.errors import BertworksError, UsageError
from bertworks.core.progress import say
from bertworks.core.settings import as_json
from bertworks.core.shipped import shipped_models, shown
from bertworks.corpus.python_docs import read_topics
from bertworks.data.examples import TextExample
from bertworks.data.topic_pairs import make_pairs, split_names
from bertworks.evaluation.baselines import scikit_learn, tfidf_match
from bertworks.evaluation.bootstrap import mean_interval, paired_difference
from bertworks.evaluation.report import Page
from bertworks.evaluation.statistics import Interval
from bertworks.serving.predictor import load
from bertworks.stages.settings import QuickstartSettings
from bertworks.training.log import read_log

SHARES = {"train": 0.7, "dev": 0.1, "test": 0.2}
NUM_PAIRS = {"train": 4800, "dev": 600, "test": 2000}
MASKED = "If the file does not exist, an exception is [MASK]."
COMMAND = "bertworks.cli.child"  # in a process that does not outlive this one
STANDARD_ERROR = 2  # the file, not whatever stands in sys.stderr
SHIPPED = "bertworks-en-mini"  # small enough for minutes on a laptop
# A model that is given may be large: it learns from few pairs, once.
FEW = 1200
# Two vectors: read together, so few pairs taught the small encoder nothing.
SHORTLY = ("--task", "embed", "--epochs", "2", "--batch-size", "16", "--lr", "2e-4")


@dataclass(frozen=True)
class System:
    """A model that is fine-tuned on the pairs: what it is called, and the words that make it."""

    title: str
    words: tuple[str | Path, ...]


def run(settings: QuickstartSettings) -> dict[str, Any]:
    """Learn a vocabulary, pre-train, fine-tune with and without pre-training, compare, report.

    A model that is given, or came with the package, is fine-tuned on some of the pairs, too.
    """
    scikit_learn("linear_model")  # before the work, not after it
    if settings.model is not None:
        load(settings.model)  # likewise
    started = time.monotonic()
    out = settings.out
    _claim(settings)
    pairs = _write_text(out, settings.seed)
    systems = _systems(settings)
    _commands(settings, systems)
    correct = {name: _correct(out / f"{name}-report") for name in systems}
    labels = tfidf_match(pairs["train"], pairs["test"])
    gold = [pair.label for pair in pairs["test"]]
    correct["tfidf"] = np.array([a == b for a, b in zip(labels, gold, strict=True)])
    gain = paired_difference(correct["pretrained"], correct["untrained"])
    candidates = load(out / "pretrained").fill_mask(MASKED)
    two = pairs["test"][:2]
    answers = load(out / "pretrained-match").answer_examples(two)
    scores = {name: mean_interval(values) for name, values in correct.items()}
    page = _page(out, systems, scores, gain)
    _show_answers(page, candidates, two, answers)
    (out / "report.html").write_text(page.html(), encoding="utf-8")
    return {
        "report": str(out / "report.html"),
        **{f"accuracy_{name}": score.mean for name, score in scores.items()},
        "gain_of_pretraining": gain.mean,
        "gain_low": gain.low,
        "gain_high": gain.high,
        "fill_mask": f"{MASKED} -> {', '.join(c.token for c in candidates)}",
        "seconds": time.monotonic() - started,
    }


def _claim(settings: QuickstartSettings) -> None:
    """Take a free folder, or go on in one that was begun with the same settings."""
    mark = settings.out / "quickstart.json"
    wanted = {key: value for key, value in as_json(settings).items() if key != "out"}
    if not mark.is_file():
        refuse_existing(settings.out)
        settings.out.mkdir(parents=True, exist_ok=True)
        mark.write_text(json.dumps(wanted), encoding="utf-8")
    begun = read_object(mark)
    if {"model": None, **begun} != wanted:  # earlier versions knew no --model
        raise UsageError(
            f"{settings.out} was begun with {json.dumps(begun)}, now {json.dumps(wanted)}; choose "
            "another --out"
        )


def _write_text(out: Path, seed: int) -> dict[str, list[TextExample]]:
    """Write the corpus and the pairs; a topic lies in one part only."""
    say("gathering the documentation that this Python carries")
    topics = {topic.name: topic.paragraphs for topic in read_topics()}
    parts = split_names(list(topics), SHARES)
    rows = [{"text": "\n".join(topics[name])} for name in parts["train"]]
    _write_lines(out / "corpus.jsonl", rows)
    pairs, keys = {}, ("text", "text_b", "label")
    for part, count in NUM_PAIRS.items():
        pairs[part] = make_pairs(
            {name: topics[name] for name in parts[part]}, count=count, seed=seed
        )
        rows = [{key: getattr(pair, key) for key in keys} for pair in pairs[part]]
        _write_lines(out / f"{part}.jsonl", rows)
        if part == "train":
            _write_lines(out / "few.jsonl", rows[:FEW])
    return pairs


def _systems(settings: QuickstartSettings) -> dict[str, System]:
    """Return what is fine-tuned, by the names of its folders."""
    out = settings.out
    epochs = [] if settings.epochs is None else ["--epochs", str(settings.epochs)]
    pairs = ("--train", out / "train.jsonl", "--recipe", "quickstart")
    own: tuple[str | Path, ...] = ("--model", out / "pretrained", *pairs, *epochs)
    found = {
        "pretrained": System("pre-trained BERT", own),
        "untrained": System("same network, no pre-training", (*own, "--fresh")),
    }
    given = settings.model or shipped_models().get(SHIPPED)
    if given is not None:
        few = ("--model", shown(given), "--train", out / "few.jsonl", *SHORTLY)
        found["given"] = System(f"vectors of {shown(given)}, tuned on {FEW:,} of the pairs", few)
    return found


def _commands(settings: QuickstartSettings, systems: Mapping[str, System]) -> None:
    out = settings.out
    tokenizer, shards, model = (out / name for name in ("tokenizer", "shards", "pretrained"))
    common = ["--recipe", "quickstart"]
    seed = ["--seed", str(settings.seed), "--resume", "auto"]
    steps = [] if settings.steps is None else ["--steps", str(settings.steps)]
    _run(tokenizer, "learn-vocab", out / "corpus.jsonl", "--out", tokenizer, *common)
    _run(
        shards, "tokenize", out / "corpus.jsonl", "--tokenizer", tokenizer, "--out", shards, *common
    )
    _run(model, "pretrain", shards, "--out", model, *common, *seed, *steps)
    for name, system in systems.items():
        tuned, report = out / f"{name}-match", out / f"{name}-report"
        dev = ("--dev", out / "dev.jsonl")
        _run(tuned, "finetune", *system.words, *dev, "--out", tuned, *seed)
        _run(report, "evaluate", "--model", tuned, "--data", out / "test.jsonl", "--out", report)


def _run(made: Path, *words: str | Path) -> None:
    """Run one command unless what it makes is there already."""
    say(f"\n$ bertworks {shlex.join(map(str, words))}")
    if (made / MANIFEST).exists():
        say(f"{made} is there already")
        return
    # Standard output is kept for the result of the whole.
    command = [sys.executable, "-m", COMMAND, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=STANDARD_ERROR) as process:
        process.wait()  # before its input is closed, which would end it
    if process.returncode:
        raise BertworksError(f"bertworks {words[0]} failed; see the message above")


def _correct(report: Path) -> np.ndarray:
    lines = (report / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return np.array([row["label"] == row["gold"] for row in rows])


def _page(
    out: Path, systems: Mapping[str, System], scores: dict[str, Interval], gain: Interval
) -> Page:
    page = Page("bertworks quickstart")
    page.text(
        "A BERT was pre-trained from nothing on the documentation that this Python carries, then "
        "fine-tuned to tell whether two passages belong to the same topic. The topics of the test "
        "pairs were never seen, neither in pre-training nor in fine-tuning."
    )
    page.heading("Accuracy on unseen topics")
    titles = {name: system.title for name, system in systems.items()}
    titles["tfidf"] = "TF-IDF cosine with a threshold"
    rows = [
        (titles[name], f"{s.mean:.1%}", f"{s.low:.1%} to {s.high:.1%}")
        for name, s in scores.items()
    ]
    page.table(("system", "accuracy", "95 % interval"), rows)
    page.text(
        f"Pre-training adds {gain.mean * 100:.1f} points "
        f"(95 % interval of the paired difference: {gain.low * 100:.1f} to {gain.high * 100:.1f})."
    )
    page.heading("Learning curves")
    log = read_log(out / "pretrained")
    page.curves(
        "Pre-training loss",
        {
            "masked words": _smooth([(r["step"], r["fill_mask"]) for r in log if "fill_mask" in r]),
            "held-out masked words": _evaluations(log, "fill_mask_loss"),
        },
    )
    page.curves(
        "Next-sentence accuracy on held-out documents",
        {
            "next sentence": _evaluations(log, "next_sentence_accuracy"),
        },
    )
    page.curves(
        "Fine-tuning: accuracy on dev",
        {
            system.title: _evaluations(read_log(out / f"{name}-match"), "accuracy")
            for name, system in systems.items()
        },
    )
    return page


def _show_answers(
    page: Page, candidates: list[Any], pairs: list[TextExample], answers: list[Any]
) -> None:
    page.heading("Fill a mask")
    page.text(MASKED)
    page.table(("piece", "probability"), [(c.token, f"{c.probability:.1%}") for c in candidates])
    page.heading("Two pairs")
    for pair, answer in zip(pairs, answers, strict=True):
        page.table(("", "text"), [("first", pair.text), ("second", str(pair.text_b))])
        page.text(f"Answer: {answer['label']} ({answer['probability']:.1%}); gold: {pair.label}.")


def _evaluations(log: Sequence[dict[str, Any]], metric: str) -> list[tuple[float, float]]:
    return [(row["step"], row["evaluation"][metric]) for row in log if "evaluation" in row]


def _smooth(points: list[tuple[float, float]], *, width: int = 20) -> list[tuple[float, float]]:
    """Average neighbours, so that the course of a noisy curve can be seen."""
    groups = [points[i : i + width] for i in range(0, len(points), width)]
    return [tuple(np.mean(group, axis=0)) for group in groups]


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
