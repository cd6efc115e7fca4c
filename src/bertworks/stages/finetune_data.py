"""What a fine-tuning learns from: the files of its tasks, read and cut as the network reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import STANDARD_INPUT
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.data.columns import Columns
from bertworks.data.packing import Features
from bertworks.data.rows import find_form, only_pairs, parse_columns, read_examples, set_aside
from bertworks.data.windows import View
from bertworks.evaluation.data_check import check_before_training
from bertworks.evaluation.findings import Finding
from bertworks.evaluation.piece_checks import unknown_warning
from bertworks.evaluation.target_checks import folded_warning
from bertworks.serving.model_folder import OpenModel
from bertworks.stages.task_list import TaskSource
from bertworks.tasks.answering import as_asked, longest_asked, windows_of
from bertworks.tasks.catalog import KINDS, guess_kind, learn_task
from bertworks.tasks.embed import Embed
from bertworks.tasks.task import Task, Writer
from bertworks.tokenizer.piece_dropout import PieceDropout
from bertworks.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class ExampleFile:
    """The examples of one file, what of it was set aside, and how the network reads the rest."""

    file: Path
    examples: Sequence[Any]
    quarantine: Quarantine
    windows: Sequence[list[Features]] = ()  # none before the network is known


@dataclass(frozen=True)
class TaskData:
    """A task with the examples that it is learned from and scored on."""

    source: TaskSource
    task: Task
    training: ExampleFile
    dev: ExampleFile
    findings: Sequence[Finding]


def read_task(source: TaskSource, own: Mapping[str, Task]) -> TaskData:
    """Read the examples of a task, which tell its labels, and perhaps what task it is."""
    if STANDARD_INPUT in (source.train, source.dev):
        raise UsageError("examples cannot come from standard input here; give files")
    columns = parse_columns(source.columns)
    kind = KINDS.get(source.task) if source.task else None
    form = find_form(source.train, columns, among=kind.forms() if kind else None)
    dev_form = find_form(source.dev, columns, among=kind.forms(scored=True)) if kind else form
    training = _read(source.train, form, columns)
    dev = _read(source.dev, dev_form, columns)
    if kind and kind.reads_pairs and any(one.text_b is not None for one in training.examples):
        training, dev = (
            replace(part, examples=only_pairs(part.file, part.examples, part.quarantine))
            for part in (training, dev)
        )
    try:
        named = source.task or guess_kind(form, training.examples)
        before = own.get(source.name or named)
        task = learn_task(named, training.examples, name=source.name, before=before, **source.flags)
    except DataError as error:
        raise DataError(f"{source.train} {error}") from error
    if source.task is None:
        of = f" of {source.name}" if source.name else ""
        say(f"task{of}: {named}, guessed from the columns")
    is_labelled = any(getattr(one, "label", None) is not None for one in training.examples)
    if isinstance(task, Embed) and is_labelled and source.flags.get("same") is None:
        say(f"task {task.name}: {task.meaning}")
    examples = (training.examples, dev.examples)
    findings = check_before_training(source.train, source.dev, examples, flags=source.reading_flags)
    return TaskData(source, task, training, dev, findings)


def cut_task(learned: TaskData, opened: OpenModel, longest: int) -> TaskData:
    """Return the task with the windows of its examples.

    What cannot be scored ends everything, but a source that cannot be read is set aside.
    """
    task, tokenizer = learned.task, opened.tokenizer
    training = _cut(task, learned.training, learned.training.examples, tokenizer, longest)
    asked = [as_asked(task, example) for example in learned.dev.examples]
    widest = longest_asked(task, learned=longest, whole=opened.model.config.max_positions)
    dev = _cut(task, learned.dev, asked, tokenizer, widest)
    return replace(learned, training=training, dev=dev)


@dataclass(frozen=True)
class CutAnew:
    """The windows of training examples with other merges left out in each epoch."""

    learned: TaskData
    dropout: PieceDropout
    longest: int

    def __call__(self, epoch: int, row: int) -> Sequence[Features]:
        """Return the windows of a row; what has become too long by smaller pieces is cut plainly.

        That is: it takes more windows, or less of it is seen or learned.
        """
        training, tokenizer = self.learned.training, self.dropout.at(epoch, row)
        plain, example = training.windows[row], training.examples[row]
        try:
            windows = self.learned.task.features(example, tokenizer, longest=self.longest)
        except (DataError, UsageError):
            return plain
        note = windows[0].note
        is_cut_short = isinstance(note, View) and bool(note.losses)
        return plain if is_cut_short or len(windows) > len(plain) else windows


def _read(file: Path, form: str, columns: Columns) -> ExampleFile:
    quarantine = Quarantine()
    examples = read_examples(file, quarantine, form=form, columns=columns)
    return ExampleFile(file, examples, quarantine)


def _cut(
    task: Task, part: ExampleFile, as_read: Sequence[Any], tokenizer: Tokenizer, longest: int
) -> ExampleFile:
    """Cut the examples of a file as they are read, and say what of them is unknown."""
    file, refused = part.file, list[tuple[Any, str]]()
    windows = windows_of(
        task,
        as_read,
        tokenizer,
        longest=longest,
        where=f"{file} line",
        refuse=(lambda row, error: refused.append((row, str(error)))) if _writes(task) else None,
    )
    set_aside(file, refused, part.quarantine)
    read = [(row, own) for row, own in zip(part.examples, windows, strict=True) if own]
    flat = [window for _, own in read for window in own]
    replies = (window.reply for window in flat if window.reply is not None)
    texts = chain((window.tokens for window in flat), replies)
    unknown = unknown_warning(str(file), texts, tokenizer.specials.unknown)
    folded = folded_warning(str(file), part.examples, tokenizer)
    for warning in filter(None, (unknown, folded)):
        say(f"warning: {warning}")
    return replace(part, examples=[row for row, _ in read], windows=[own for _, own in read])


def _writes(task: Task) -> bool:
    return isinstance(task, Writer)
