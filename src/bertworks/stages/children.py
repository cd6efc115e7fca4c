"""Commands that a stage runs in processes of their own, also side by side; none outlives it."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from threading import Lock
from typing import Self

from bertworks.core.errors import BertworksError, FullMemoryError, TrainingError
from bertworks.core.progress import say

COMMAND = "bertworks.cli.child"


class Children:
    """The commands that run just now; they end with what they were started in."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = Lock()
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End those that still run, and let no other begin."""
        with self._lock:
            self._is_over = True
            for process in self._running:
                if process.stdin:
                    process.stdin.close()

    def run(self, words: Sequence[str], *, whose: str = "") -> None:
        """Run a command to its end and say what it says, each line behind whose it is.

        What it says last is the reason if it fails.
        """
        process, said = self._start(words), ""
        try:
            with process:
                for line in process.stdout or ():
                    said = line.rstrip("\n")
                    say(f"{whose}: {said}" if whose and said else said)
                process.wait()  # before its input is closed, which would end it
        finally:
            with self._lock:
                self._running.remove(process)
        if process.returncode:
            reason = said.removeprefix("bertworks: ")
            if process.returncode == TrainingError.told_code:
                raise TrainingError(reason)
            if process.returncode == FullMemoryError.told_code:
                raise FullMemoryError(f"the memory was full in {words[0]}")
            raise BertworksError(f"{words[0]} ended with code {process.returncode}: {reason}")

    def _start(self, words: Sequence[str]) -> "subprocess.Popen[str]":
        with self._lock:
            if self._is_over:
                raise BertworksError(f"{words[0]} is not begun any more")
            process = subprocess.Popen(
                [sys.executable, "-m", COMMAND, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
            )
            self._running.add(process)
            say(f"\n$ bertworks {shlex.join(words)}")
        return process
