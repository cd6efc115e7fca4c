"""Where answers and vectors go: standard output, or a file that can be gone on with."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from bertworks.core.artifact import refuse_overwriting
from bertworks.core.errors import DataError, UsageError
from bertworks.core.growing import Growing, fingerprint, finished, growing
from bertworks.core.lines import estimate_lines
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_json
from bertworks.data.rows import parse_columns, stream_examples
from bertworks.stages.answer_settings import EmbedSettings, PredictSettings

MOST_WARNINGS = 20
MOST_REFUSED = 1000  # beyond this rows that the model cannot read are counted but not kept
STREAM = "-"  # standard input or standard output
FREE = {"out", "resume", "model", "data", "ranges"}  # what is read is told by its content


class Output(Protocol):
    """What is written to."""

    def write(self, data: bytes) -> None:
        """Add to the end."""

    def commit(self, state: dict[str, Any], *, head: bytes = b"") -> None:
        """Let what was written be seen, and note how far the work has come."""


class StandardOutput:
    """Standard output, which shows each chunk at once; a file holds whole chunks, come what may."""

    def __init__(self) -> None:
        self.sure = _size()

    def write(self, data: bytes) -> None:
        """Add to the end."""
        with self._whole():
            sys.stdout.write(data.decode())

    def commit(self, state: dict[str, Any], *, head: bytes = b"") -> None:
        """Let what was written be seen."""
        with self._whole():
            sys.stdout.flush()
        self.sure = _size()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Take back what a full disk has cut off in the middle."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(sys.stdout.fileno(), self.sure)
            raise OSError(error.errno, error.strerror, "standard output") from error


def _size() -> int:
    """Return how much a file behind standard output holds."""
    try:
        return os.fstat(sys.stdout.fileno()).st_size
    except OSError:  # a program has put a stream of its own in its place
        return 0


@dataclass
class Tally:
    """How far a file of inputs has been answered."""

    num_seen: int = 0
    num_answered: int = 0
    num_refused: int = 0
    refused: list[list[Any]] = field(default_factory=list)  # line and reason of the first ones
    vectors: list[Any] = field(default_factory=list)  # their type and size, where there are any

    def count(self, answered: int, refused: list[tuple[Any, DataError]]) -> None:
        """Count one more chunk."""
        self.num_seen += answered + len(refused)
        self.num_answered += answered
        self.num_refused += len(refused)
        room = MOST_REFUSED - len(self.refused)
        self.refused += [[example.line, str(error)] for example, error in refused[:room]]

    def as_json(self) -> dict[str, Any]:
        """Return it as a note keeps it."""
        return asdict(self)


class Inputs:
    """The examples of a file or stream that are not answered yet, and what becomes of them."""

    def __init__(self, settings: PredictSettings | EmbedSettings, *, form: str) -> None:
        self.file = Path(settings.data)
        self.columns = parse_columns(settings.columns)
        self.form = form
        self.quarantine = Quarantine()

    def after(self, tally: Tally) -> Iterator[Any]:
        """Yield the examples behind those that were seen before; all are read."""
        # A label that comes along is not looked at; the model may not know it.
        examples = stream_examples(
            self.file, self.quarantine, form=self.form, columns=self.columns, labelled=False
        )
        return islice(examples, tally.num_seen, None)

    def estimate(self) -> int | None:
        """Return about how many there are, where that can be told soon."""
        return estimate_lines(self.file)

    def require_some(self, tally: Tally) -> None:
        """Stop when nothing was answered."""
        self._set_aside(tally)
        if not tally.num_answered:
            self.quarantine.check()
            raise DataError(f"{self.file} holds no rows; give a file with inputs in it")

    def tell_bad(self, what: str) -> int:
        """Name the rows that were set aside, or the first of many; return how many they are."""
        bad = self.quarantine
        for row in sorted(bad.rows, key=lambda row: row.line)[:MOST_WARNINGS]:
            say(f"warning: no {what} for {row}")
        if bad.num_bad > MOST_WARNINGS:
            say(f"warning: {bad.num_bad} rows in all have no {what}")
        return bad.num_bad

    def _set_aside(self, tally: Tally) -> None:
        for line, reason in tally.refused:
            self.quarantine.recall(self.file, line, reason)
        self.quarantine.recall_unnamed(tally.num_refused - len(tally.refused))


def finished_before(settings: PredictSettings | EmbedSettings) -> dict[str, Any] | None:
    """Return what was said of an output that is whole; stop for one that cannot be written."""
    if settings.resume == "auto" and STREAM in (settings.data, settings.out):
        raise UsageError("--resume auto needs files: a stream cannot be read or written again")
    if settings.out == STREAM:
        return None
    out = Path(settings.out)
    if settings.resume == "auto" and settings.model.resolve() in out.resolve().parents:
        raise UsageError(
            f"--resume auto asks whether {settings.model} has changed, so --out cannot lie in it; "
            "choose another --out"
        )
    is_asked = settings.resume == "auto" and out.is_file()
    result = finished(out, _begun(settings)) if is_asked else None
    if result is None:
        refuse_overwriting(out)
        return None
    say(f"{out} is finished already")
    return {**result, "out": settings.out}


@contextmanager
def open_output(
    settings: PredictSettings | EmbedSettings,
) -> Iterator[tuple[Output, Tally, Growing | None]]:
    """Lend where answers go, with how far they had come, and the file if it is one."""
    if settings.out == STREAM:
        yield StandardOutput(), Tally(), None
        return
    is_file = settings.data != STREAM
    resume = settings.resume == "auto"
    with growing(Path(settings.out), _begun(settings), resume=resume, keep=is_file) as file:
        tally = Tally(**file.state)
        if tally.num_seen:
            say(f"{settings.out} goes on behind {tally.num_seen:,} rows")
        yield file, tally, file


def _begun(settings: PredictSettings | EmbedSettings) -> dict[str, Any]:
    """Return all on which the bytes of the output depend."""
    told = {name: value for name, value in as_json(settings).items() if name not in FREE}
    told["content of the model"] = fingerprint(settings.model)
    if settings.data != STREAM:
        told["content of the data"] = fingerprint(Path(settings.data))
    if isinstance(settings, EmbedSettings) and settings.shape.ranges is not None:
        told["content of the ranges"] = fingerprint(settings.shape.ranges)
    return told
