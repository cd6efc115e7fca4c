"""Where an answer stands in its passage, by what a file says of it."""

import re
from typing import Any

from bertworks.core.errors import DataError
from bertworks.core.lines import is_unicode
from bertworks.data.examples import Found


def find_answer(text: Any, start: Any, passage: str) -> Found:
    """Return an answer at its place; one that stands elsewhere is taken where it is nearest."""
    if not isinstance(text, str) or not text.strip() or not is_unicode(text):
        raise DataError(f"the answer {text!r:.60} is empty or no text")
    said = max(_answer_start(start), 0)
    if passage[said : said + len(text)] == text:
        return Found(text, said)
    places = [found.start() for found in re.finditer(f"(?={re.escape(text)})", passage)]
    nearest = min(places, key=lambda place: abs(place - said), default=None)
    return Found(text, nearest, is_moved=start not in (None, "") and nearest is not None)


def is_whole(start: Any) -> bool:
    """Tell whether a value is a whole number, perhaps as text."""
    try:
        return not isinstance(start, bool) and float(start).is_integer()
    except (TypeError, ValueError, OverflowError):
        return False


def _answer_start(start: Any) -> int:
    """Return where an answer is said to start, or 0 where nothing is said."""
    if start in (None, ""):
        return 0
    if not is_whole(start):
        raise DataError(
            f"the start {start!r:.60} of an answer is no whole number; count the characters of "
            "the passage from 0 on"
        )
    return int(float(start))
