"""Words and their pieces: where the words of a text stand, and which piece is the first of each."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from bertworks.core.scripts import WITHOUT_SPACES, kind_of
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.tokenizer.words import SPACE

Place = tuple[int, int]  # where a word begins and ends in its text

_NOTHING, _ALONE, _IN_WORD, _MARK, _JOINER = range(5)
_CLASSES = {"Z": _NOTHING, "Cc": _NOTHING, "Cs": _NOTHING, "Cf": _JOINER, "M": _MARK}


@dataclass(frozen=True)
class WordPieces:
    """The pieces of a text, and where among them each of its words begins."""

    ids: np.ndarray
    firsts: np.ndarray  # one for each word, rising


def find_tagged_words(text: str) -> list[Place]:
    """Return the words of a text: runs of letters and digits, and each sign by itself.

    Where a script has no spaces, each character is a word. The text alone decides, so every
    tokenizer agrees.
    """
    words: list[Place] = []
    before = _NOTHING
    for place, char in enumerate(text):
        kind = _class_of(char)
        is_behind_word = bool(words) and words[-1][1] == place
        if is_behind_word and (kind >= _MARK or kind == before == _IN_WORD):
            words[-1] = (words[-1][0], place + 1)
        elif kind not in (_NOTHING, _JOINER):
            words.append((place, place + 1))
        before = before if kind >= _MARK else kind
    return words


def cut_words(tokenizer: Tokenizer, text: str, words: Sequence[Place]) -> WordPieces:
    """Cut a text into pieces, none of which lies in two of its words.

    The pieces are those of the running text, but words that share one are cut by themselves; a word
    without any gets the unknown piece.
    """
    found = tokenizer.encode(text)
    ids = np.array(found.ids, dtype=np.int64)
    first, last = _words_under(np.array(found.offsets, np.int64).reshape(-1, 2), words)
    is_whole = np.zeros(len(words), dtype=bool)
    is_whole[first[first == last]] = True
    for piece in np.flatnonzero(first < last):
        is_whole[first[piece] : last[piece] + 1] = False
    if is_whole.all():
        owners = np.where(first == last, first, -1)
        known, firsts = np.unique(owners, return_index=True)
        return WordPieces(ids, firsts[known >= 0])
    own = _cut_alone(tokenizer, text, words, np.flatnonzero(~is_whole))
    return _mend(ids, first, last, own, len(words))


def _words_under(places: np.ndarray, words: Sequence[Place]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last word in which each piece lies; the last is less for none."""
    bounds = np.array(words, dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(bounds[:, 1], places[:, 0], side="right")
    last = np.searchsorted(bounds[:, 0], places[:, 1], side="left") - 1
    return first, np.where(places[:, 0] < places[:, 1], last, -1)


def _cut_alone(
    tokenizer: Tokenizer, text: str, words: Sequence[Place], chosen: np.ndarray
) -> dict[int, list[int]]:
    """Return the pieces of some words, each cut as it stands: behind a space, or not."""
    places = [words[number] for number in chosen]
    is_glued = [start > 0 and not text[start - 1].isspace() for start, _ in places]
    is_first = [start == 0 for start, _ in places]
    written = [
        text[start:end] if glued or begins else f" {text[start:end]}"
        for (start, end), glued, begins in zip(places, is_glued, is_first, strict=True)
    ]
    own = {}
    for number, ids, glued in zip(chosen, tokenizer.ids_of(written), is_glued, strict=True):
        if glued and len(ids) > 1 and tokenizer.piece(ids[0]) == SPACE:
            ids = ids[1:]  # some tokenizers put a space before every text
        own[int(number)] = ids or [tokenizer.specials.unknown]
    return own


def _mend(
    ids: np.ndarray, first: np.ndarray, last: np.ndarray, own: dict[int, list[int]], num_words: int
) -> WordPieces:
    """Put the pieces of words that were cut by themselves where those of the running text were."""
    mended: list[int] = []
    firsts: list[int] = []

    def begin_words(end: int) -> None:
        while len(firsts) < end:
            number = len(firsts)
            firsts.append(len(mended))
            mended.extend(own.get(number, ()))

    for piece, low, high in zip(ids.tolist(), first.tolist(), last.tolist(), strict=True):
        begin_words(high + 1)
        if low not in own:  # nor a space before such a word, which has its own
            mended.append(piece)
    begin_words(num_words)
    return WordPieces(np.array(mended, np.int64), np.array(firsts, np.int64))


@cache
def _class_of(char: str) -> int:
    category = unicodedata.category(char)
    known = _CLASSES.get(category, _CLASSES.get(category[0]))
    if known is not None:
        return known
    return _IN_WORD if kind_of(char) not in WITHOUT_SPACES | {""} else _ALONE
