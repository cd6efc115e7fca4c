"""Two files under one path: `train.en-de` stands for train.en and train.de, line by line."""

import re
from collections.abc import Iterator
from pathlib import Path

from bertworks.core.errors import DataError
from bertworks.core.lines import COMPRESSIONS, is_compressed

BETWEEN = "-"  # the two languages of a pair
LONGEST_CODE = 12  # characters of the name of a language, as in zh_Hans
CODE = re.compile("[a-z]{2,3}([-_][A-Za-z]+)?")
FORMATS = {"csv", "log", "tar", "tsv", "txt", "zip"}  # which look like codes


def is_pair(file: Path) -> bool:
    """Tell whether a path names no file, but two by their languages that both lie there."""
    return _sides(file) is not None


def sides_of(file: Path) -> tuple[Path, ...]:
    """Return the files that a path stands for: two of a pair, or itself."""
    return _sides(file) or (file,)


def require_sides(file: Path) -> tuple[Path, ...]:
    """Return the files that a path stands for; a pair with a language that is not there is refused.

    Whether a path that is no pair at all is a file is for others to see.
    """
    known = _languages(file) if any(_pairs(file)) and not is_pair(file) else []
    if known and not file.exists():
        raise DataError(
            f"there is no file {file}, nor two for its languages; the languages that lie there "
            f"are {', '.join(known)}: name two of them with a {BETWEEN} between"
        )
    return sides_of(file)


def _sides(file: Path) -> tuple[Path, Path] | None:
    """Return the two files of a pair, each as it is or compressed, where both are there."""
    if file.exists():
        return None
    for pair in _pairs(file):
        first, second = (_there(file.with_suffix(f".{language}")) for language in pair)
        if first and second:
            return first, second
    return None


def _pairs(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the ways to read the end of a name as two languages, whose codes may have a hyphen."""
    parts = file.suffix.removeprefix(".").split(BETWEEN)
    if all(parts) and len(file.suffix) <= 2 * LONGEST_CODE:
        for place in range(1, len(parts)):
            yield BETWEEN.join(parts[:place]), BETWEEN.join(parts[place:])


def _there(file: Path) -> Path | None:
    names = (file.name, *(file.name + suffix for suffix in COMPRESSIONS))
    return next((file.with_name(name) for name in names if file.with_name(name).is_file()), None)


def _languages(file: Path) -> list[str]:
    """Return the languages of which there is a file with the same name."""
    found = set()
    for other in file.parent.glob("*") if file.parent.is_dir() else ():
        plain = other.with_suffix("") if is_compressed(other) else other
        code = plain.suffix.removeprefix(".")
        is_code = CODE.fullmatch(code) and code not in FORMATS
        if plain.stem == file.stem and is_code and other.is_file():
            found.add(code)
    return sorted(found)
