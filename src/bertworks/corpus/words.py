"""Words of running text, found in arrays of code points, whatever a tokenizer makes of them."""

import re

import numpy as np

from bertworks.core.code_points import CharTable, code_points
from bertworks.core.scripts import WITHOUT_SPACES, pattern_of


def find_words(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which characters are letters or digits, and which of them begin a word.

    In scripts without spaces between words, every character is a word.
    """
    kinds = _KINDS.of(codes)
    is_letter, is_alone = kinds > 0, kinds == _ALONE
    begins = is_letter.copy()
    begins[1:] &= ~is_letter[:-1] | is_alone[1:] | is_alone[:-1]
    return is_letter, begins


def count_words(text: str) -> tuple[int, int]:
    """Count the words of a text, and those among them that are a character without spaces."""
    codes = code_points(text)
    _, begins = find_words(codes)
    return int(begins.sum()), int((_KINDS.of(codes) == _ALONE).sum())


_LETTER, _ALONE = 1, 2
_IS_ALONE = re.compile(f"[{pattern_of(WITHOUT_SPACES)}]")


def _kind_of(char: str) -> int:
    if not char.isalnum():
        return 0
    return _ALONE if _IS_ALONE.match(char) else _LETTER


_KINDS = CharTable(_kind_of)
