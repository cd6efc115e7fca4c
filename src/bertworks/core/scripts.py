"""Scripts of characters, and which of them are written without spaces between words."""

import unicodedata
from functools import cache

import numpy as np

from bertworks.core.code_points import CharTable, code_points

HAN, NUMBER, MARK = "Han", "Number", "Mark"
SPACELESS = (  # first, one behind the last, script
    (0x0E00, 0x0E80, "Thai"),
    (0x0E80, 0x0F00, "Lao"),
    (0x0F00, 0x1000, "Tibetan"),
    (0x1000, 0x10A0, "Myanmar"),
    (0x1780, 0x1800, "Khmer"),
    (0x1950, 0x1980, "Tai Le"),
    (0x1980, 0x19E0, "New Tai Lue"),
    (0x1A00, 0x1A20, "Buginese"),
    (0x1A20, 0x1AB0, "Tai Tham"),
    (0x3005, 0x3008, HAN),
    (0x3040, 0x30A0, "Hiragana"),
    (0x30A0, 0x3100, "Katakana"),
    (0x31F0, 0x3200, "Katakana"),
    (0x3400, 0x4DC0, HAN),
    (0x4E00, 0xA000, HAN),
    (0xA9E0, 0xAA00, "Myanmar"),
    (0xAA60, 0xAA80, "Myanmar"),
    (0xAA80, 0xAAE0, "Tai Viet"),
    (0xF900, 0xFB00, HAN),
    (0xFF66, 0xFFA0, "Katakana"),
    (0x1AFF0, 0x1B001, "Katakana"),
    (0x1B001, 0x1B170, "Hiragana"),
    (0x20000, 0x40000, HAN),
)
WITHOUT_SPACES = frozenset(script for _, _, script in SPACELESS)
EAST_ASIAN = frozenset({HAN, "Hiragana", "Katakana"})
TAGS = ("\U000e0020", "\U000e007f")  # the first and the last


@cache
def kind_of(char: str) -> str:
    """Return the script of a letter, or Number, Mark, or nothing for other characters.

    Python has no table of scripts; where ours ends, the first word of the character's name stands
    in for it.
    """
    category = unicodedata.category(char)[0]
    if category != "L":
        return {"N": NUMBER, "M": MARK}.get(category, "")
    for first, end, script in SPACELESS:
        if first <= ord(char) < end:
            return script
    return unicodedata.name(char, "OTHER").split()[0].partition("-")[0].capitalize()


def is_invisible(char: str) -> bool:
    """Tell whether a character only steers how others are shown, other than tags, as of flags."""
    return unicodedata.category(char) == "Cf" and not TAGS[0] <= char <= TAGS[1]


def script_of(text: str) -> str:
    """Return the script of most letters of a text, of equally many the first; none: nothing."""
    numbers = _NUMBERS.of(code_points(text))
    numbers = numbers[numbers > 0]
    counts = np.bincount(numbers, minlength=1)
    commonest = numbers[counts[numbers] == counts.max()]
    return _NAMES[commonest[0]] if len(commonest) else ""


def pattern_of(scripts: frozenset[str]) -> str:
    """Return the characters of scripts without spaces as the inside of [] in a pattern."""
    ranges = [(chr(first), chr(end - 1)) for first, end, name in SPACELESS if name in scripts]
    return "".join(f"{first}-{last}" for first, last in ranges)


_NAMES = [""]  # of the scripts met so far; which number one has is of no consequence


def _number_of(char: str) -> int:
    script = kind_of(char)
    if script in ("", NUMBER, MARK):
        return 0
    if script not in _NAMES:
        _NAMES.append(script)
    return _NAMES.index(script)


_NUMBERS = CharTable(_number_of)


EAST_ASIAN_CHARS = pattern_of(EAST_ASIAN)  # between brackets
