"""A small model for every kind of task with random weights, and what it is asked through HTTP."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fault_site import WORDS, Site
from service_client import post

import bertworks
from bertworks.core.artifact import Origin
from bertworks.data.forms import FORMS, make_example
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import KINDS, learn_task, make_task
from bertworks.tasks.task import TaskModel

ROUTES = {  # kinds of tasks, and what every encoder can do
    "classify": "/classify",
    "multilabel": "/classify",
    "match": "/classify",
    "score": "/classify",
    "aspect": "/classify",
    "relate": "/classify",
    "tag": "/tag",
    "intent_slots": "/tag",
    "answer": "/answer",
    "choose": "/choose",
    "fill_mask": "/fill-mask",
    "generate": "/generate",
    "zero_shot": "/zero-shot",
    "embed": "/embed",
    "embed_all": "/embed_all",
    "rerank": "/rerank",
}
OF_ALL = ("zero_shot", "embed", "embed_all", "rerank")
LABELS = ("animals", "cities", "numbers")


@dataclass(frozen=True)
class Quiz:
    """Inputs of one kind for one model."""

    kind: str
    inputs: Sequence[Any]

    def request(self, places: Sequence[int]) -> bytes:
        """Return a request about some of the inputs."""
        some = [self.inputs[place] for place in places]
        if self.kind == "rerank":
            body = {"model": "classify", "query": "the cat", "texts": some}
        elif self.kind == "zero_shot":
            body = {"model": "fill_mask", "inputs": some, "labels": LABELS, "by": "vectors"}
        else:
            model = "fill_mask" if self.kind in OF_ALL else self.kind
            body = {"model": model, "inputs": some}
        return post(ROUTES[self.kind], body)

    def answers(self, told: Any) -> list[Any]:
        """Return one answer for each input of a request, in their order."""
        if self.kind == "rerank":
            return [row["score"] for row in sorted(told, key=lambda row: row["index"])]
        return told if isinstance(told, list) else told["answers"]


def make_quiz(kind: str, count: int, *, seed: int) -> Quiz:
    """Make up inputs, from one word to several windows long."""
    chance = random.Random(f"{kind} {seed}")
    rows = [make_row(chance) for _ in range(count)]
    if kind in (*OF_ALL, "generate"):
        return Quiz(kind, [row["text"] for row in rows])
    if kind == "fill_mask":
        return Quiz(kind, [f"{row['text']} [MASK] {row['text_b']}" for row in rows])
    return Quiz(kind, [_columns(row, kind, FORMS[KINDS[kind].form].inputs) for row in rows])


def make_row(chance: random.Random) -> dict[str, Any]:
    """Make up one row that has a column for every kind of task."""
    words = chance.choices(WORDS, k=chance.choice((1, 2, 3, 5, 8, 13, 34, 200)))
    text, label = " ".join(words), chance.choice(LABELS)
    return {
        "text": text,
        "text_b": " ".join(chance.choices(WORDS, k=4)),
        "label": label,
        "labels": chance.sample(LABELS, 2),
        "score": chance.random(),
        "aspect": words[0],
        "first": [0, len(words[0])],
        "second": [len(text) - len(words[-1]), len(text)],
        "tokens": words,
        "tags": [chance.choice(("O", "B-THING")) for _ in words],
        "intent": label,
        "question": "who sat?",
        "passage": text,
        "answers": [{"text": words[0], "start": 0}],
        "choices": chance.sample(LABELS, 3),
        "source": text,
        "target": label,
    }


def _columns(row: dict[str, Any], kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the columns that a kind reads: tokens rather than their text, pairs for two kinds."""
    unread = {"text"} if "tokens" in names else set() if kind in ("match", "score") else {"text_b"}
    return {name: row[name] for name in names if name in row and name not in unread}


def task_models(site: Site) -> dict[str, Path]:
    """Return the folders of a model for each kind of task."""
    return {kind: task_model(site, kind) for kind in ROUTES if kind not in OF_ALL}


def task_model(site: Site, kind: str) -> Path:
    """Return the folder of a model for one kind of task, whose head speaks up."""
    path = site.folder / f"task-{kind}"
    if path.exists():
        return path
    encoder = bertworks.load(site.model("a"), device="cpu", threads=1)
    task = make_task(kind) if KINDS[kind].learn is None else _learned(kind)
    network = TaskModel(encoder.model.config, [task], seed=5, deviation=0.3)
    if kind != "generate":  # whose head is a decoder: what it writes says enough
        with torch.no_grad():
            for weights in network.heads.parameters():
                weights.mul_(3.0)
    save_model(path, network, encoder.tokenizer, origin=Origin())
    return path


def _learned(kind: str) -> Any:
    chance, form = random.Random(kind), KINDS[kind].form
    names = FORMS[form].inputs + FORMS[form].gold
    rows = [_columns(make_row(chance), kind, names) for _ in range(60)]
    return learn_task(kind, [make_example(row, 1, form=form, labelled=True) for row in rows])
