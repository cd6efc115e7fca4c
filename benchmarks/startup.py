"""How long a person waits for help: `bertworks --help` and a command's, best and median of 20.

python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import time

CASES = {
    "python -c pass": ["-c", "pass"],
    "bertworks --help": ["-m", "bertworks", "--help"],
    "bertworks pretrain --help": ["-m", "bertworks", "pretrain", "--help"],
    "import bertworks": ["-c", "import bertworks"],
    "import torch": ["-c", "import torch"],
}


def main() -> None:
    """Print the seconds of every case."""
    for name, words in CASES.items():
        seconds = [_seconds(words) for _ in range(20 if "torch" not in name else 3)]
        print(f"{name:26} best {min(seconds):.3f} s, median {statistics.median(seconds):.3f} s")


def _seconds(words: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
