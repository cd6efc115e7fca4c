"""Unicode repair: text as its writer meant it, whatever programs did to it on the way."""

import re
import unicodedata
from typing import Literal

from bertworks.core.optional import import_optional

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
_UNSPACED = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u1aaf\uaa60-\uaadf"
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


def _repair_once(text: str, form: Form) -> str:
    if _SURROGATE.search(text):  # halves that belong together are joined, others are lost
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _JUNK.sub("", _LINE_END.sub("\n", text.replace("\r\n", "\n")))
    if _INVISIBLE.search(text):
        text = _MISPLACED.sub("", text)
    text = unicodedata.normalize(form, text)
    text = _SPACES.sub(" ", _SPACE.sub(" ", text))
    text = _MARGIN.sub("", text)
    return _BLANK_LINES.sub("\n\n", text).strip("\n ")


def _decode_again(text: str) -> str:
    """Undo wrong decodings line by line, for a text can hold lines of several origins."""
    ftfy = import_optional("ftfy", extra="corpus", purpose="mending mojibake")
    lines = text.split("\n")
    return "\n".join(line if line.isascii() else ftfy.fix_encoding(line) for line in lines)
