"""Places that come with their words: whether these stand there, or how else places were counted."""

import unicodedata
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from bertworks.core.errors import DataError
from bertworks.data.examples import Place

BOUNDS = (("start", "end"), ("start_offset", "end_offset"))  # ours, and those of doccano
OPEN_BOUNDS = ("start_idx", "end_idx")  # of CMeEE, whose ends are the last place or behind it
LABELS = ("label", "type")
WORDS = ("text", "word", "mention")
PERHAPS_WORDS = ("entity", "value")  # or a kind, or a value that was put into a normal form
UNITS = {"": "utf-32-le", "UTF-16 units": "utf-16-le", "bytes": "utf-8"}
WIDTHS = {"utf-32-le": 4, "utf-16-le": 2, "utf-8": 1}
COUNTED = "places are counted in characters from 0 on, and the end is the place behind the last"


def read_span(item: Any, text: str) -> tuple[Place, Any]:
    """Return the place and the label of a span, which is an object or a list of three values."""
    try:
        start, end, label = _span_values(item) if isinstance(item, dict) else item
    except (KeyError, TypeError, ValueError):
        raise DataError(f"the span {item!r:.60} is not a start, an end and a label") from None
    return read_place(item if isinstance(item, dict) else (start, end), text), label


def read_place(item: Any, text: str) -> Place:
    """Return where something stands in a text, from an object or from its start and its end."""
    told = item if isinstance(item, dict) else {}
    names = _bounds(told)
    pair: Any = tuple(told.get(name) for name in names) if told else item
    is_pair = isinstance(pair, list | tuple) and len(pair) == 2
    if not is_pair or not all(isinstance(at, int) and not isinstance(at, bool) for at in pair):
        raise DataError(f"{pair!r:.60} is no place in a text: give its start and its end")
    start, end = pair
    if names == OPEN_BOUNDS:
        end = _end_by_words(told, text, start, end)
    require_words(told, text, start, end)
    if not 0 <= start < end <= len(text):
        raise DataError(f"the place {start}..{end} is not in the text of {len(text)} characters")
    return start, end


def _span_values(told: Mapping[str, Any]) -> list[Any]:
    label = next((name for name in LABELS if name in told), LABELS[0])
    return [told[name] for name in (*_bounds(told), label)]


def _bounds(told: Mapping[str, Any]) -> tuple[str, str]:
    """Return what an object calls its start and its end."""
    named = (names for names in (*BOUNDS, OPEN_BOUNDS) if set(names) <= told.keys())
    return next(named, BOUNDS[0])


def _end_by_words(told: Mapping[str, Any], text: str, start: int, end: int) -> int:
    """Return the end of a place whose words alone tell whether it is the last place itself."""
    said = [told[name] for name in (*WORDS, *PERHAPS_WORDS) if isinstance(told.get(name), str)]
    words = next((one for one in said if one.strip()), "")
    if not words:
        raise DataError(
            f"the end of {start}..{end} may be the last place or the one behind it; give start "
            "and end, or the words that stand there as text"
        )
    ends = [at for at in (end, end + 1) if text[max(start, 0) : at] == words]
    ends += [at for at in (end, end + 1) if _are_at(words, text, start, at)]
    if not ends:
        require_at(words, text, start, end)
    return ends[0]


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
