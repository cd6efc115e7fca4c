"""An encoder of our own, from its text to its card: every command, in the order in which they run.

    python benchmarks/own_encoder.py en --corpus CORPUS --public SETS --out OUT
    python benchmarks/own_encoder.py en --corpus CORPUS --out OUT --until shards
    python benchmarks/own_encoder.py en-mini --corpus CORPUS --public SETS --out OUT
    python benchmarks/own_encoder.py zh --corpus CORPUS --public SETS --out OUT --rehearse
    python benchmarks/own_encoder.py zh --out OUT --print

CORPUS holds the folders en-wiki and en-books, or zh-wiki; SETS holds the public sets where
`bertworks evaluate --suite` looks for them. What is whole under OUT is not made again, and what was
cut off goes on; what is only needed for something that is whole may be missing. So the steps may
run on several machines: `shards` is all that goes to the one that has a GPU, and `run` all that
must be made there. With --rehearse all networks and their lessons are tiny: the scores mean
nothing, but every command has run.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertworks.core.lines import read_lines
from bertworks.core.quarantine import Quarantine
from bertworks.data.example_rows import row_of
from bertworks.evaluation.suite_data import find_file, gather, write_at_once
from bertworks.evaluation.suites import GLUE

Words = tuple[object, ...]
NOTES = Path(__file__).parent / "notes"
KINDS = "kinds.toml"
TINY_NETWORK: Words = (
    *("--size", "modern-2x64", "--steps", 40, "--batch-tokens", 4096),
    *("--longest", 128, "--short-longest", 64, "--workers", 0),
)
FEW_EXAMPLES: Words = ("--limit", 64, "--epochs", 1, "--seeds", 2)
THIN: Words = ("--lora", 16, "--lora-on", "all", "--lr", 5e-4, "--batch-size", 256)
DROPPED: Words = ("dropout=0.1",)
MEAN: Words = (*DROPPED, "pooling=mean")  # an hour teaches no first token to stand for a text
SHORT: Words = ("--epochs", 1, "--longest", 64)


@dataclass(frozen=True)
class Step:
    """One command: what it makes under OUT, and what must be there before."""

    words: Words
    needs: tuple[str, ...] = ()
    tiny: Words = ()  # said behind the words in a rehearsal
    marks: tuple[str, ...] = ("manifest.json",)  # what lies in its folder when it is whole


@dataclass(frozen=True)
class Suite:
    """Some tasks of a suite, and what its command is told besides."""

    name: str
    tasks: tuple[str, ...]
    words: Words = ()
    tuning: Words = DROPPED


@dataclass(frozen=True)
class Language:
    """What an encoder of one language learns from, and by what it is judged."""

    texts: tuple[str, ...]
    suites: Mapping[str, Suite]
    cleaning: Words = ()
    tokenizing: Words = ()
    computing: Words = ()  # where the network learns
    rate: float = 1e-4  # of fine-tuning; small networks want more
    learns_vectors: bool = True


ENGLISH = Language(
    texts=("en-wiki", "en-books"),
    suites={
        "glue": Suite("glue", ("cola", "sst2", "mrpc", "qnli")),
        "few": Suite("glue", ("stsb", "rte"), ("--epochs", 10)),
        "squad": Suite("squad", ("squad1",)),
    },
)
CHINESE = Language(
    texts=("zh-wiki",),
    cleaning=("--languages", "zh"),
    tokenizing=("--recipe", "encoder-zh"),  # which tells how words are found
    suites={"clue": Suite("clue", ("chnsenticorp", "afqmc", "cluener", "tnews"))},
    learns_vectors=False,
)
LANGUAGES = {
    "en": ENGLISH,
    "en-mini": replace(
        ENGLISH,
        suites={
            "small": Suite("glue", ("cola", "mrpc", "stsb", "rte"), ("--epochs", 4), MEAN),
            "large": Suite("glue", ("sst2", "qnli"), ("--epochs", 1, "--seeds", 1), MEAN),
        },
        computing=("--precision", "bf16"),
        rate=3e-4,
    ),
    "zh": CHINESE,
    "zh-mini": replace(
        CHINESE,
        tokenizing=(),
        suites={
            "cluener": Suite("clue", ("cluener",), ("--epochs", 3)),
            "chnsenticorp": Suite("clue", ("chnsenticorp",), ("--epochs", 3), MEAN),
            "large": Suite("clue", ("tnews", "afqmc"), ("--epochs", 2, "--seeds", 1), MEAN),
        },
        computing=("--precision", "bf16"),
        rate=3e-4,
    ),
}


def main() -> None:
    """Make what is asked for and all that it needs, or tell the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("language", choices=LANGUAGES)
    parser.add_argument("--corpus", type=Path, help="folder of the texts")
    parser.add_argument("--public", type=Path, help="folder of the public sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for all that is made")
    parser.add_argument("--until", help="what to make with all that it needs; by default all")
    parser.add_argument("--at-once", type=int, default=1, help="fine-tunings side by side")
    parser.add_argument("--seeds", type=int, default=3, help="of a suite's tasks, but large ones")
    parser.add_argument("--rehearse", action="store_true", help="with tiny networks and few rows")
    parser.add_argument("--print", action="store_true", help="tell the commands, run none")
    asked = parser.parse_args()
    steps = steps_of(asked.language, asked)
    if asked.until is not None and asked.until not in steps:
        parser.error(f"--until {asked.until}: choose from {', '.join(steps)}")
    if asked.print:
        for name, step in steps.items():
            print(f"bertworks {shlex.join(map(str, called(name, step, asked)))}")
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    claim(asked.out / "encoder.txt", asked.language)
    point(asked.out / "corpus", asked.corpus)
    point(asked.out / "public", asked.public)
    for name in [asked.until] if asked.until else list(steps):
        make(name, steps, asked)


def steps_of(language: str, asked: argparse.Namespace) -> dict[str, Step]:
    """Return all steps by the name of what they make, in their order."""
    chosen, encoder, recipe = LANGUAGES[language], f"bertworks-{language}", f"encoder-{language}"
    texts = [f"corpus/{name}" for name in chosen.texts]
    by_recipe, quietly = ("--recipe", recipe), ("--resume", "auto")
    learning = (*by_recipe, *chosen.computing, *quietly)
    rounded = ("--to", "bertworks", "--precision", "int8")
    steps = {
        "documents": Step(("clean", *texts, *chosen.cleaning)),
        "tokenizer": Step(
            ("learn-vocab", "documents", *by_recipe), ("documents",), tiny=("--size", 6000)
        ),
        "shards": Step(
            ("tokenize", "documents", "--tokenizer", "tokenizer", *chosen.tokenizing),
            ("tokenizer",),
        ),
        "run": Step(("pretrain", "shards", *learning), ("shards",), tiny=TINY_NETWORK),
        encoder: Step(("export", "--model", "run", *rounded), ("run",)),
    }
    scoring = ("--seeds", asked.seeds, "--at-once", asked.at_once, *chosen.computing, *quietly)
    tuning = ("--lr", chosen.rate, *scoring)
    for name, suite in chosen.suites.items():
        sets = ("evaluate", "--suite", suite.name, "--data", "public", "--model", encoder)
        told = ("--finetune", *suite.tuning)
        words = (*sets, "--only", *suite.tasks, *told, *tuning, *suite.words)
        marks = tuple(f"{task}/result.json" for task in suite.tasks)
        steps[name] = Step(words, (encoder,), FEW_EXAMPLES, marks)
    if chosen.learns_vectors:
        steps |= vector_steps(encoder, chosen.computing)
    return steps | card_steps(encoder, tuple(chosen.suites), steps)


def vector_steps(encoder: str, computing: Words) -> dict[str, Step]:
    """Return what makes vectors of an encoder: sentences alone first, then pairs of three kinds."""
    pairs, beside = f"{encoder}-embed", ("--to", "bertworks", "--base", encoder)
    alone = ("--task", "embed", "--train", "alone/pairs.jsonl", "--dev", "lessons/sts-dev.jsonl")
    few = ("--per-document", 1)
    learning = (*THIN, *SHORT, *computing, "--resume", "auto")
    simcse = ("finetune", "--recipe", "simcse", "--model", encoder, *alone, "--pooling", "mean")
    kinds = ("finetune", "--model", "simcse", "--tasks", f"lessons/{KINDS}")
    return {
        "alone": Step(
            ("pairs", "documents", "--kind", "sentences", "--per-document", 8), ("documents",), few
        ),
        "neighbours": Step(("pairs", "documents", "--per-document", 8), ("documents",), few),
        "simcse": Step((*simcse, *learning), (encoder, "alone", "lessons")),
        "vectors": Step((*kinds, *learning), ("simcse", "neighbours", "lessons")),
        pairs: Step(("export", "--model", "vectors", *beside), ("vectors",)),
        "sts": Step(("evaluate", "--model", pairs, "--data", "lessons/sts-dev.jsonl"), (pairs,)),
    }


def card_steps(encoder: str, suites: tuple[str, ...], steps: Mapping[str, Step]) -> dict[str, Step]:
    """Return what writes the cards of what ships."""
    about = {encoder: ("run", suites), f"{encoder}-embed": ("vectors", ("sts",))}
    cards = {}
    for name in (one for one in about if one in steps):
        run, scores = about[name]
        words = ("card", "--model", name, "--run", run, "--notes", NOTES / f"{name}.toml")
        cards[f"{name}/README.md"] = Step((*words, "--scores", *scores), (name, *scores))
    return cards


def make(name: str, steps: Mapping[str, Step], asked: argparse.Namespace) -> None:
    """Make one thing unless it is whole, and before it what it needs."""
    made = asked.out / name
    if name == "lessons":
        write_lessons(made, asked.out / "public")
        return
    step = steps[name]
    if made.is_file() or all((made / mark).is_file() for mark in step.marks):
        return
    for need in step.needs:
        make(need, steps, asked)
    words = called(name, step, asked)
    print(f"\n$ bertworks {shlex.join(map(str, words))}", flush=True)
    started = time.monotonic()
    # In OUT, since a card shows the commands as they were given.
    command = [sys.executable, "-m", "bertworks", *map(str, words)]
    if subprocess.run(command, cwd=asked.out, check=False).returncode:
        sys.exit(1)
    print(f"{name}: {time.monotonic() - started:,.0f} s", flush=True)


def called(name: str, step: Step, asked: argparse.Namespace) -> Words:
    """Return the words of a command; those of a rehearsal come last, for the last one counts."""
    return (*step.words, "--out", name, *(step.tiny if asked.rehearse else ()))


def claim(mark: Path, language: str) -> None:
    """Keep OUT for one encoder, for the folders of all have the same names."""
    begun = mark.read_text(encoding="utf-8") if mark.is_file() else language
    if begun != language:
        sys.exit(f"{mark.parent} is that of {begun}; choose another --out for {language}")
    mark.write_text(language, encoding="utf-8")


def point(link: Path, folder: Path | None) -> None:
    """Let a name under OUT stand for a folder elsewhere, so that commands have relative paths."""
    if folder is None or (link.exists() and link.samefile(folder)):
        return
    if link.exists():
        sys.exit(f"{link} is {link.resolve()}, not {folder}; remove it, or choose another --out")
    link.unlink(missing_ok=True)  # one that points to where another machine had it
    link.symlink_to(folder.resolve())


def write_lessons(out: Path, public: Path) -> None:
    """Write the pairs of public sets whose licence lets a model learn from them, and dev of STS-B.

    Questions and sentences that answer them are CC BY-SA (SQuAD), titles and abstracts CC0 (arXiv).
    """
    if (out / KINDS).is_file():
        return
    out.mkdir(parents=True, exist_ok=True)
    found = Quarantine()
    scored = gather(GLUE["stsb"], "score", data=public, quarantine=found)["dev"]
    judged = gather(GLUE["qnli"], "label", data=public, quarantine=found)["train"]
    articles = find_file(public / "summarization" / "arxiv-title" / "train.jsonl")
    told = (json.loads(line) for _, line in read_lines(articles, found))
    write_rows(out / "sts-dev.jsonl", (row_of(one, form="score") for one in scored))
    answered = (one for one in judged if one.label == "entailment")
    write_rows(
        out / "questions.jsonl", ({"text": one.text, "text_b": one.text_b} for one in answered)
    )
    write_rows(
        out / "titles.jsonl", ({"text": one["title"], "text_b": one["abstract"]} for one in told)
    )
    files = {
        "neighbours": "../neighbours/pairs.jsonl",
        "questions": "questions.jsonl",
        "titles": "titles.jsonl",
    }
    tables = [
        f'[{name}]\ntask = "embed"\ntrain = "{file}"\ndev = "sts-dev.jsonl"\n'
        for name, file in files.items()
    ]
    write_at_once(out / KINDS, "\n".join(tables))


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows of JSON data, a line each."""
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
