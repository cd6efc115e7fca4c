"""Tasks of a suite, fine-tuned by bertworks and then by transformers on the same files.

    bertworks evaluate --suite glue --data DIR --model MODEL --out OUT --seeds 3
    python benchmarks/finetune_quality.py OUT
    python benchmarks/finetune_quality.py OUT --only mrpc rte --device cpu

The other side reads the examples that the suite has written, begins with the same weights, and has
the same batch size, learning rate, epochs and seeds; the epoch that scores best on dev is kept on
both sides, and the same scorers judge both. It is trained by the loop that transformers' Trainer
runs (see peer.py), truncates what the network cannot read, and looks for answers in windows.
Of tasks for which transformers has no model of its own it says so. Scores are percent; `difference`
is ours less theirs. What is found is also written to OUT/peer.json.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from peer import (
    IGNORED,
    Peer,
    Row,
    cut_questions,
    encode_questions,
    encode_texts,
    encode_words,
    outputs_of,
    peer_name,
    require_transformers,
    run_loop,
)

from bertworks.core.progress import mute
from bertworks.core.quarantine import Quarantine
from bertworks.data.rows import read_examples
from bertworks.evaluation.suite_task import SuiteTask
from bertworks.evaluation.suites import SUITES
from bertworks.interop.hugging_face import open_folder
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.tasks.catalog import KINDS, learn_task
from bertworks.tasks.task import Answer, Task

LONGEST_ANSWER = 30
Scores = dict[str, float]


def main() -> None:
    """Fine-tune every task of a folder again, and print both sides."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what evaluate --suite has written")
    parser.add_argument("--only", nargs="*", help="some of its tasks")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    asked = parser.parse_args()
    results = asked.folder / "results.json"
    if not results.is_file():
        parser.error(f"there is no {results}; run bertworks evaluate --suite first")
    told = json.loads(results.read_text(encoding="utf-8"))
    if unknown := {*(asked.only or ())} - told["tasks"].keys():
        parser.error(f"{results} has no {', '.join(unknown)}; it has {', '.join(told['tasks'])}")
    require_transformers()
    mute()
    device = asked.device or ("cuda" if torch.cuda.is_available() else "cpu")
    suite = SUITES[told["settings"]["suite"]]
    found: dict[str, dict[str, list[Scores]]] = {}
    print(f"{peer_name(trainer=False)}; torch {torch.__version__} on {device}")
    print(f"{'task':16}{'metric':16}{'part':6}{'ours':>14}{'theirs':>14}{'difference':>12}")
    for name, result in told["tasks"].items():
        if asked.only and name not in asked.only:
            continue
        if why := why_alone(suite[name], asked.folder / name, result):
            print(f"{name:16}{why}", flush=True)
            continue
        found[name] = run_task(suite[name], asked.folder / name, told["settings"], device)
        report(name, suite[name], result["scores"], found[name])
        (asked.folder / "peer.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


def why_alone(task: SuiteTask, folder: Path, result: dict[str, Any]) -> str | None:
    """Say why a task has no other side, or return None where it has one."""
    if result["failure"]:
        return "has no scores of ours: it failed"
    if task.model_of:
        return f"is answered by the model of {task.model_of}"
    if task.kind not in SIDES:
        return f"has no peer: transformers has no class for {task.kind}"
    with (folder / "train.jsonl").open(encoding="utf-8") as lines:
        is_of_spans = task.kind == "tag" and "tokens" not in json.loads(next(lines))
    if is_of_spans:
        return "has no peer: transformers tags words, and these are spans of plain texts"
    return None


def report(
    name: str, task: SuiteTask, ours: dict[str, list[Scores]], theirs: dict[str, list[Scores]]
) -> None:
    """Print the rows of one task."""
    for metric in task.metrics:
        for part, scores in theirs.items():
            both = [[100 * one[metric.name] for one in side] for side in (ours[part], scores)]
            cells = "".join(f"{shown(values):>14}" for values in both)
            gap = fmean(both[0]) - fmean(both[1])
            print(f"{name:16}{metric.name:16}{part:6}{cells}{gap:>+12.1f}", flush=True)


def shown(values: list[float]) -> str:
    """Return a mean with its deviation."""
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{spread}"


def run_task(
    task: SuiteTask, folder: Path, settings: dict[str, Any], device: str
) -> dict[str, list[Scores]]:
    """Fine-tune a task with every seed and return its scores by part."""
    assert task.kind is not None
    form = KINDS[task.kind].form
    parts = {
        part: Part.read(folder / f"{part}.jsonl", form)
        for part in ("train", "dev", "test")
        if (folder / f"{part}.jsonl").is_file()
    }
    learned = learn_task(task.kind, parts["train"].examples)
    reads = open_folder(encoder_folder(Path(settings["model"]))).config.max_positions
    scores: dict[str, list[Scores]] = {part: [] for part in parts if part != "train"}
    for seed in range(settings["seeds"]):
        torch.manual_seed(seed)
        side = SIDES[task.kind](Path(settings["model"]), learned, min(task.longest or reads, reads))
        peer = Peer(
            side.model.to(device),
            side.collate,
            task.batch_size,
            settings["lr"] or task.lr,
            device,
        )
        epochs = settings["epochs"] or task.epochs
        for part, metrics in fine_tune(side, peer, parts, epochs, task.metrics[0].name).items():
            scores[part].append(metrics)
    return scores


@dataclass(frozen=True)
class Part:
    """Examples as rows, and as our scorers want them."""

    rows: list[Row]
    examples: list[Any]

    @classmethod
    def read(cls, file: Path, form: str) -> "Part":
        """Read a file that a suite has written."""
        with file.open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        return cls(rows, read_examples(file, Quarantine(), form=form))


@dataclass(frozen=True)
class Side:
    """How transformers learns one task and answers it."""

    task: Task
    model: Any
    collate: Callable[[list[Row]], dict[str, torch.Tensor]]
    encode: Callable[[list[Row]], list[Row]]  # with labels
    answer: Callable[[Peer, list[Row]], list[Answer]]

    def score(self, peer: Peer, part: Part) -> Scores:
        """Return the scores of a part by our own scorer."""
        scorer = self.task.scorer()
        for example, answer in zip(part.examples, self.answer(peer, part.rows), strict=True):
            scorer.add(example, answer)
        return scorer.metrics()


def fine_tune(
    side: Side, peer: Peer, parts: dict[str, Part], epochs: int, metric: str
) -> dict[str, Scores]:
    """Train, keep the epoch that is best on dev, and score all parts by it."""
    features = side.encode(parts["train"].rows)
    best: dict[str, Any] = {"score": -np.inf}

    def after_epoch() -> None:
        score = side.score(peer, parts["dev"])[metric]
        if score > best["score"]:
            weights = {name: value.clone() for name, value in peer.model.state_dict().items()}
            best.update(score=score, weights=weights)

    steps = epochs * -(-len(features) // peer.batch_size)
    run_loop(peer, features, steps=steps, after_epoch=after_epoch)
    peer.model.load_state_dict(best["weights"])
    return {name: side.score(peer, part) for name, part in parts.items() if name != "train"}


# One function for each kind of task


def label_side(path: Path, task: Task, longest: int) -> Side:
    """Tell labels of texts and pairs."""
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    tokenizer = open_tokenizer(path)
    count = len(task.labels)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=count)
    numbers = {label: number for number, label in enumerate(task.labels)}

    def encode(rows: list[Row]) -> list[Row]:
        features = encode_texts(rows, tokenizer, longest=longest)
        labels = (numbers[row["label"]] for row in rows)
        return [{**each, "labels": label} for each, label in zip(features, labels, strict=True)]

    def answer(peer: Peer, rows: list[Row]) -> list[Answer]:
        features = encode_texts(rows, tokenizer, longest=longest)
        return [chosen(softmax(row)) for (row,) in outputs_of(peer, features, ("logits",))]

    def chosen(chances: np.ndarray) -> Answer:
        best = int(chances.argmax())
        all_of_them = dict(zip(task.labels, chances.tolist(), strict=True))
        told = {"label": task.labels[best], "probability": float(chances[best])}
        return {**told, "probabilities": all_of_them}

    return Side(task, model, DataCollatorWithPadding(tokenizer), encode, answer)


def score_side(path: Path, task: Task, longest: int) -> Side:
    """Tell numbers of texts and pairs."""
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    tokenizer = open_tokenizer(path)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=1)

    def encode(rows: list[Row]) -> list[Row]:
        features = encode_texts(rows, tokenizer, longest=longest)
        numbers = (float(row["score"]) for row in rows)
        return [{**each, "labels": number} for each, number in zip(features, numbers, strict=True)]

    def answer(peer: Peer, rows: list[Row]) -> list[Answer]:
        features = encode_texts(rows, tokenizer, longest=longest)
        return [{"score": float(row[0])} for (row,) in outputs_of(peer, features, ("logits",))]

    return Side(task, model, DataCollatorWithPadding(tokenizer), encode, answer)


def tag_side(path: Path, task: Task, longest: int) -> Side:
    """Tell the tags of words at their first pieces."""
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

    tokenizer = open_tokenizer(path)
    count = len(task.labels)
    model = AutoModelForTokenClassification.from_pretrained(path, num_labels=count)
    numbers = {label: number for number, label in enumerate(task.labels)}

    def encode(rows: list[Row]) -> list[Row]:
        features, owners = encode_words(rows, tokenizer, longest=longest)
        for row, feature, words in zip(rows, features, owners, strict=True):
            firsts = first_pieces(words)
            labels = [IGNORED] * len(words)
            for word, piece in firsts.items():
                labels[piece] = numbers[row["tags"][word]]
            feature["labels"] = labels
        return features

    def answer(peer: Peer, rows: list[Row]) -> list[Answer]:
        features, owners = encode_words(rows, tokenizer, longest=longest)
        unlabelled = [
            {**feature, "labels": [IGNORED] * len(words)}
            for feature, words in zip(features, owners, strict=True)
        ]
        answers = []
        logits = outputs_of(peer, unlabelled, ("logits",))
        for row, words, (scores,) in zip(rows, owners, logits, strict=True):
            tags = ["O" if "O" in numbers else task.labels[0]] * len(row["tokens"])
            for word, piece in first_pieces(words).items():
                tags[word] = task.labels[int(scores[piece].argmax())]
            answers.append({"tags": tags, "probabilities": [1.0] * len(tags)})
        return answers

    return Side(task, model, DataCollatorForTokenClassification(tokenizer), encode, answer)


def answer_side(path: Path, task: Task, longest: int) -> Side:
    """Find answers in windows of passages."""
    from transformers import AutoModelForQuestionAnswering, DataCollatorWithPadding

    tokenizer = open_tokenizer(path)
    model = AutoModelForQuestionAnswering.from_pretrained(path)

    def encode(rows: list[Row]) -> list[Row]:
        return encode_questions(rows, tokenizer, longest=longest)

    def answer(peer: Peer, rows: list[Row]) -> list[Answer]:
        found, places, owners = cut_questions(rows, tokenizer, longest=longest)
        names = ("input_ids", "token_type_ids", "attention_mask")
        features = [
            {name: found[name][n] for name in names if name in found} for n in range(len(owners))
        ]
        best: list[tuple[float, str]] = [(-np.inf, "")] * len(rows)
        logits = outputs_of(peer, features, ("start_logits", "end_logits"))
        for n, (owner, (starts, ends)) in enumerate(zip(owners, logits, strict=True)):
            is_passage = np.array([side == 1 for side in found.sequence_ids(n)])
            score, first, last = best_span(starts, ends, is_passage)
            text = rows[owner]["passage"][places[n][first][0] : places[n][last][1]]
            best[owner] = max(best[owner], (score, text))
        return [{"answer": text, "probability": 1.0} for _, text in best]

    return Side(task, model, DataCollatorWithPadding(tokenizer), encode, answer)


def best_span(
    starts: np.ndarray, ends: np.ndarray, is_passage: np.ndarray
) -> tuple[float, int, int]:
    """Return the score and the first and last piece of the likeliest span."""
    count = len(is_passage)
    starts, ends = (np.where(is_passage, each[:count], -np.inf) for each in (starts, ends))
    sums = starts[:, None] + ends[None, :]
    lengths = np.arange(count)[None, :] - np.arange(count)[:, None]
    sums[(lengths < 0) | (lengths >= LONGEST_ANSWER)] = -np.inf
    first, last = np.unravel_index(sums.argmax(), sums.shape)
    return float(sums[first, last]), int(first), int(last)


def first_pieces(words: list[int | None]) -> dict[int, int]:
    """Return where the first piece of each word stands."""
    found: dict[int, int] = {}
    for piece, word in enumerate(words):
        if word is not None:
            found.setdefault(word, piece)
    return found


def softmax(row: np.ndarray) -> np.ndarray:
    """Return scores as chances."""
    shifted = np.exp(row - row.max())
    return shifted / shifted.sum()


def open_tokenizer(path: Path) -> Any:
    """Open the tokenizer of a model quietly."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoTokenizer.from_pretrained(path)


SIDES = {
    "classify": label_side,
    "match": label_side,
    "aspect": label_side,
    "score": score_side,
    "tag": tag_side,
    "answer": answer_side,
}

if __name__ == "__main__":
    main()
