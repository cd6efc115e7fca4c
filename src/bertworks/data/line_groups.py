"""Lines that belong together: intents in three files, aspects in three lines."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError
from bertworks.core.lines import COMPRESSIONS, read_every_line, require_content
from bertworks.core.quarantine import Quarantine

Rows = Iterator[tuple[int, dict[str, Any]]]
ASPECT = "$T$"  # where the aspect stands in its text
POLARITIES = {"-1", "0", "1", "negative", "neutral", "positive"}
_LABEL = re.compile(r"[+-]?\w+")
WORDS, SLOTS, INTENTS = "seq.in", "seq.out", "label"


def read_aspects(file: Path, quarantine: Quarantine, columns: Mapping[str, str]) -> Rows:
    """Yield texts with an aspect put into its place, from three lines each."""
    for group in _threes(read_every_line(file, quarantine)):
        number = group[0][0]
        found = [line.strip() for _, line in group if line is not None]
        if not any(found):
            continue
        if len(found) < 3 or not all(found):
            quarantine.add(file, number, "one of its three lines is lost, empty or cannot be read")
        elif ASPECT not in found[0]:
            quarantine.add(file, number, f"no {ASPECT} in the first of its three lines")
        elif found[2].lower() not in POLARITIES:
            reason = f"the third of its lines is {found[2]!r:.60}, and not -1, 0 or 1"
            quarantine.add(file, number, reason)
        else:
            text, aspect, label = found
            yield number, {"text": text.replace(ASPECT, aspect), "aspect": aspect, "label": label}


def is_aspects(head: Sequence[str]) -> bool:
    """Tell whether lines come in threes, most of which are a text with a mark, words, a label."""
    groups = [[line or "" for _, line in group] for group in _threes(enumerate(head))]
    marked = [group for group in groups if len(group) == 3 and ASPECT in group[0]]
    shaped = [group for group in marked if _is_shaped(group)]
    # However many of the others are bad: who reads them names their lines, as nothing else could.
    is_mostly = 2 * len(marked) >= len(groups) and 2 * len(shaped) >= len(marked)
    return bool(shaped) and is_mostly


def _is_shaped(group: Sequence[str]) -> bool:
    """Tell whether a marked text has its aspect and a label below: a $T$ may also be of a formula.

    The label may be none of ours, which is then told line by line.
    """
    _, aspect, label = group
    return bool(aspect.strip()) and _LABEL.fullmatch(label.strip()) is not None


def _threes(lines: Iterable[tuple[int, str | None]]) -> Iterator[list[tuple[int, str | None]]]:
    """Yield lines in threes; behind a lost line the next text with a mark begins a new one."""
    group: list[tuple[int, str | None]] = []
    for number, line in lines:
        if group and (len(group) == 3 or (line is not None and ASPECT in line)):
            yield group
            group = []
        group.append((number, line))
    if group:
        yield group


def read_intents(folder: Path, quarantine: Quarantine, columns: Mapping[str, str]) -> Rows:
    """Yield utterances with slots and intents from the same lines of three files."""
    files = {"tokens": _part(folder, WORDS), "tags": _part(folder, SLOTS)}
    files |= {"intent": _part(folder, INTENTS)}
    for file in filter(None, files.values()):
        require_content(file)
    there = {name: file for name, file in files.items() if file is not None}
    _require_even(there.values())
    streams = [read_every_line(file, quarantine) for file in there.values()]
    for number, group in enumerate(zip_longest(*streams, fillvalue=(0, "")), start=1):
        row = {name: line.strip() for name, (_, line) in zip(there, group, strict=True) if line}
        if not any(row.values()):
            continue
        if not all(row.get(name) for name in there):
            missing = ", ".join(file.name for name, file in there.items() if not row.get(name))
            quarantine.add(there["tokens"], number, f"nothing on the same line of {missing}")
            continue
        lists = {name: row[name].split() for name in ("tokens", "tags") if name in row}
        yield number, row | lists


def _require_even(files: Iterable[Path]) -> None:
    """Stop when files have not the same number of lines: one that is lost would move all others."""
    numbers = {file: _num_lines(file) for file in files}
    filled, counts = zip(*numbers.values(), strict=True)
    if max(filled) > min(counts):  # blank lines at the end aside
        (first, (_, count)), *others = numbers.items()
        told = ", ".join(f"{file.name} {other:,}" for file, (_, other) in others)
        raise DataError(
            f"{first} has {count:,} lines, {told}; the same line of each must be of one utterance, "
            "so find where lines are lost"
        )


def _num_lines(file: Path) -> tuple[int, int]:
    """Return how many lines a file has up to the last that is not blank, and in all."""
    filled = number = 0
    for number, line in read_every_line(file, Quarantine()):
        filled = number if line is None or line.strip() else filled
    return filled, number


def is_intents(folder: Path) -> bool:
    """Tell whether a folder holds utterances in the three-file form."""
    return _part(folder, WORDS) is not None


def require_intents(folder: Path) -> None:
    """Stop when a folder is none of utterances."""
    if not is_intents(folder):
        raise DataError(
            f"{folder} is a folder without {WORDS}, {SLOTS} and {INTENTS}; give a file, or a "
            "folder with these three"
        )


def _part(folder: Path, name: str) -> Path | None:
    names = (name, *(name + suffix for suffix in COMPRESSIONS))
    return next((folder / found for found in names if (folder / found).is_file()), None)
