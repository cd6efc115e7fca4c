"""Lines of text files, compressed or not, whatever is in them."""

import bz2
import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import IO

from bertworks.core.encodings import (
    HEAD_BYTES,
    UTF16_MARKS,
    guess_encoding,
    other_encoding,
)
from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.core.zstd import open_zstd

LONGEST_LINE = 1_000_000  # bytes; a longer line is no paragraph and no row
STANDARD_INPUT = Path("-")
LINE_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".txt")
BEGINNING = 1 << 24  # bytes that tell how long the lines of a file are
COMPRESSIONS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, ".zst": open_zstd}
UNREADABLE = (EOFError, lzma.LZMAError, zlib.error, OSError)  # a file that is torn or damaged


def require_file(file: Path) -> None:
    """Stop when there is no file that may be read again and again."""
    if not file.exists():
        raise DataError(f"there is no file {file}; check the path")
    if file.is_dir():
        raise DataError(f"{file} is a folder, but a file is needed here")
    if not file.is_file():
        raise DataError(f"{file} is a pipe or a device; write what it gives into a file first")
    if not os.access(file, os.R_OK):
        raise DataError(f"{file} may not be read; change its permissions or leave it out")


def require_content(file: Path) -> None:
    """Stop when a file is missing or empty."""
    require_file(file)
    if file.stat().st_size == 0:
        raise DataError(f"{file} is empty; give a file with text in it")


def is_compressed(file: Path) -> bool:
    """Tell by its name whether a file is compressed."""
    return file.suffix.lower() in COMPRESSIONS


def plain_suffix(file: Path) -> str:
    """Return the suffix that tells the format, in small letters, behind any compression's."""
    return (file.with_suffix("") if is_compressed(file) else file).suffix.lower()


def open_bytes(file: Path) -> AbstractContextManager[IO[bytes]]:
    """Open a file for reading, compressed or not, or lend standard input."""
    if file == STANDARD_INPUT:
        return _standard_input()
    return COMPRESSIONS.get(file.suffix.lower(), open)(file, "rb")  # type: ignore[operator]


def _standard_input() -> AbstractContextManager[IO[bytes]]:
    """Open standard input with a buffer of its own, in which a thread may wait to the very end."""
    try:
        handle = os.dup(sys.stdin.fileno())
    except OSError:  # some programs put a stream without a file in its place
        return nullcontext(sys.stdin.buffer)
    return os.fdopen(handle, "rb")


def read_beginning(file: Path, num_bytes: int = HEAD_BYTES) -> bytes:
    """Return the first bytes of a file, compressed or not."""
    try:
        with open_bytes(file) as stream:
            return stream.read(num_bytes)
    except UNREADABLE as error:
        raise DataError(f"{file} cannot be read after line 0: {error}") from error


def estimate_lines(file: Path) -> int | None:
    """Return about how many lines a long plain file has, by its beginning, or None."""
    is_plain = plain_suffix(file) in LINE_SUFFIXES and not is_compressed(file)
    if not is_plain or not file.is_file() or file.stat().st_size <= BEGINNING:
        return None
    with file.open("rb") as stream:
        found = stream.read(BEGINNING).count(b"\n")
    return round(found * file.stat().st_size / BEGINNING) or None


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written down; JSON can smuggle in halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_lines(
    file: Path, quarantine: Quarantine, *, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of every line that can be read as text."""
    for number, line in read_every_line(file, quarantine, longest=longest):
        if line is not None:
            yield number, line


def read_every_line(
    file: Path, quarantine: Quarantine, *, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, str | None]]:
    """Yield (line number, text) of every line; one that is set aside is None."""
    other = cache(lambda: _other_encoding(file))
    for number, raw in _raw_lines(file, longest):
        line, reason = None, f"longer than {longest:,} bytes; split it into lines"
        if len(raw) <= longest:
            line, reason = _decode(raw, is_first=number == 1)
            reason = reason and (other() or reason)
        if line is None:
            quarantine.add(file, number, reason)
        yield number, line


def _other_encoding(file: Path) -> str | None:
    """Return what most of a file is instead of UTF-8; a stream cannot be read twice."""
    can_repeat = file != STANDARD_INPUT and file.is_file()
    return other_encoding(read_beginning(file)) if can_repeat else None


def _decode(raw: bytes, *, is_first: bool) -> tuple[str | None, str]:
    """Return a line as text, or None and the reason."""
    try:
        line = raw.decode("utf-8-sig" if is_first else "utf-8")
    except UnicodeDecodeError as error:
        if raw.startswith(UTF16_MARKS):
            return None, guess_encoding(raw)
        return None, f"not UTF-8 at byte {error.start}"
    return (None, "holds a NUL character") if "\0" in line else (line, "")


def _raw_lines(file: Path, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines; of an overlong one only as much as shows that it is too long."""
    number = 0
    try:
        with open_bytes(file) as stream:
            while raw := stream.readline(longest + 1):
                number += 1
                yield number, raw
                while len(raw) > longest and not raw.endswith(b"\n"):
                    raw = stream.readline(longest + 1)
    except UNREADABLE as error:
        raise DataError(f"{file} cannot be read after line {number}: {error}") from error
