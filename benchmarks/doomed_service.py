"""The service, with faults in its network: for the tests that need them, and their controls.

    python benchmarks/doomed_service.py [--slow S] [--leak BYTES] [--mix] [...] WORDS

WORDS are those of `bertworks`. SIGUSR1 makes the next batch end its thread, SIGUSR2 makes it hang.
"""

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertworks.cli.main import main as bertworks
from bertworks.service import asking
from bertworks.service.answers import Answers
from bertworks.service.batcher import BatchLimits
from bertworks.service.models import ServedModel
from bertworks.service.protocol import PatientProtocol
from bertworks.service.vector_answers import VectorAnswers

FOR_EVER = 3600.0  # seconds
POISONS = {97: "nan", 98: "memory", 99: "error"}  # what texts of so many tokens do
WATCHED = ("open", "socket.connect", "socket.bind", "subprocess.Popen", "pickle.find_class")


@dataclass
class Fate:
    """What befalls the batches."""

    slow: float  # seconds that each takes longer
    leak: int  # bytes that each text leaves behind
    is_mixed: bool  # each text gets its neighbour's answer
    sway: float  # what each neighbour adds to the numbers of an answer
    has_poison: bool
    is_burgled: bool  # each opens a file and a connection that are none of its business
    leaks_files: bool
    of_next: Literal["die", "hang"] | None = None
    left_behind: list[bytes] = field(default_factory=list)

    def meet(self, contents: list[Any]) -> None:
        """Let it befall a batch."""
        doom, self.of_next = self.of_next, None
        if doom == "die":
            raise SystemExit("this thread was told to end")
        time.sleep(FOR_EVER if doom == "hang" else self.slow)
        if self.leak:
            self.left_behind.append(b"x" * (self.leak * len(contents)))
        if self.leaks_files:
            os.dup(0)
        if self.is_burgled:
            burgle()
        for content in contents if self.has_poison else ():
            raise_poison(POISONS.get(getattr(content, "num_tokens", 0)))

    def change(self, contents: list[Any], answers: list[Any]) -> list[Any]:
        """Do what it does to the answers of a batch."""
        if self.is_mixed:
            answers = answers[1:] + answers[:1]
        if self.sway:
            answers = [moved(answer, self.sway * (len(answers) - 1)) for answer in answers]
        if self.has_poison:
            kinds = [POISONS.get(getattr(content, "num_tokens", 0)) for content in contents]
            pairs = zip(kinds, answers, strict=True)
            answers = [answer * np.nan if kind == "nan" else answer for kind, answer in pairs]
        return answers


def raise_poison(kind: str | None) -> None:
    """Fail as a network may."""
    if kind == "error":
        raise RuntimeError("this text is poison")
    if kind == "memory":
        raise MemoryError


def moved(answer: Any, by: float) -> Any:
    """Return an answer whose numbers are larger."""
    if isinstance(answer, dict):
        return {key: moved(value, by) for key, value in answer.items()}
    if isinstance(answer, list):
        return [moved(value, by) for value in answer]
    return answer + by if isinstance(answer, float | np.ndarray) else answer


def burgle() -> None:
    """Do what no service should."""
    Path("/etc/hostname").exists()
    with suppress(OSError), Path("/etc/hostname").open():
        pass
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", 9), timeout=0.1).close()


def main() -> None:
    """Run the service under its fate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--leak", type=int, default=0)
    parser.add_argument("--mix", action="store_true")
    parser.add_argument("--sway", type=float, default=0.0)
    parser.add_argument("--poison", action="store_true")
    parser.add_argument("--burgle", action="store_true")
    parser.add_argument("--leak-files", action="store_true")
    parser.add_argument("--slow-load", type=float, help="seconds that a model takes to be opened")
    parser.add_argument("--blind", action="store_true", help="let numbers out that are none")
    parser.add_argument("--one-form", action="store_true", help="all vectors as the first ones")
    parser.add_argument("--patient", action="store_true", help="wait for ever")
    parser.add_argument("--watch", type=Path, help="file for what the process opens and calls")
    parser.add_argument("--stuck-after", type=float)
    asked, words = parser.parse_known_args()
    fate = Fate(
        slow=asked.slow,
        leak=asked.leak,
        is_mixed=asked.mix,
        sway=asked.sway,
        has_poison=asked.poison,
        is_burgled=asked.burgle,
        leaks_files=asked.leak_files,
    )
    signal.signal(signal.SIGUSR1, lambda *_: setattr(fate, "of_next", "die"))
    signal.signal(signal.SIGUSR2, lambda *_: setattr(fate, "of_next", "hang"))
    if asked.stuck_after is not None:
        BatchLimits.__init__.__kwdefaults__["stuck_after"] = asked.stuck_after
    change_manners(asked)
    doom(fate)
    sys.exit(bertworks(words))


def change_manners(asked: argparse.Namespace) -> None:
    """Break what is no matter of the network."""
    if asked.blind:
        asking.is_finite = lambda value: True
    if asked.patient:
        PatientProtocol.patience = PatientProtocol.reading_patience = FOR_EVER
    if asked.slow_load:
        open_slowly(asked.slow_load)
    if asked.one_form:
        keep_first_form()
    if asked.watch is not None:
        watch(asked.watch)


def doom(fate: Fate) -> None:
    """Put a fate between the batches and the network."""
    compute = Answers.compute

    def doomed(self: Answers, key: Hashable, contents: list[Any]) -> list[Any]:
        fate.meet(contents)
        return fate.change(contents, compute(self, key, contents))

    Answers.compute = doomed  # type: ignore[method-assign]


def open_slowly(seconds: float) -> None:
    """Let every model take its time to be opened."""
    start = ServedModel.start

    def slowly(self: ServedModel) -> None:
        time.sleep(seconds)
        start(self)

    ServedModel.start = slowly  # type: ignore[method-assign]


def keep_first_form() -> None:
    """Make all vectors as the first ones were asked for, as a careless cache would."""
    compute, first = VectorAnswers.compute, list[Any]()

    def careless(self: VectorAnswers, key: Any, contents: list[Any]) -> list[Any]:
        if key[0] == "vectors":
            first.append(key)
            key = first[0]
        return compute(self, key, contents)

    VectorAnswers.compute = careless  # type: ignore[method-assign]


def watch(file: Path) -> None:
    """Note every file that is opened, every connection and every pickle, one to a line."""
    notes = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in WATCHED:
            os.write(notes, f"{event} {arguments!r:.300}\n".encode("utf-8", "backslashreplace"))

    sys.addaudithook(note)


if __name__ == "__main__":
    main()
