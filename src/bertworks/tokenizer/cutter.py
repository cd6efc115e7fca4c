"""Cutting many texts into pieces, end to end in arrays.

The pieces of a WordPiece vocabulary depend on nothing outside of a word, and words come again and
again. So each is given to the engine once, and its pieces are remembered.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers, pre_tokenizers

from bertworks.core.code_points import NUM_CODES, CharTable, code_points

MOST_CHARACTERS = 1_000_000  # of remembered words; beyond this all are forgotten


@dataclass(frozen=True)
class CutTexts:
    """Texts as pieces."""

    ids: np.ndarray  # of all texts, end to end
    ends: np.ndarray  # where each piece ends in the texts joined by a character between them
    counts: np.ndarray  # pieces of each text


class Cutter:
    """Cuts texts as an engine does, and remembers words where that changes nothing."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.words = _Words(engine) if _cuts_words_alone(engine) else None
        self.added = [token.content for token in engine.get_added_tokens_decoder().values()]

    def cut(self, texts: Sequence[str]) -> CutTexts:
        """Return the pieces of texts, without special pieces."""
        joined = "\n".join(texts)
        starts = np.cumsum([0, *(len(text) + 1 for text in texts)])
        if self.words is None or any(added in joined for added in self.added):
            return _by_engine(self.engine, texts, starts)
        return self.words.cut(joined, starts)


def _by_engine(engine: Engine, texts: Sequence[str], starts: np.ndarray) -> CutTexts:
    found = engine.encode_batch(list(texts), add_special_tokens=False)
    counts = np.array([len(encoding) for encoding in found], dtype=np.int64)
    ids = np.array(list(chain.from_iterable(one.ids for one in found)), dtype=np.int64)
    ends = np.array([end for one in found for _, end in one.offsets], dtype=np.int64)
    return CutTexts(ids, ends + np.repeat(starts[:-1], counts), counts)


def _cuts_words_alone(engine: Engine) -> bool:
    """Tell whether spaces, signs and Chinese characters part words for an engine, as in BERT."""
    parts = (
        (engine.model, models.WordPiece),
        (engine.normalizer, normalizers.BertNormalizer),
        (engine.pre_tokenizer, pre_tokenizers.BertPreTokenizer),
    )
    tokens = engine.get_added_tokens_decoder().values()
    reach_out = (t.normalized or t.single_word or t.lstrip or t.rstrip for t in tokens)
    return all(isinstance(part, kind) for part, kind in parts) and not any(reach_out)


_SPACES = " \t\n\r\xa0\u3000"
_SIGNS = frozenset(string.punctuation + "、。〈〉《》「」『』【】！（），：；？“”‘’–—…·")
_PART, _ALONE, _IN_WORD = range(3)


class _Words:
    """The pieces of the words met so far; each word has a number."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        is_alone = engine.normalizer.handle_chinese_chars
        self.classes = CharTable(lambda char: _class_of(char, is_chinese_alone=is_alone))
        self._begin()

    def _begin(self) -> None:
        """Know no words."""
        self.num_characters = 0
        self.number_of: dict[str, int] = {}
        self.number_of_char = np.full(NUM_CODES, -1)
        self.places = np.zeros(0, np.int64)  # of each word's pieces
        self.counts = np.zeros(0, np.int64)  # how many they are
        self.ids = np.zeros(0, np.int64)
        self.ends = np.zeros(0, np.int64)  # of each piece in its word

    def cut(self, text: str, starts: np.ndarray) -> CutTexts:
        """Return the pieces of texts that begin at some places of a text."""
        if self.num_characters > MOST_CHARACTERS:
            self._begin()
        codes = code_points(text)
        firsts, ends = _bounds(self.classes.of(codes))
        words = self._number(text, codes, firsts, ends)
        counts = self.counts[words]
        before = np.append(0, np.cumsum(counts))
        places = np.repeat(self.places[words] - before[:-1], counts) + np.arange(before[-1])
        text_ends = before[np.searchsorted(firsts, starts)]
        ends_of_pieces = self.ends[places] + np.repeat(firsts, counts)
        return CutTexts(self.ids[places], ends_of_pieces, np.diff(text_ends))

    def _number(
        self, text: str, codes: np.ndarray, firsts: np.ndarray, ends: np.ndarray
    ) -> np.ndarray:
        """Return the numbers of words, after learning those that are new."""
        numbers = self.number_of_char.take(codes.take(firsts))
        is_long = (ends - firsts > 1) | (numbers < 0)  # or a character that is new
        bounds = zip(firsts[is_long].tolist(), ends[is_long].tolist(), strict=True)
        words = [text[first:end] for first, end in bounds]
        self._learn([word for word in dict.fromkeys(words) if word not in self.number_of])
        numbers[is_long] = [self.number_of[word] for word in words]
        return numbers

    def _learn(self, words: list[str]) -> None:
        if not words:
            return
        cut = _by_engine(self.engine, words, np.zeros(len(words) + 1, np.int64))
        new = range(len(self.counts), len(self.counts) + len(words))
        self.number_of.update(zip(words, new, strict=True))
        for word, number in zip(words, new, strict=True):
            if len(word) == 1:
                self.number_of_char[ord(word)] = number
        self.places = np.append(self.places, len(self.ids) + np.cumsum(cut.counts) - cut.counts)
        self.counts = np.append(self.counts, cut.counts)
        self.ids = np.append(self.ids, cut.ids)
        self.ends = np.append(self.ends, cut.ends)
        self.num_characters += sum(map(len, words))


def _class_of(char: str, *, is_chinese_alone: bool) -> int:
    if char in _SPACES:
        return _PART
    is_chinese = "\u3400" <= char <= "\u4dbf" or "\u4e00" <= char <= "\u9fff"
    return _ALONE if char in _SIGNS or (is_chinese and is_chinese_alone) else _IN_WORD


def _bounds(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where words begin and end."""
    in_word = classes == _IN_WORD
    begins, ends = classes > _PART, classes > _PART
    begins[1:] &= ~(in_word[1:] & in_word[:-1])
    ends[:-1] &= ~(in_word[1:] & in_word[:-1])
    return np.flatnonzero(begins), np.flatnonzero(ends) + 1
