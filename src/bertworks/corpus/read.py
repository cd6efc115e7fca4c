"""Reading raw text: plain text (documents between blank lines) and JSONL, compressed or not."""

import json
from collections.abc import Iterator
from pathlib import Path

from bertworks.core.errors import DataError
from bertworks.core.lines import is_unicode, plain_suffix, read_lines, require_content
from bertworks.core.quarantine import Quarantine
from bertworks.corpus.document import Document

SUFFIXES = (".txt", ".md", ".jsonl")


def find_files(paths: tuple[Path, ...]) -> list[Path]:
    """Return the text files that the paths name, folders searched, each one there and not empty."""
    files: list[Path] = []
    for path in paths:
        found = sorted(filter(_is_text, path.rglob("*"))) if path.is_dir() else [path]
        if not found:
            raise DataError(f"{path} holds no text files ({', '.join(SUFFIXES)}, also .gz or .xz)")
        files += found
    for file in files:
        require_content(file)
    return files


def read_documents(files: list[Path], quarantine: Quarantine) -> Iterator[Document]:
    """Yield the documents of all files in order; bad lines go to the quarantine."""
    for file in files:
        reader = _read_jsonl if plain_suffix(file) == ".jsonl" else _read_text
        yield from reader(file, quarantine)


def _read_text(file: Path, quarantine: Quarantine) -> Iterator[Document]:
    paragraphs: list[str] = []
    for _, line in read_lines(file, quarantine):
        if line.strip():
            quarantine.num_good += 1
            paragraphs.append(line.strip())
        elif paragraphs:
            yield Document(tuple(paragraphs))
            paragraphs = []
    if paragraphs:
        yield Document(tuple(paragraphs))


def _read_jsonl(file: Path, quarantine: Quarantine) -> Iterator[Document]:
    for number, line in read_lines(file, quarantine):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError, RecursionError):
            quarantine.add(file, number, 'not a JSON object with a "text"')
            continue
        paragraphs = (
            tuple(filter(None, map(str.strip, text.splitlines()))) if isinstance(text, str) else ()
        )
        if not paragraphs:
            quarantine.add(file, number, "the text is empty or not a string")
        elif not is_unicode(text):
            quarantine.add(file, number, "the text holds half of a surrogate pair")
        else:
            quarantine.num_good += 1
            yield Document(paragraphs)


def _is_text(path: Path) -> bool:
    return path.is_file() and plain_suffix(path) in SUFFIXES
