"""Strings far longer than what is read of any: checked part by part, only their beginnings kept.

Python does nothing else while it reads one string, so that all clients would wait for one that
sends 100 MB. A part is read in less than a millisecond, and others have their turn in between.
"""

import json
import re
from codecs import utf_8_decode

from bertworks.service.admission import require_whole_characters
from bertworks.service.failures import Failure

PART = 64 << 10  # bytes that are read without a pause
MOST_STRINGS = 1 << 16  # of a body that are looked at
ESCAPE = 6  # bytes of the longest escape
HALF = re.compile(rb"\\u[dD][89abAB]")  # begins the first half of a character, another escape ends


def without_ends(body: bytearray, *, kept: int) -> bytearray:
    """Return a body of JSON with at least so many characters of its long strings, but few more."""
    if len(body) <= kept:
        return body
    found, done, place = bytearray(), 0, 0
    for _ in range(MOST_STRINGS):
        place = body.find(b'"', place) + 1
        if not place:
            break
        cut, end = _read_string(body, place, kept=kept)
        if cut is not None:
            found += body[done:cut]
            done = end
        place = end + 1
    return found + body[done:] if done else body


def _read_string(body: bytearray, start: int, *, kept: int) -> tuple[int | None, int]:
    """Return where a string may be cut, if it is too long, and where it ends."""
    cut, end, num_characters = None, start, 0
    while body[end : end + 1] != b'"':
        num_bytes, num_more = _read_part(bytes(body[end : end + PART]), end)
        end += num_bytes
        num_characters += num_more
        if cut is None and num_characters >= kept:
            cut = end
    return cut, end


def _read_part(part: bytes, place: int) -> tuple[int, int]:
    """Return how many bytes and characters of a string can be read; what is none is refused."""
    part = part[: _whole(part)]
    try:
        text, num_bytes = utf_8_decode(part, "strict", False)  # half a letter at the end is left
    except UnicodeDecodeError as error:
        raise _not_utf_8(place + error.start) from None
    if not num_bytes:
        raise _not_utf_8(place) if part else _unreadable("a string has no end", place)
    try:
        num_characters = len(json.loads(f'"{text}"'))
        if "\\u" in text:
            require_whole_characters(f'"{text}"')
    except ValueError as error:
        raise _unreadable(getattr(error, "msg", str(error)), place) from None
    return num_bytes, num_characters


def _whole(part: bytes) -> int:
    """Return where a part ends that begins outside of an escape: at a quote, or before a torn one.

    Of two backslashes the first escapes the second; all that are left then begin an escape.
    """
    if b"\\" in part:
        part = part.replace(rb"\\", b"  ").replace(rb"\"", b"\\ ")
    end = part.find(b'"')
    if end >= 0:
        return end
    last = part.rfind(b"\\")
    if last < 0 or last < len(part) - ESCAPE:
        return len(part)
    return last - ESCAPE if HALF.match(part, max(last - ESCAPE, 0), last) else last


def _unreadable(why: str, place: int) -> Failure:
    return Failure(
        "bad_request", f"the body cannot be read as JSON: {why}, in or behind byte {place}"
    )


def _not_utf_8(place: int) -> Failure:
    return Failure("bad_request", f"byte {place} of the body is not UTF-8; send JSON in UTF-8")
