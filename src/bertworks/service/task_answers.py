"""Answers of the tasks that a model has learned, or of labels judged by one of them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from bertworks.core.errors import DataError
from bertworks.data.examples import ChoiceExample, Example, TextExample
from bertworks.data.packing import Features, group_by_budget
from bertworks.data.windows import View
from bertworks.service.asked import Asked, query_pairs
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item
from bertworks.service.lengths import Lengths
from bertworks.service.numbers import if_finite, is_finite, not_finite
from bertworks.service.written_answers import WrittenAnswers
from bertworks.serving.inputs import as_example
from bertworks.serving.predictor import Predictor
from bertworks.tasks.answering import logits_of
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.generate import Generate
from bertworks.tasks.task import Answer, Rows, Task
from bertworks.tasks.zero_shot import ByEntailment

KINDS_OF: dict[str, tuple[str, ...]] = {  # an ability -> the kinds of tasks that have it
    "classify": ("classify", "multilabel"),
    "match": ("match",),
    "score": ("score",),
    "tag": ("tag",),
    "answer": ("answer",),
    "choose": ("choose",),
    "intent_slots": ("intent_slots",),
    "aspect": ("aspect",),
    "relate": ("relate",),
    "fill_mask": ("fill_mask",),
    "generate": ("generate",),
}
MOST_MASKS = 128  # computed at once, and of one text
MOST_TOLD = 1 << 17  # labels or candidates of all inputs of a request


@dataclass(frozen=True, eq=False)
class TaskInput:
    """An example in its windows, the task that reads the answer, and what is told of it."""

    task: Task
    example: Example
    windows: list[Features]
    tell: Callable[[Answer], Answer]


class TaskAnswers:
    """What the task heads of a model can do."""

    def __init__(self, predictor: Predictor, lengths: Lengths) -> None:
        self._predictor = predictor
        self._lengths = lengths
        self._written = WrittenAnswers(predictor, lengths)
        tasks = predictor.model.tasks.values()
        by_kind = {kind: ability for ability, kinds in KINDS_OF.items() for kind in kinds}
        served = [task for task in tasks if task.kind in by_kind]
        self.abilities = frozenset(by_kind[task.kind] for task in served)
        self.labels = {task.name: list(task.labels) for task in served if task.labels}

    def ask(self, ability: str, inputs: Sequence[Any], asked: Asked) -> list[Item]:
        """Make inputs ready for the task that has an ability."""
        task = self._task(ability, asked)
        if isinstance(task, Generate):
            return self._written.ask(task, _examples(inputs, KINDS[task.kind].form), asked)
        if isinstance(task, FillMask):
            most = asked.num_candidates or asked.top_k or task.num_candidates
            task = FillMask(name=task.name, num_candidates=most, **task.options)
        tell = partial(told, top_k=asked.top_k, threshold=asked.threshold)
        items = self._items(task, _examples(inputs, KINDS[task.kind].form), tell)
        if isinstance(task, FillMask):
            num_masks = sum(_num_rows(item.content.windows, task.name) for item in items)
            num_pieces = self._predictor.model.config.vocab_size
            require_few_told(num_masks * min(task.num_candidates, num_pieces))
        return items

    def zero_shot(self, texts: Sequence[Any], task: Task, asked: Asked) -> list[Item]:
        """Make texts ready for a task that judges labels which were never learned."""
        require_few_told(len(texts) * len(task.labels))
        examples = _examples(texts, "texts")
        if asked.calibrate:
            examples.append(TextExample("", line=len(examples) + 1))
        return self._items(task, examples, partial(told, top_k=asked.top_k))

    def rerank(self, pairs: Sequence[Any]) -> list[Item]:
        """Make queries and documents ready for a model that reads pairs."""
        fit = self._predictor.fit_of
        examples = [
            TextExample(query, text, line=number)
            for number, (query, text) in enumerate(query_pairs(pairs), 1)
        ]
        return self._items(
            self._predictor.task, examples, lambda answer: {"score": float(fit(answer))}
        )

    def compute(self, key: Hashable, contents: list[Any]) -> list[Any]:
        """Answer items of one task together."""
        _, name, *way = cast(tuple[str, ...], key)
        if way:
            return self._written.compute(contents)
        model, machine = self._predictor.model, self._predictor.machine
        answers = []
        for part in self._parts(name, contents):
            logits = logits_of(model, name, [own.windows for own in part], machine)
            answers += [self._answer(own, rows) for own, rows in zip(part, logits, strict=True)]
        return answers

    def _task(self, ability: str, asked: Asked) -> Task:
        tasks = self._predictor.model.tasks
        fit = [task for task in tasks.values() if task.kind in KINDS_OF[ability]]
        if asked.task is None:
            return fit[0]
        named = [task for task in fit if task.name == asked.task.replace("-", "_")]
        if not named:
            known = ", ".join(task.name for task in fit)
            raise Failure("bad_value", f"task is {asked.task!r:.60}; to {ability} there is {known}")
        return named[0]

    def _items(
        self, task: Task, examples: Sequence[Example], tell: Callable[[Answer], Answer]
    ) -> list[Item]:
        items, total = list[Item](), 0
        for whole in examples:
            example = self._lengths.shorten_example(whole)
            windows = self._windows(task, example)
            is_cut = example.num_characters < whole.num_characters or _loses(windows)
            num_tokens = sum(len(window.tokens) for window in windows)
            total += num_tokens
            self._lengths.require_few(total)
            content = TaskInput(task, example, windows, tell)
            items.append(Item(("task", task.name), content, num_tokens, is_cut))
        return items

    def _windows(self, task: Task, example: Example) -> list[Features]:
        tokenizer, longest = self._predictor.tokenizer, self._predictor.window
        self._lengths.require_few_readings(example, _num_readings(task, example))
        try:
            windows = task.features(example, tokenizer, longest=longest)
        except DataError as error:
            raise DataError(f"input {example.line}: {error}") from error
        if isinstance(task, FillMask) and (count := _num_rows(windows, task.name)) > MOST_MASKS:
            raise Failure(
                "too_large",
                f"input {example.line} has {count} masks, and {MOST_MASKS} are the most; send it "
                "in parts",
            )
        return windows

    def _parts(self, name: str, contents: list[TaskInput]) -> list[list[TaskInput]]:
        """Cut a batch where each answer is made of whole vocabularies, which take memory."""
        if not isinstance(self._predictor.model.tasks[name], FillMask):
            return [contents]
        counts = np.array([_num_rows(own.windows, name) for own in contents])
        return [contents[part] for part in group_by_budget(counts, budget=lambda _: MOST_MASKS)]

    def _answer(self, own: TaskInput, logits: list[Rows]) -> Any:
        if not is_finite(logits):
            return not_finite()
        tokenizer = self._predictor.tokenizer
        return if_finite(own.tell(own.task.decode(own.example, own.windows, logits, tokenizer)))


def require_few_told(count: int) -> None:
    """Refuse an answer of more labels or candidates than are made ready at once."""
    if count > MOST_TOLD:
        raise Failure(
            "too_large",
            f"the answer would tell {count} labels or candidates, but {MOST_TOLD} are the most; "
            "send fewer inputs at once, or ask for less of each",
        )


def told(answer: Answer, *, top_k: int | None = None, threshold: float | None = None) -> Answer:
    """Return the likeliest of what an answer holds, and what is likely enough."""
    found = dict(answer)
    chances = answer.get("probabilities")
    if isinstance(chances, dict):
        if threshold is not None and "labels" in answer:
            found["labels"] = [name for name, chance in chances.items() if chance >= threshold]
        if top_k is not None:
            best = sorted(chances, key=lambda name: -chances[name])[:top_k]
            found["probabilities"] = {name: chances[name] for name in best}
    for name in ("spans", "slots", "candidates"):
        if name in answer:
            likely = [one for one in answer[name] if one["probability"] >= (threshold or 0.0)]
            found[name] = likely[:top_k] if name == "candidates" else likely
    return found


def _examples(inputs: Sequence[Any], form: str) -> list[Example]:
    return [as_example(item, number, form) for number, item in enumerate(inputs, 1)]


def _num_readings(task: Task, example: Example) -> int:
    """Return how often an example is read: once with each choice, or with each label."""
    if isinstance(example, ChoiceExample):
        return len(example.choices)
    return len(task.labels) if isinstance(task, ByEntailment) else 1


def _num_rows(windows: Sequence[Features], name: str) -> int:
    return sum(len(window.goals[name].values) for window in windows)


def _loses(windows: Sequence[Features]) -> bool:
    """Tell whether no window shows some part of the example."""
    note = windows[0].note
    return isinstance(note, View) and bool(note.losses)
