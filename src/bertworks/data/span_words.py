"""Places that come with their words: whether these stand there, or how else places were counted."""

import unicodedata
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from bertworks.core.errors import DataError

WORDS = ("text", "word", "mention")
PERHAPS_WORDS = ("entity", "value")  # or a kind, or a value that was put into a normal form
UNITS = {"": "utf-32-le", "UTF-16 units": "utf-16-le", "bytes": "utf-8"}
WIDTHS = {"utf-32-le": 4, "utf-16-le": 2, "utf-8": 1}
COUNTED = "places are counted in characters from 0 on, and the end is the place behind the last"


def require_words(item: Mapping[str, Any], text: str, start: int, end: int) -> None:
    """Stop when the words that an item carries are not what stands at its place."""
    sure, perhaps = (
        [item[name] for name in names if isinstance(item.get(name), str) and item[name].strip()]
        for names in (WORDS, PERHAPS_WORDS)
    )
    for words in sure[:1]:
        require_at(words, text, start, end)
    for words in perhaps:
        # That they stand elsewhere in the text tells nothing: PER is in super, too.
        if not _are_at(words, text, start, end) and next(_causes(words, text, start, end), None):
            require_at(words, text, start, end)


def require_at(words: str, text: str, start: int, end: int) -> None:
    """Stop when words are not what stands at their place, and name the likely cause."""
    if _are_at(words, text, start, end):
        return
    cause = next(_causes(words, text, start, end), None)
    why = f": {cause}; {COUNTED}" if cause else "; correct its place or its words"
    there = text[max(start, 0) : max(end, 0)]
    raise DataError(
        f"{words!r:.60} is not what stands at {start}..{end} of the text ({there!r:.60}){why}"
    )


def _are_at(words: str, text: str, start: int, end: int) -> bool:
    return _folded(text[max(start, 0) : max(end, 0)]) == _folded(words)


def _causes(words: str, text: str, start: int, end: int) -> Iterator[str]:
    """Yield every way of counting by which words are what stands at their place."""
    units = [("", UNITS[""])] if text.isascii() else UNITS.items()
    for first, (unit, encoding), longer in product((0, 1), units, (0, 1)):
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
    """Return a text in which case, white space and marks on letters do not count."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in parts if not (char.isspace() or unicodedata.combining(char)))
