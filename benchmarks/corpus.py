"""Cleaning, learning a vocabulary and tokenizing: MB/s and peak memory of each on a large corpus.

    python benchmarks/corpus.py [--megabytes 1000] [--workers 1 2] [--size 30000] [--text FILE ...]

The corpus is Python's own documentation (or the files given), passed over again and again with a
third of the words exchanged, so that no pass is a copy of another; a twentieth of the documents is
followed by a copy, another twentieth by a near copy. `clean` and `tokenize` run once for each
number of workers, and their results must be the same bytes. Memory is that of all processes.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
from measured import run_bertworks

FILE_MEGABYTES = 100
EXCHANGED = 1 / 3
COPIES = NEAR_COPIES = 1 / 20
VOCABULARY_MEGABYTES = 200  # a vocabulary is learned from so much of the text


def main() -> None:
    """Write the corpus, run the three stages, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--size", type=int, default=30_000)
    parser.add_argument("--text", type=Path, nargs="*")
    parser.add_argument("--folder", type=Path, help="where to work; by default the temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        (folder / "text").mkdir()
        write_corpus(folder / "text", options.megabytes, read_documents(options.text))
        report(folder, options.workers, options.size)


def report(folder: Path, workers: list[int], size: int) -> None:
    """Run the stages and print their rates, their memory and the hashes of what they made."""
    text = folder / "text"
    cleaned = [_clean(text, folder / f"documents-{number}", number) for number in workers]
    documents = folder / f"documents-{workers[0]}"
    sample = sorted(text.iterdir())[: max(VOCABULARY_MEGABYTES // FILE_MEGABYTES, 1)]
    made = run_bertworks("learn-vocab", *sample, "--out", folder / "tok", "--size", size)
    _print("learn-vocab", 1, _megabytes(sample), made.seconds, made.peak)
    kept = json.loads((documents / "statistics.json").read_text())["kept"]["bytes"] / 1e6
    shards = [
        _tokenize(documents, folder / "tok", folder / f"shards-{number}", number, kept)
        for number in workers
    ]
    for name, hashes in (("documents", cleaned), ("shards", shards)):
        for number, found in zip(workers, hashes, strict=True):
            print(f"{name}, {number} processes: sha256 {found}")
        if len(set(hashes)) > 1:
            sys.exit(f"the {name} depend on the number of processes")


def _clean(text: Path, out: Path, workers: int) -> str:
    made = run_bertworks("clean", text, "--out", out, "--workers", workers)
    _print("clean", workers, _megabytes(list(text.iterdir())), made.seconds, made.peak)
    result = json.loads(made.output)
    print(f"  {result['documents_read']:,} documents, {result['documents_kept']:,} kept;", end=" ")
    print("; ".join(f"{row['documents']:,} {row['reason']}" for row in result["dropped"]))
    return hash_of(out, "documents-*")


def _tokenize(documents: Path, tokenizer: Path, out: Path, workers: int, megabytes: float) -> str:
    words = ["tokenize", documents, "--tokenizer", tokenizer, "--out", out, "--workers", workers]
    made = run_bertworks(*words)
    _print("tokenize", workers, megabytes, made.seconds, made.peak)
    print(f"  {json.loads(made.output)['tokens']:,} tokens")
    return hash_of(out, "*.bin")


def _print(stage: str, workers: int, megabytes: float, seconds: float, peak: float) -> None:
    rate = megabytes / seconds
    print(
        f"{stage:<12} {workers} processes: {megabytes:,.0f} MB in {seconds:,.0f} s, "
        f"{rate:.2f} MB/s, {rate / workers:.2f} a process, peak memory {peak:,.0f} MB",
        flush=True,
    )


def hash_of(folder: Path, pattern: str) -> str:
    """Return one sha256 over the names and bytes of some files of a folder."""
    whole = hashlib.sha256()
    for path in sorted(folder.glob(pattern)):
        with path.open("rb") as file:
            whole.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def write_corpus(folder: Path, megabytes: int, documents: list[str]) -> None:
    """Write files of documents until they are large enough."""
    written, made = 0, _endless(documents)
    for number in count():
        limit = min(FILE_MEGABYTES * 1_000_000, megabytes * 1_000_000 - written)
        if limit <= 0:
            return
        with (folder / f"text-{number:03d}.txt").open("w", encoding="utf-8") as file:
            while file.tell() < limit:
                file.writelines(f"{next(made)}\n\n" for _ in range(20))
            written += file.tell()


def _endless(documents: list[str]) -> Iterator[str]:
    random = np.random.default_rng(1)
    vocabulary = np.array(sorted({word for text in documents for word in text.split(" ")}), object)
    for turn in count():
        for text in documents:
            made = _exchange(text, EXCHANGED if turn else 0, vocabulary, random)
            yield made
            if random.random() < COPIES:
                yield made
            if random.random() < NEAR_COPIES:
                yield _exchange(made, 0.01, vocabulary, random)


def _exchange(text: str, share: float, vocabulary: np.ndarray, random: np.random.Generator) -> str:
    words = np.array(text.split(" "), object)
    is_changed = random.random(len(words)) < share
    words[is_changed] = random.choice(vocabulary, int(is_changed.sum()))
    return " ".join(words)


def read_documents(sources: list[Path] | None) -> list[str]:
    """Return the documents that the corpus is made of."""
    from bertworks.core.quarantine import Quarantine
    from bertworks.corpus import read
    from bertworks.corpus.python_docs import read_topics

    if not sources:
        return ["\n".join(topic.paragraphs) for topic in read_topics()]
    files = read.find_files(tuple(sources))
    return [document.text for document in read.read_documents(files, Quarantine())]


def _megabytes(files: list[Path]) -> float:
    return sum(file.stat().st_size for file in files) / 1e6


if __name__ == "__main__":
    main()
