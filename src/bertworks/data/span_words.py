"""Places that come with their words: whether these stand there, or how else places were counted."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from bertworks.core.errors import DataError

WORDS = ("text", "word", "mention")
PERHAPS_WORDS = ("entity", "value")  # or a kind, or a value that was put into a normal form
UNITS = {"": "utf-32-le", "UTF-16 units": "utf-16-le", "bytes": "utf-8"}
WIDTHS = {"utf-32-le": 4, "utf-16-le": 2, "utf-8": 1}
COUNTED = "places are counted in characters from 0 on, and the end is the place behind the last"


def words_of(item: Mapping[str, Any], text: str) -> str | None:
    """Return the words that a place in a text carries, or None where it carries none."""
    sure, perhaps = (
        [item[name] for name in names if isinstance(item.get(name), str) and item[name].strip()]
        for names in (WORDS, PERHAPS_WORDS)
    )
    within = (words for words in perhaps if _folded(words) in _folded(text))
    return next(iter((*sure, *within)), None)


def require_words(words: str, text: str, start: int, end: int) -> None:
    """Stop when words are not what stands at their place, and name the likely cause."""
    there = text[max(start, 0) : max(end, 0)]
    if _folded(there) == _folded(words):
        return
    cause = next(_causes(words, text, start, end), None)
    why = f": {cause}; {COUNTED}" if cause else "; correct its place or its words"
    raise DataError(
        f"{words!r:.60} is not what stands at {start}..{end} of the text ({there!r:.60}){why}"
    )


def _causes(words: str, text: str, start: int, end: int) -> Iterator[str]:
    """Yield every way of counting by which words are what stands at their place."""
    for first, (unit, encoding), longer in product((0, 1), UNITS.items(), (0, 1)):
        width, whole = WIDTHS[encoding], text.encode(encoding)
        begin, behind = start - first, end - first + longer
        if begin < 0:
            continue
        there = whole[width * begin : width * behind].decode(encoding, "replace")
        if there.casefold() == words.casefold():
            told = [f"places seem to be counted in {unit}"] if unit else []
            told += ["places seem to be counted from 1"] if first else []
            told += ["the end seems to be the last place itself"] if longer else []
            yield " and ".join(told)


def _folded(text: str) -> str:
    """Return a text in which case and white space do not count."""
    return " ".join(text.casefold().split())
