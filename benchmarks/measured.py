"""Commands in processes of their own, with the time they take and the memory of all of them."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SECONDS_BETWEEN_LOOKS = 0.05


@dataclass(frozen=True)
class Measured:
    """What a command printed, how long it took, and its peak memory in MB."""

    output: str
    seconds: float
    peak: float


def run_bertworks(*words: object) -> Measured:
    """Run a bertworks command that prints JSON."""
    return run_measured([sys.executable, "-m", "bertworks", *map(str, words), "--json"])


def run_measured(words: list[str]) -> Measured:
    """Run a command, one library thread for each process; a failure ends this process too."""
    single = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **single}  # noqa: TID251
    started = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, memory_of_tree(process.pid))
        time.sleep(SECONDS_BETWEEN_LOOKS)
    seconds = time.perf_counter() - started
    if process.returncode:
        sys.exit(process.returncode)
    return Measured(process.stdout.read() if process.stdout else "", seconds, peak)


def memory_of_tree(root: int) -> float:
    """Return the memory of a process and its descendants in MB, what they share counted once."""
    total, waiting = 0.0, [root]
    while waiting:
        pid = waiting.pop()
        folder = Path(f"/proc/{pid}")
        try:
            for line in (folder / "smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) / 1024 if line.startswith("Pss:") else 0
            for task in (folder / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # it has just ended
    return total
