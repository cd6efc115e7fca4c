"""The service, with faults in its network: for the tests that need them, and their controls.

    python benchmarks/doomed_service.py [--slow S] [--leak BYTES] [--mix] [--stuck-after S] WORDS

WORDS are those of `bertworks`. SIGUSR1 makes the next batch end its thread, SIGUSR2 makes it hang.
"""

import argparse
import signal
import sys
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

from bertworks.cli.main import main as bertworks
from bertworks.service.answers import Answers
from bertworks.service.batcher import BatchLimits

FOR_EVER = 3600.0  # seconds


@dataclass
class Fate:
    """What befalls the batches."""

    slow: float  # seconds that each takes longer
    leak: int  # bytes that each text leaves behind
    is_mixed: bool  # each text gets its neighbour's answer
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


def main() -> None:
    """Run the service under its fate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--leak", type=int, default=0)
    parser.add_argument("--mix", action="store_true")
    parser.add_argument("--stuck-after", type=float)
    asked, words = parser.parse_known_args()
    fate = Fate(asked.slow, asked.leak, asked.mix)
    signal.signal(signal.SIGUSR1, lambda *_: setattr(fate, "of_next", "die"))
    signal.signal(signal.SIGUSR2, lambda *_: setattr(fate, "of_next", "hang"))
    if asked.stuck_after is not None:
        BatchLimits.__init__.__kwdefaults__["stuck_after"] = asked.stuck_after
    doom(fate)
    sys.exit(bertworks(words))


def doom(fate: Fate) -> None:
    """Put a fate between the batches and the network."""
    compute = Answers.compute

    def doomed(self: Answers, key: Hashable, contents: list[Any]) -> list[Any]:
        fate.meet(contents)
        answers = compute(self, key, contents)
        return answers[1:] + answers[:1] if fate.is_mixed else answers

    Answers.compute = doomed  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
