"""Cutting texts in many ways: merges are left out by chance (BPE-dropout, arXiv 1910.13267).

Words come again and again, so each is cut in a few ways only. A way follows from seed, word and
number; which of them a word takes, from seed, place and text. What is remembered changes nothing.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from tokenizers import Encoding

from bertworks.core.errors import UsageError
from bertworks.core.seeds import bytes_at, random_at
from bertworks.tokenizer.files import is_byte_level
from bertworks.tokenizer.merges import merge, merges_in
from bertworks.tokenizer.tokenizer import Tokenizer

WAYS = 16  # in which a word is cut; a byte chooses among them evenly
MOST_KEPT = 2**22  # words of texts that are remembered, and pieces of those words, each once
REMEMBERED = 2**19  # ways of words; those that were not wanted for longest are drawn again
LONG = 16  # pieces of a word, or of a clause without spaces, that will hardly come again
# What other engines may do beside merging.
OTHER_RULES = ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "byte_fallback")

Pieces = tuple[int, ...]


class PieceDropout:
    """A byte-level BPE tokenizer that leaves out a share of its merges, elsewhere otherwise."""

    def __init__(self, tokenizer: Tokenizer, *, rate: float, seed: int) -> None:
        model = json.loads(tokenizer.engine.to_str())["model"]
        _refuse_others(tokenizer, model)
        self.tokenizer = tokenizer
        self.rate = rate
        self.seed = seed
        self._ranks = {pair: rank for rank, pair in enumerate(merges_in(model))}
        self._ids: dict[str, int] = model["vocab"]
        self._names = {index: piece for piece, index in self._ids.items()}
        added = tokenizer.engine.get_added_tokens_decoder()
        self._whole = {*added, *tokenizer.specials.as_tuple()}  # which no merges have made
        self._texts: dict[str, list[Pieces]] = {}
        self._words: dict[Pieces, Pieces] = {}  # each once, though it stand in many texts
        self._num_kept = 0
        self._way = lru_cache(maxsize=REMEMBERED)(self._draw)

    def at(self, *place: int) -> Tokenizer:
        """Return the tokenizer as it cuts at one place of a run, such as a row of an epoch."""
        return self.tokenizer.cutting(lambda texts: [self.cut(text, *place) for text in texts])

    def cut(self, text: str, *place: int) -> list[int]:
        """Return the piece ids of a text at one place of a run, without special pieces."""
        words = self._words_of(text)
        chosen = bytes_at(self.seed, "pieces", *place, text, count=len(words))
        ways = zip(words, chosen, strict=True)
        return [index for word, byte in ways for index in self._cut_word(word, byte % WAYS)]

    def _words_of(self, text: str) -> list[Pieces]:
        """Return the plain pieces of each word of a text."""
        if text in self._texts:
            return self._texts[text]
        words = list(_plain_words(self.tokenizer.encode(text)))
        if self._num_kept < MOST_KEPT:
            known = len(self._words)
            words = [self._words.setdefault(word, word) for word in words]
            new = islice(reversed(self._words), len(self._words) - known)
            self._num_kept += len(words) + sum(map(len, new))
            self._texts[text] = words
        return words

    def _cut_word(self, plain: Pieces, number: int) -> Pieces:
        """Cut a word in one of its ways, which are remembered where it may come again."""
        return (self._draw if len(plain) > LONG else self._way)(plain, number)

    def _draw(self, plain: Pieces, number: int) -> Pieces:
        """Cut a word, given by its plain pieces, in one of its ways."""
        if not self._whole.isdisjoint(plain):
            return plain
        word = "".join(self._names[index] for index in plain)
        random = random_at(self.seed, "merges", number, word)
        pieces, _ = merge(word, self._ranks, leaves_out=lambda: random.random() < self.rate)
        return tuple(self._ids[piece] for piece in pieces)


def _plain_words(encoding: Encoding) -> Iterator[Pieces]:
    """Yield the pieces of each word."""
    numbered = zip(encoding.word_ids, encoding.ids, strict=True)
    for _, own in groupby(numbered, itemgetter(0)):
        yield tuple(index for _, index in own)


def _refuse_others(tokenizer: Tokenizer, model: dict[str, Any]) -> None:
    """Stop where the pieces of a word are not what merges alone make of its bytes."""
    if not is_byte_level(tokenizer.engine):
        kind = "no byte-level BPE" if model["type"] == "BPE" else model["type"]
    elif odd := [rule for rule in OTHER_RULES if model.get(rule)]:
        kind = f"BPE with {odd[0]}"
    else:
        return
    raise UsageError(
        f"--piece-dropout leaves out merges of byte-level BPE, but the tokenizer is {kind}; leave "
        "it out, or learn a vocabulary with learn-vocab --kind byte-bpe"
    )
