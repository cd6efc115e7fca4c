"""Tokenizing and writing shards: MB/s per core and peak memory on a large input.

    python benchmarks/tokenizing.py [--megabytes 200] [--text FILE ...]

The text is Python's own documentation repeated (or the files given), learned with 30,000 pieces.
Words that come again are cut quickly, and in repeated text all do: give files with as much text as
is measured to see what a corpus gives.
The peer in the same run is the bare `tokenizers` library encoding the same text line by line in
batches on one core, which writes nothing and finds no sentences: the share of its rate that is left
shows what sentences, marks, checksums and files cost. Memory is that of all processes together.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from measured import run_bertworks, run_measured

LINES_PER_CALL = 1000


def main() -> None:
    """Make the input, run both sides in processes of their own, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--text", type=Path, nargs="*")
    parser.add_argument("--bare", type=Path, nargs=2, help="for the parent process only")
    options = parser.parse_args()
    if options.bare:
        print(json.dumps({"seconds": bare(*options.bare)}))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text.txt"
        _write_text(text, options.megabytes, options.text)
        size = text.stat().st_size / 1e6
        sample = folder / "sample.txt"
        _write_text(sample, 5, options.text)
        run_bertworks("learn-vocab", sample, "--out", folder / "tok", "--size", 30_000)
        report(text, folder, size)


def report(text: Path, folder: Path, size: float) -> None:
    """Measure one core, two cores and the bare library."""
    words = [sys.executable, __file__, "--bare", text, folder / "tok"]
    peer = size / json.loads(run_measured([str(word) for word in words]).output)["seconds"]
    print(f"{size:.0f} MB of text")
    print(f"tokenizers, 1 core     {peer:6.2f} MB/s")
    for workers in (1, 2):
        out = folder / f"shards-{workers}"
        made = run_bertworks(
            "tokenize", text, "--tokenizer", folder / "tok", "--out", out, "--workers", workers
        )
        rate = size / made.seconds
        share = rate / workers / peer
        print(
            f"bertworks, {workers} processes {rate:6.2f} MB/s, {rate / workers:.2f} a core, "
            f"{share:.2f} of the bare rate, peak memory {made.peak:.0f} MB"
        )


def bare(text: Path, tokenizer: Path) -> float:
    """Encode the text with the library alone on one core; return the seconds."""
    from tokenizers import Tokenizer

    engine = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    started = time.perf_counter()
    with text.open(encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    for first in range(0, len(lines), LINES_PER_CALL):
        engine.encode_batch_fast(lines[first : first + LINES_PER_CALL], add_special_tokens=False)
    return time.perf_counter() - started


def _write_text(path: Path, megabytes: int, sources: list[Path] | None) -> None:
    from bertworks.core.quarantine import Quarantine
    from bertworks.corpus.python_docs import read_topics
    from bertworks.corpus.read import find_files, read_documents

    if sources:
        documents = read_documents(find_files(tuple(sources)), Quarantine())
        blocks = [document.text for document in documents]
    else:
        blocks = ["\n".join(topic.paragraphs) for topic in read_topics()]
    with path.open("w", encoding="utf-8") as file:
        while True:
            for block in blocks:
                file.write(block + "\n\n")
                if file.tell() > megabytes * 1e6:
                    return


if __name__ == "__main__":
    main()
