"""Unicode repair: text as its writer meant it, whatever programs did to it on the way."""

import re
import unicodedata
from functools import cache
from typing import Literal

import numpy as np

from bertworks.core.code_points import CharTable, code_points
from bertworks.core.optional import import_optional
from bertworks.core.scripts import EAST_ASIAN, WITHOUT_SPACES, pattern_of

Form = Literal["NFC", "NFKC"]


def repair(text: str, *, form: Form = "NFC", mojibake: bool = False) -> str:
    """Return text in a normal form, without control characters, stray marks and odd spaces.

    Line breaks stay, as newlines. With `mojibake`, which needs the extra `corpus`, text that was
    decoded in a wrong encoding is mended as well. What was repaired once is left as it is.
    """
    for _ in range(MOST_ROUNDS):
        repaired = _repair_once(_decode_again(text) if mojibake else text, form)
        if repaired == text:
            break
        text = repaired
    return text


MOST_ROUNDS = 9  # what one round takes away can join what stood around it; real text needs two

# Scripts in which (non-)joiners choose between forms of a letter: Arabic to Malayalam, Tibetan to
# Mongolian and so on; those that mark words by an invisible space; characters that are pictures.
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1900-\u1cff\ua840-\uabff"
_UNSPACED = pattern_of(WITHOUT_SPACES - EAST_ASIAN)
_PICTURE = "\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_MONGOLIAN = "\u1800-\u18af"

_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_END = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_JUNK = re.compile(
    "[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad"  # control characters, soft hyphens
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions
    "\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb"  # invisible marks of all kinds
    "\ufdd0-\ufdef\ufffe\uffff\U0001fffe\U0001ffff]"  # no characters at all
)
_INVISIBLE = re.compile("[\u180e\u200b-\u200d\U000e0001-\U000e007f]")
_MISPLACED = re.compile(
    f"(?<![{_UNSPACED}])\u200b|\u200b(?![{_UNSPACED}])"
    f"|(?<![{_JOINING}])\u200c"
    f"|(?<![{_JOINING}])(?:(?<![{_PICTURE}\u20e3\ufe0f])\u200d|\u200d(?![{_PICTURE}]))"
    f"|(?<![{_MONGOLIAN}])\u180e"
    # Tags spell flags behind a black flag; elsewhere they hide text.
    "|(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0001-\U000e007f]+"
)
_SPACE = re.compile(f"[\t\x1f\xa0\u1680\u2000-\u200a\u202f\u205f\u3000](?<![{_MONGOLIAN}]\u202f)")
_SPACES = re.compile(" {2,}")
_MARGIN = re.compile(" (?=\n)|(?<=\n) ")
_BLANK_LINES = re.compile("\n{3,}")


_TRAITS = (_SURROGATE, _LINE_END, _JUNK, _INVISIBLE, _SPACE)


def _repair_once(text: str, form: Form) -> str:
    found = _found(text)
    if _SURROGATE in found:  # halves that belong together are joined, others are lost
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        found = _found(text)
    if _LINE_END in found:
        text = _LINE_END.sub("\n", text.replace("\r\n", "\n"))
    if _JUNK in found:
        text = _JUNK.sub("", text)
    if _INVISIBLE in found:
        text = _MISPLACED.sub("", text)
    normal = unicodedata.normalize(form, text)
    if _SPACE in (found if normal == text else _found(normal)):
        normal = _SPACE.sub(" ", normal)
    return _close_gaps(normal)


def _close_gaps(text: str) -> str:
    if "  " in text:
        text = _SPACES.sub(" ", text)
    if " \n" in text or "\n " in text:
        text = _MARGIN.sub("", text)
    if "\n\n\n" in text:
        text = _BLANK_LINES.sub("\n\n", text)
    return text.strip("\n ")


def _found(text: str) -> list[re.Pattern[str]]:
    """Return the patterns of which a text has a character; most texts have none."""
    bits = int(np.bitwise_or.reduce(_TRAIT_BITS.of(code_points(text)), initial=0))
    return [pattern for place, pattern in enumerate(_TRAITS) if bits >> place & 1]


def _trait_bits(char: str) -> int:
    return sum(1 << place for place, pattern in enumerate(_TRAITS) if pattern.match(char))


_TRAIT_BITS = CharTable(_trait_bits)


def _decode_again(text: str) -> str:
    """Undo wrong decodings line by line, for a text can hold lines of several origins."""
    ftfy = import_optional("ftfy", extra="corpus", purpose="mending mojibake")
    lines = text.split("\n")
    for number in _suspect_lines(text, lines):
        lines[number] = ftfy.fix_encoding(lines[number])
    return "\n".join(lines)


def _suspect_lines(text: str, lines: list[str]) -> list[int]:
    """Return the lines that could hold mojibake: it is made of neighbors, or of telling ones."""
    kinds = _suspicions().of(code_points(text))
    is_suspect = kinds == _TELLING
    is_suspect[1:] |= (kinds[1:] > 0) & (kinds[:-1] > 0)
    ends = np.cumsum([len(line) + 1 for line in lines])
    return np.unique(np.searchsorted(ends, np.flatnonzero(is_suspect), side="right")).tolist()


_MADE, _TELLING = 1, 2
# Alone they can be what is left of two bytes, the second of which became a space or was lost.
_ALONE = re.compile("[\x80-\x9fÂÃŒœ]")


@cache
def _suspicions() -> CharTable:
    """Tell which characters the encodings that ftfy knows make of bytes above 127."""
    chardata = import_optional("ftfy.chardata", extra="corpus", purpose="mending mojibake")
    upper = bytes(range(128, 256))
    made = {c for name in chardata.CHARMAP_ENCODINGS for c in upper.decode(name, "ignore")}
    made.add("\N{REPLACEMENT CHARACTER}")  # stands for a byte that an encoding did not know
    return CharTable(lambda c: _TELLING if _ALONE.match(c) else _MADE if c in made else 0)
