"""The pieces of an input as a person reads them, with the characters they stand for."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bertworks.core.errors import DataError
from bertworks.core.lines import is_unicode
from bertworks.data.packing import join_pieces
from bertworks.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextPiece:
    """One piece and where it stands."""

    piece: str
    text: int | None = None  # 0 or 1, which of a pair; None: a special piece, which has no place
    start: int = 0  # the first of its characters
    end: int = 0  # the character behind its last one
    word: int | None = None  # by number in its text


def pieces_of(
    text: Any, tokenizer: Tokenizer, *, number: int = 0
) -> tuple[np.ndarray, tuple[TextPiece, ...]]:
    """Return the ids of a text's pieces and what they stand for, without special ones."""
    if not isinstance(text, str) or not is_unicode(text):
        raise DataError(f"{text!r:.60} is no text that can be read; give a string of whole letters")
    cut = tokenizer.encode(text)
    pieces = tuple(
        TextPiece(tokenizer.piece(index), number, start, end, word)
        for index, (start, end), word in zip(cut.ids, cut.offsets, cut.word_ids, strict=True)
    )
    return np.array(cut.ids, dtype=np.int64), pieces


def read_input(
    texts: tuple[Any, Any], tokenizer: Tokenizer, *, longest: int
) -> tuple[np.ndarray, np.ndarray, tuple[TextPiece, ...]]:
    """Return tokens, segments and pieces of a text, or of a pair, that fits one window."""
    specials = tokenizer.specials
    first, pieces = pieces_of(texts[0], tokenizer)
    begin, end = (TextPiece(tokenizer.piece(i)) for i in (specials.first, specials.separator))
    second, shown = None, (begin, *pieces, end)
    if texts[1] is not None:
        second, others = pieces_of(texts[1], tokenizer, number=1)
        shown = (begin, *pieces, *[end] * specials.num_between, *others, end)
    if len(shown) > longest:
        raise DataError(
            f"the input has {len(shown)} pieces, but only inputs of one window can be explained, "
            f"which has room for {longest}; shorten it"
        )
    tokens, segments = join_pieces(first, second, specials)
    return tokens, segments, shown
