"""Reading raw text of every known format, compressed or not, as one stream of documents."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertworks.core.artifact import MANIFEST, read_manifest
from bertworks.core.errors import ArtifactError, DataError
from bertworks.core.lines import (
    COMPRESSIONS,
    is_compressed,
    is_unicode,
    plain_suffix,
    read_beginning,
    read_lines,
    require_content,
    require_file,
)
from bertworks.core.quarantine import Quarantine
from bertworks.corpus.document import LONGEST_DOCUMENT, Document
from bertworks.corpus.documents import document_files
from bertworks.corpus.parquet import read_column
from bertworks.corpus.text_files import ARTICLE, read_articles, read_text
from bertworks.corpus.wiki_dump import Page, read_pages

JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (".txt", ".md", *JSON_LINES, ".parquet", ".xml")
QUARANTINE = "quarantine.jsonl"  # what a stage set aside is no text
MOST_SHOWN = 200  # characters of the keys of a row
_DUMP = re.compile(r"\.xml(-p\d+p\d+)?$")  # large dumps come in parts that name their pages
_EXTRACT = re.compile(r"wiki_\d+$")  # the names that wiki-extractor gives


def find_files(paths: tuple[Path, ...]) -> list[Path]:
    """Return the text files that the paths name, each one there to be read.

    Folders are searched; one that `clean` wrote is checked first. An empty file is refused where it
    was named, and a bad row where it was found.
    """
    return [file for path in paths for file in _find(path)]


def read_documents(
    files: list[Path], quarantine: Quarantine, *, column: str = "text", whole_files: bool = False
) -> Iterator[Document]:
    """Yield the documents of all files in order; bad rows go to the quarantine.

    `column` holds the text in JSONL and Parquet; with `whole_files` each text file is one document.
    """
    for raw in read_raw(files, quarantine, column=column, whole_files=whole_files):
        document = raw.plain()
        if document.paragraphs:
            yield document


def read_raw(
    files: list[Path], quarantine: Quarantine, *, column: str = "text", whole_files: bool = False
) -> Iterator[Document | Page]:
    """Yield documents as `read_documents`, but pages of a wiki with the markup still in them.

    Taking it out is slow, and several processes can do that.
    """
    for file in files:
        if not file.stat().st_size:
            quarantine.add(file, 1, "the file is empty")
            continue
        match _format_of(file):
            case "jsonl":
                yield from _documents(file, _read_jsonl(file, quarantine, column), quarantine)
            case "parquet":
                yield from _documents(file, read_column(file, column), quarantine)
            case "dump":
                yield from read_pages(file, quarantine)
            case "extract":
                yield from read_articles(file, quarantine)
            case "text":
                yield from read_text(file, quarantine, is_whole=whole_files)


def _find(path: Path) -> list[Path]:
    if (path / MANIFEST).exists():
        return document_files(path)
    if not path.is_dir():
        require_content(path)
        return [path]
    found = sorted(_search(path))
    if not found:
        raise DataError(
            f"{path} holds no text files ({', '.join(SUFFIXES)} or wiki_00, also "
            f"{', '.join(COMPRESSIONS)}); give other paths, or name folders that were made here"
        )
    for file in found:
        require_file(file)
    return found


def _search(folder: Path) -> Iterator[Path]:
    """Yield the text files below a folder, each once, whatever links there are.

    What is hidden or was made by a command is passed over: it would be read beside its own source.
    """
    seen: set[str] = set()
    for name, inner, files in os.walk(folder, onerror=_refuse, followlinks=True):
        place = Path(name)
        if os.path.realpath(place) in seen or (MANIFEST in files and _was_made_here(place)):
            inner.clear()
            continue
        seen.add(os.path.realpath(place))
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for file in (place / name for name in sorted(files) if not name.startswith(".")):
            if _is_text(file) and os.path.realpath(file) not in seen:
                seen.add(os.path.realpath(file))  # of links in a circle, too
                yield file


def _refuse(error: OSError) -> None:
    raise DataError(
        f"{error.filename} cannot be searched ({error.strerror}); change its permissions or give "
        "other paths"
    )


def _was_made_here(folder: Path) -> bool:
    try:
        return bool(read_manifest(folder))
    except ArtifactError:
        return False


def _is_text(path: Path) -> bool:
    if path.name == QUARANTINE:
        return False
    name = _plain_name(path)
    if _DUMP.search(name):  # all kinds of things are written in XML
        return path.is_file() and "<mediawiki" in _beginning(path)
    return plain_suffix(path) in SUFFIXES or _EXTRACT.match(name) is not None


def _plain_name(file: Path) -> str:
    return (file.stem if is_compressed(file) else file.name).lower()


def _format_of(file: Path) -> str:
    """Tell the format by name, and where several share a name by how the file begins."""
    name = _plain_name(file)
    if _DUMP.search(name):
        return "dump"
    if plain_suffix(file) in (*JSON_LINES, ".json"):
        return "jsonl"
    if plain_suffix(file) == ".parquet":
        return "parquet"
    beginning = _beginning(file)
    if beginning.startswith(ARTICLE):
        return "extract"
    return "jsonl" if _EXTRACT.match(name) and beginning.startswith("{") else "text"


def _beginning(file: Path) -> str:
    return read_beginning(file, 1000).decode("utf-8-sig", errors="replace").lstrip()


def _documents(
    file: Path, values: Iterator[tuple[int, Any]], quarantine: Quarantine
) -> Iterator[Document]:
    """Yield the numbered values of a column as documents, those that are text."""
    for number, text in values:
        if not isinstance(text, str) or not text.strip():
            quarantine.add(file, number, "the text is empty or not a string")
        elif not is_unicode(text):
            quarantine.add(file, number, "the text holds half of a surrogate pair")
        else:
            quarantine.pass_good()
            yield Document.from_text(text)


def _read_jsonl(file: Path, quarantine: Quarantine, column: str) -> Iterator[tuple[int, Any]]:
    for number, line in read_lines(file, quarantine, longest=LONGEST_DOCUMENT):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and column in row:
            yield number, row[column]
        else:
            quarantine.add(file, number, _lacking(row, column))


def _lacking(row: Any, column: str) -> str:
    """Return that a row has no such key, and the one that holds most text, if any does."""
    if not isinstance(row, dict):
        return f'not a JSON object with a "{column}"'
    found = ", ".join(map(_shown, row)) or "nothing"
    reason = f'no "{column}" (found {found:.{MOST_SHOWN}})'
    texts = [key for key, value in row.items() if isinstance(value, str)]
    if not texts:
        return reason
    longest = max(texts, key=lambda key: len(row[key]))
    return f"{reason}; name the key with clean --column {_shown(longest):.{MOST_SHOWN}}"


def _shown(key: str) -> str:
    """Return a key as it may be typed, on one line."""
    if not key.isprintable():
        return ascii(key)
    return key if key.isidentifier() else shlex.quote(key)
