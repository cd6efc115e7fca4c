"""Words of running text, found in arrays of code points, whatever a tokenizer makes of them."""

from functools import cache

import numpy as np

LAST_LETTER = 0x40000  # no script lies above
WITHOUT_SPACES = (
    (0x0E00, 0x1100),  # Thai, Lao, Tibetan, Myanmar
    (0x1780, 0x1800),  # Khmer
    (0x2E80, 0xA000),  # Han and kana
    (0xF900, 0xFB00),
    (0x1B000, 0x1B170),
    (0x20000, 0x40000),
)


def code_points(text: str) -> np.ndarray:
    """Return the characters of a text as numbers."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def find_words(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which characters are letters or digits, and which of them begin a word.

    In scripts without spaces between words, every character is a word.
    """
    is_letter, stands_alone = _kinds()
    places = np.minimum(codes, LAST_LETTER)
    letter, alone = is_letter[places], stands_alone[places]
    begins = letter.copy()
    begins[1:] &= ~letter[:-1] | alone[1:] | alone[:-1]
    return letter, begins


def count_words(text: str) -> tuple[int, int]:
    """Count the words of a text, and those among them that are a character without spaces."""
    codes = code_points(text)
    alone = _kinds()[1][np.minimum(codes, LAST_LETTER)]
    return int(find_words(codes)[1].sum()), int(alone.sum())


@cache
def _kinds() -> tuple[np.ndarray, np.ndarray]:
    """Tell for every code point whether it is a letter or digit, and whether one by itself."""
    letters = np.fromiter((chr(code).isalnum() for code in range(LAST_LETTER)), bool, LAST_LETTER)
    is_letter = np.append(letters, False)
    alone = np.zeros_like(is_letter)
    for first, end in WITHOUT_SPACES:
        alone[first:end] = is_letter[first:end]
    return is_letter, alone
