"""Does memory stay the same over gigabytes? `embed` reads a stream of JSON lines without end.

    python benchmarks/large_file.py [--gigabytes 10] [--share 0.1]

A tiny network makes vectors of 32 bits of drawn texts, nearly all different, from a few words to
some hundred; `--share` is that of the text in a row, the rest is another column. Nothing of the
input lies on a disk. After every tenth of it the memory of the process and its peak are printed,
with the C library as it comes. A peak that grows by more than 5 % behind the first tenth is a
failure.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cold_start import WORDS, save_drawn_model

ROWS_AT_ONCE = 200
MOST_WORDS = 200
LARGEST_GROWTH = 1.05


def main() -> None:
    """Feed a process, print its memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--share", type=float, default=0.1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_drawn_model(folder / "model", hidden_size=32, num_layers=2)
        peaks = feed(folder, options.gigabytes * 1e9, options.share)
    if peaks[-1] > LARGEST_GROWTH * peaks[0]:
        sys.exit("memory grows with the file")


def feed(folder: Path, size: float, share: float) -> list[float]:
    """Return the peak MB after each tenth of a stream."""
    words = [sys.executable, "-m", "bertworks", "embed", "--model", folder / "model", "--data", "-"]
    words += ["--out", folder / "vectors.npy", "--numbers", "binary", "--max-length", "64"]
    process = subprocess.Popen([*map(str, words), "--json"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    peaks: list[float] = []
    sent, started = 0, time.perf_counter()
    print(f"{'GB read':>8}{'seconds':>9}{'MB':>7}{'peak MB':>9}", flush=True)
    for part in rows(share):
        process.stdin.write(part)
        sent += len(part)
        if sent >= size * (len(peaks) + 1) / 10:
            now, peak = memory_of(process.pid)
            took = time.perf_counter() - started
            print(f"{sent / 1e9:>8.2f}{took:>9.0f}{now:>7.0f}{peak:>9.0f}", flush=True)
            peaks.append(peak)
        if len(peaks) == 10:
            break
    process.stdin.close()
    if process.wait():
        sys.exit(process.returncode)
    return peaks


def rows(share: float) -> Iterator[bytes]:
    """Yield JSON lines, some at a time; texts are put together from drawn parts anew."""
    chance = random.Random(7)
    parts = [" ".join(chance.choices(WORDS, k=chance.randint(2, 9))) for _ in range(5000)]
    number = 0
    while True:
        lines = []
        for _ in range(ROWS_AT_ONCE):
            number += 1
            text = " ".join(chance.choices(parts, k=chance.randint(1, MOST_WORDS // 5)))
            other = "x" * int(len(text) * (1 / share - 1))
            lines.append(f'{{"number": {number}, "body": "{other}", "text": "{number} {text}"}}\n')
        yield "".join(lines).encode()


def memory_of(pid: int) -> tuple[float, float]:
    """Return the memory of a process and its peak so far, in MB."""
    told = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in told if line.startswith("Vm")}
    return int(found["VmRSS"]) / 1024, int(found["VmHWM"]) / 1024


if __name__ == "__main__":
    main()
