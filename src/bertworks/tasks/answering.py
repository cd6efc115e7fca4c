"""The one way from examples to answers, used by scoring and prediction alike."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from bertworks.core.ahead import ahead
from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.core.errors import DataError, TrainingError
from bertworks.core.lanes import own_threads, side_by_side
from bertworks.core.progress import say
from bertworks.data.example_batches import length_sorted_batches
from bertworks.data.packing import Features
from bertworks.data.windows import View
from bertworks.tasks.task import Answer, Blinded, Rows, Task, TaskModel, Writer
from bertworks.tokenizer.tokenizer import Tokenizer

CHUNK = 1024  # examples answered at once
CHUNK_CHARACTERS = 1_000_000  # of which a chunk has hardly more, for long examples take memory
# When batches are read side by side: with how many tokens at least, which are how many times the
# longest text, or else one after the other in how many rounds.
LEAST_SHARE, FEWEST_TEXTS, MANY_ROUNDS = 128, 4, 8
Result = TypeVar("Result")
Refused = tuple[Any, DataError]  # an example and why it has no answer


@dataclass(frozen=True)
class Answerer:
    """A model, one of its tasks, and how they read: what makes answers of examples."""

    model: TaskModel
    task: Task
    tokenizer: Tokenizer
    machine: Machine
    chunk: int = CHUNK

    def answer(self, examples: Sequence[Any], windows: Sequence[list[Features]]) -> list[Answer]:
        """Return one answer per example, in order, from the windows of each."""
        if isinstance(self.task, Writer):
            return self._written(self.task, windows)
        logits = logits_of(self.model, self.task.name, windows, self.machine)
        if not all(is_finite(rows) for rows in logits):
            raise TrainingError(
                "the network's answers are no finite numbers, so its weights are broken; "
                "train it again with a lower --lr"
            )
        return [
            self.task.decode(example, own, rows, self.tokenizer)
            for example, own, rows in zip(examples, windows, logits, strict=True)
        ]

    @torch.inference_mode()
    def _written(self, task: Writer, windows: Sequence[list[Features]]) -> list[Answer]:
        """Return what a task writes in answer to each example, in batches of like length."""
        own_threads()  # not those that another thread has while it reads side by side
        answers: list[Answer] = [{}] * len(windows)
        texts = [own[0] for own in windows]  # what is written answers one window
        budget = max(self.machine.batch_tokens // task.width, 1)
        num_drafts = max(self.machine.draft_tokens // (task.width * task.most), 1)
        least = -(-budget // num_drafts)  # short texts may have long answers
        for places, batch in length_sorted_batches(texts, budget=budget, least=least):
            with at_rest(self.model), self.machine.autocast():
                written = task.write(self.model, batch.to(self.machine.device), self.tokenizer)
            for place, answer in zip(places, written, strict=True):
                answers[place] = answer
        return answers

    def chunks(
        self,
        examples: Iterable[Any],
        *,
        longest: int,
        refuse: Callable[[Any, DataError], None] | None = None,
    ) -> Iterator["Answered"]:
        """Yield the answers of so many examples at once, in order; the next are read meanwhile.

        Memory does not grow with their number. One that cannot be read is refused, where it is
        read, by which the whole may end.
        """
        chunks = self._read(examples, longest, refuse)
        is_short = isinstance(examples, Sequence) and len(examples) <= self.chunk
        lost, num_read = Counter[str](), 0
        for read, windows, refused in chunks if is_short else ahead(chunks):
            lost, num_read = lost + losses_in(windows), num_read + len(read)
            answers = self.answer(read, windows)
            yield Answered(list(zip(read, answers, strict=True)), refused)
        if self.task.kind == "embed":  # of other tasks it is told where gold is lost
            for loss, count in lost.items():
                say(f"of {count} of {num_read} inputs {loss}")

    def _read(
        self,
        examples: Iterable[Any],
        longest: int,
        refuse: Callable[[Any, DataError], None] | None,
    ) -> Iterator[tuple[list[Any], list[list[Features]], list[Refused]]]:
        """Yield chunks of examples with their windows, and of those that cannot be read."""
        for chunk in in_chunks(examples, most=self.chunk):
            read, windows, refused = [], [], []
            for example in chunk:
                try:
                    asked = as_asked(self.task, example)
                    windows.append(self.task.features(asked, self.tokenizer, longest=longest))
                    read.append(example)
                except DataError as error:
                    refused.append((example, error))
                    if refuse is not None:
                        refuse(example, error)
            yield read, windows, refused


@dataclass(frozen=True)
class Answered:
    """Some examples with their answers, in order, and those among them that cannot be read."""

    pairs: list[tuple[Any, Answer]]
    refused: list[Refused]


def in_chunks(examples: Iterable[Any], *, most: int) -> Iterator[list[Any]]:
    """Yield examples in lists that are short, and depend on nothing but the examples in them."""
    chunk: list[Any] = []
    num_characters = 0
    for example in examples:
        chunk.append(example)
        num_characters += example.num_characters
        if len(chunk) >= most or num_characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, num_characters = [], 0
    if chunk:
        yield chunk


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Let a model compute without dropout, whatever it was made or trained for."""
    trained = [part for part in model.modules() if part.training]
    for part in trained:
        part.training = False
    try:
        yield
    finally:
        for part in trained:
            part.training = True


def as_asked(task: Task, example: Any) -> Any:
    """Return an example as it is read where its answer is sought, not learned from."""
    return task.blinded(example) if isinstance(task, Blinded) else example


def windows_of(
    task: Task,
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    *,
    longest: int,
    where: str = "input",
    refuse: Callable[[Any, DataError], None] | None = None,
) -> list[list[Features]]:
    """Return the windows of every example; one that the task cannot read is named by its line.

    Where it is refused instead it has no windows. What no window shows of an example is counted and
    said.
    """
    windows = []
    for example in examples:
        try:
            windows.append(task.features(example, tokenizer, longest=longest))
        except DataError as error:
            if refuse is None:
                raise DataError(f"{where} {example.line}: {error}") from error
            refuse(example, error)
            windows.append([])
    for loss, count in losses_in(windows).items():
        examined = f"{count} of {len(windows)} examples"
        say(f"warning: {where.removesuffix(' line')}: of {examined} {loss}")
    return windows


def longest_asked(task: Task, *, learned: int, whole: int) -> int:
    """Return the longest window in which a task answers: as long as those that it learned from.

    Vectors are of all that the network reads, as `embed` makes them, so that a text has one.
    """
    return whole if task.kind == "embed" else learned


def losses_in(windows: Iterable[Sequence[Features]]) -> Counter[str]:
    """Return what no window shows of examples, and of how many."""
    notes = (own[0].note for own in windows if own)
    return Counter(loss for note in notes if isinstance(note, View) for loss in note.losses)


def logits_of(
    model: TaskModel, name: str, windows: Sequence[Sequence[Features]], machine: Machine
) -> list[list[Rows]]:
    """Return a task's logits for the windows of each example, in batches of like length."""
    flat = [window for own in windows for window in own]
    rows: list[Rows] = [np.empty(0)] * len(flat)

    def read(batch: Batch) -> list[np.ndarray]:
        return _by_text(model.logits(batch.to(machine.device), name), batch, name)

    for places, parts in forwards(model, flat, machine, read):
        for place, part in zip(places, parts, strict=True):
            rows[place] = part
    found = iter(rows)
    return [list(islice(found, len(own))) for own in windows]


def forwards(
    model: nn.Module,
    windows: Sequence[Features],
    machine: Machine,
    read: Callable[[Batch], Result],
) -> list[tuple[np.ndarray, Result]]:
    """Return what is read of batches of like length, with the places of their windows.

    On a CPU batches are read side by side where that is even: where no lane waits long for another.
    """

    @torch.inference_mode()
    def forward(part: tuple[np.ndarray, Batch]) -> tuple[np.ndarray, Result]:
        places, batch = part
        with machine.autocast():
            return places, read(batch)

    share = _even_share([len(window.tokens) for window in windows], machine)
    batches = length_sorted_batches(windows, budget=share or machine.batch_tokens)
    with at_rest(model):
        if share is None:
            return [forward(one) for one in batches]
        return side_by_side(forward, batches[::-1])  # at the end no lane waits for a long text


def _even_share(lengths: Sequence[int], machine: Machine) -> int | None:
    """Return how many tokens a batch has so that lanes have as many each; None: there is no way."""
    total, longest, num_lanes = sum(lengths), max(lengths, default=0), machine.num_lanes
    if num_lanes == 1 or not total:
        return None
    rounds = -(-total // (num_lanes * machine.batch_tokens))
    share = -(-total // (num_lanes * rounds))
    if share >= max(LEAST_SHARE, FEWEST_TEXTS * longest):
        return share + longest  # so that no text is left over
    return machine.batch_tokens if rounds >= MANY_ROUNDS else None


def is_finite(rows: Sequence[Rows]) -> bool:
    """Tell whether the logits of an example are numbers to answer by."""
    return all(np.isfinite(part).all() for part in rows)


def _by_text(logits: torch.Tensor, batch: Batch, name: str) -> list[np.ndarray]:
    """Cut logit rows into those of each text."""
    whole = logits.float().cpu().numpy()
    at = batch.targets[name].at
    if at is None:
        return list(whole[:, None])
    first = at if at.dim() == 1 else at[:, 0]
    ends = np.searchsorted(first.numpy(), batch.layout.starts.numpy()[1:])
    return np.split(whole, ends[:-1])
