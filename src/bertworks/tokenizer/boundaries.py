"""Where words begin in running text, and which pieces therefore begin one.

A word is a run of letters and digits, with an apostrophe or a point inside it (don't, U.S, 3.14); a
run of one sign is a word too. Where a script has no spaces, each character is a word, unless a
segmenter finds the words of Chinese. The text alone decides, so every kind of pieces agrees.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any, Literal

import numpy as np

from bertworks.core.code_points import CharTable, code_points
from bertworks.core.optional import import_optional
from bertworks.core.scripts import HAN, MARK, NUMBER, WITHOUT_SPACES, kind_of
from bertworks.tokenizer.cutter import CutTexts
from bertworks.tokenizer.tokenizer import Tokenizer

WordKind = Literal["text", "zh", "pieces"]
Cut = Callable[[str], list[str]]

JOINERS = "'’.·_"  # inside a word where letters or digits stand on both sides
NUMBER_JOINERS = ",:"  # where digits do
SEGMENTER = "rjieba"

_END, _SPACE = range(2)
_LETTER, _DIGIT, _HAN, _UNSPACED, _MARK, _JOINER, _NUMBER_JOINER, _SIGN = range(2, 10)


class WordFinder:
    """Cuts texts into pieces and tells which of them begin a word."""

    def __init__(self, tokenizer: Tokenizer, kind: WordKind) -> None:
        self.tokenizer = tokenizer
        self.kind = kind
        self._segment = load_segmenter() if kind == "zh" else None

    @property
    def description(self) -> dict[str, str]:
        """How words are found, and by which version of what."""
        if self.kind == "zh":
            return {"words": self.kind, "segmenter": f"{SEGMENTER} {version(SEGMENTER)}"}
        return {"words": self.kind}

    def cut(self, texts: Sequence[str]) -> tuple[CutTexts, np.ndarray]:
        """Return the pieces of texts, and for each whether it begins a word."""
        pieces = self.tokenizer.cut(texts)
        if self.kind == "pieces":  # as BERT's whole-word masking has it
            return pieces, self._starts_of_pieces[pieces.ids]
        begun = np.append(0, np.cumsum(find_starts("\n".join(texts), self._segment)))
        # A piece begins a word if more words have begun by its end than by that of the one before.
        begins = np.diff(begun[pieces.ends], prepend=0) > 0
        is_full = pieces.counts > 0
        begins[(np.cumsum(pieces.counts) - pieces.counts)[is_full]] = True
        return pieces, begins

    @cached_property
    def _starts_of_pieces(self) -> np.ndarray:
        return self.tokenizer.word_starts()


def find_starts(text: str, segment: Cut | None = None) -> np.ndarray:
    """Tell for each character whether it begins a word; the space before a word belongs to it.

    A text may be several on lines of their own, which do not change each other.
    """
    codes = code_points(text)
    kinds = _attach(_KINDS.of(codes))
    starts = np.zeros(len(codes), dtype=bool)
    solid = np.flatnonzero(kinds != _MARK)  # marks change nothing about their neighbors
    starts[solid] = _starts_by_rule(codes[solid], kinds[solid])
    if segment is not None:
        starts[kinds == _HAN] = _starts_by_segmenter(text, segment)[kinds == _HAN]
    places = np.flatnonzero(kinds != _SPACE)
    after_last = np.append(0, places[:-1] + 1)[: len(places)]
    begins = np.zeros_like(starts)
    begins[after_last[starts[places]]] = True
    return begins


def load_segmenter() -> Cut:
    """Return a function that cuts Chinese text into the words of its dictionary."""
    package: Any = import_optional(SEGMENTER, extra="zh", purpose="finding Chinese words")
    segmenter = package.Jieba()
    # Guessing at words that the dictionary lacks makes more mistakes than it mends.
    return lambda text: segmenter.cut(text, hmm=False)


def _attach(kinds: np.ndarray) -> np.ndarray:
    """Let marks that follow no sign belong to the word after them, as spaces do."""
    solid = np.append(_END, kinds[kinds != _MARK])
    last = solid[np.cumsum(kinds != _MARK)]  # that is no mark, up to each character
    return np.where((kinds == _MARK) & (last <= _SPACE), _SPACE, kinds)


def _starts_by_rule(codes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    is_digit = kinds == _DIGIT
    in_word = is_digit | (kinds == _LETTER)
    joins = (kinds == _JOINER) & _before(in_word) & _after(in_word)
    joins |= (kinds == _NUMBER_JOINER) & _before(is_digit) & _after(is_digit)
    continues = joins | (in_word & _before(in_word | joins))
    continues[1:] |= (kinds[1:] >= _JOINER) & (codes[1:] == codes[:-1])  # as in ... or ——
    return (kinds > _SPACE) & ~continues


def _starts_by_segmenter(text: str, segment: Cut) -> np.ndarray:
    lengths = np.array([len(word) for word in segment(text)], dtype=np.int64)
    assert lengths.sum() == len(text)
    starts = np.zeros(len(text), dtype=bool)
    starts[np.cumsum(lengths) - lengths] = True
    return starts


def _before(marks: np.ndarray) -> np.ndarray:
    """Return the mark of the character before each."""
    return np.append(False, marks[:-1])[: len(marks)]


def _after(marks: np.ndarray) -> np.ndarray:
    """Return the mark of the character after each."""
    return np.append(marks[1:], False)[: len(marks)]


def _kind(char: str) -> int:
    script = kind_of(char)
    if char.isspace():
        return _END if char == "\n" else _SPACE
    if script in (HAN, NUMBER, MARK):
        return {HAN: _HAN, NUMBER: _DIGIT, MARK: _MARK}[script]
    if script:
        return _UNSPACED if script in WITHOUT_SPACES else _LETTER
    if not char.isprintable():  # joins and directions, which nobody sees
        return _MARK
    return _JOINER if char in JOINERS else _NUMBER_JOINER if char in NUMBER_JOINERS else _SIGN


_KINDS = CharTable(_kind)
