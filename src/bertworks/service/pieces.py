"""How a text is cut into pieces, and which of them look at which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertworks.core.errors import DataError
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item
from bertworks.service.lengths import CHARACTERS
from bertworks.serving.predictor import Predictor
from bertworks.serving.text_pieces import read_input
from bertworks.tokenizer.tokenizer import Tokenizer

MOST_LOOKED_AT = 96  # tokens whose attention is shown: it grows with their square
DECIMALS = 5  # of attention weights


@dataclass(frozen=True)
class Piece:
    """A piece of a text, and the characters it stands for; a special one stands for none."""

    id: int
    text: str
    special: bool
    start: int | None = None
    stop: int | None = None


def cut_into_pieces(
    text: str, tokenizer: Tokenizer, *, most: int, special: bool = True
) -> list[Piece]:
    """Return the pieces of a text as a network would read them, all in one."""
    cut = tokenizer.encode(text[: CHARACTERS * most + 1])
    if len(text) > CHARACTERS * most or len(cut.ids) > most:
        raise Failure("too_large", f"a text has more than {most} pieces; shorten it")
    pieces = [
        Piece(index, tokenizer.piece(index), special=False, start=start, stop=end)
        for index, (start, end) in zip(cut.ids, cut.offsets, strict=True)
    ]
    if not special:
        return pieces
    ends = tokenizer.specials.first, tokenizer.specials.separator
    first, last = (Piece(index, tokenizer.piece(index), special=True) for index in ends)
    return [first, *pieces, last]


def attention_item(item: Any, number: int, predictor: Predictor) -> Item:
    """Make a text, or a pair of texts, ready to be looked at."""
    texts = (item, None) if isinstance(item, str) else item
    if not isinstance(texts, tuple | list) or len(texts) != 2:
        raise DataError(f"input {number} is {item!r:.60}; give a text or a pair of texts")
    longest = min(MOST_LOOKED_AT, predictor.longest)
    try:
        tokens, _, _ = read_input((texts[0], texts[1]), predictor.tokenizer, longest=longest)
    except DataError as error:
        raise DataError(f"input {number}: {error}") from error
    return Item(("attention",), (texts[0], texts[1]), len(tokens))


def look_at(pairs: Sequence[tuple[str, str | None]], predictor: Predictor) -> list[dict[str, Any]]:
    """Return the pieces of each text or pair, and how much each looks at each other one."""
    found = []
    for texts in pairs:
        attention = predictor.attention(*texts)
        weights = np.round(attention.weights.astype(np.float64), DECIMALS)
        found.append({**attention.as_json(), "weights": weights.tolist()})
    return found
