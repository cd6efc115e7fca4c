"""Texts as arrays of code points, and tables of what is known of each character.

Counting in arrays is many times quicker than looking at one character after another.
"""

from collections.abc import Callable

import numpy as np

NUM_CODES = 0x110000
_NEW = 255


def code_points(text: str) -> np.ndarray:
    """Return the characters of a text as numbers."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), np.uint32)


class CharTable:
    """A number below 255 for every character, found out when the character is first met."""

    def __init__(self, find: Callable[[str], int]) -> None:
        self.find = find
        self.numbers = np.full(NUM_CODES, _NEW, np.uint8)

    def of(self, codes: np.ndarray) -> np.ndarray:
        """Return the number of each character."""
        found = self.numbers.take(codes)
        if found.size and found.max() == _NEW:
            for code in np.unique(codes[found == _NEW]).tolist():
                self.numbers[code] = self.find(chr(code))
            found = self.numbers.take(codes)
        return found
