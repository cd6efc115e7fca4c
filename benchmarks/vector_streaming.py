"""Does the memory of embed grow with its file? Peak memory on ever larger files.

    python benchmarks/vector_streaming.py [--rows 20000] [--times 1 4 16]

A small network with drawn weights embeds drawn texts into each kind of file: so many, and so many
times more. A row must leave nothing behind: more than 100 bytes a row is a failure, but only many
rows can tell, for peaks waver by some MB.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from cold_start import save_drawn_model, write_texts
from measured import run_bertworks
from streaming import GIVING_BACK

MOST_BYTES_A_ROW = 100
ENDINGS = ("npy", "parquet", "jsonl")


def main() -> None:
    """Make a model and the files, embed them, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 4, 16])
    options = parser.parse_args()
    os.environ |= GIVING_BACK  # noqa: TID251
    columns = "".join(f"{f'{times}x':>10}" for times in options.times)
    print(f"peak MB on {options.rows:,} rows, and on so many times more")
    print(f"{'':10}{columns}   bytes a row more")
    with tempfile.TemporaryDirectory() as name:
        grown = report(Path(name), options.rows, options.times)
    if max(grown) > MOST_BYTES_A_ROW:
        sys.exit("memory grows with the file")


def report(folder: Path, num_rows: int, times: list[int]) -> list[float]:
    """Print the peaks of each kind of file; return by how many bytes a row they grow."""
    save_drawn_model(folder / "model", hidden_size=32, num_layers=1)
    files = [write_texts(folder / f"{count}.jsonl", count * num_rows) for count in times]
    grown = []
    for ending in ENDINGS:
        peaks = []
        for file in files:
            out = Path(f"{file}.{ending}")
            words = ("--model", folder / "model", "--data", file, "--out", out)
            peaks.append(run_bertworks("embed", *words, "--device", "cpu", "--threads", 1).peak)
            out.unlink()
        grown.append((peaks[-1] - peaks[0]) * 2**20 / (num_rows * (times[-1] - times[0] or 1)))
        shown = "".join(f"{peak:10.0f}" for peak in peaks)
        print(f"{ending:10}{shown}{grown[-1]:12.1f}", flush=True)
    return grown


if __name__ == "__main__":
    main()
