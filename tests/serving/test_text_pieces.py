"""Pieces with the characters they stand for, of texts and pairs."""

import numpy as np
import pytest

from bertworks.core.errors import DataError
from bertworks.serving.text_pieces import TextPiece, pieces_of, read_input


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
def test_every_piece_stands_for_its_own_characters(kinds, kind: str) -> None:
    text = "The cat looked, und der Hund läuft 北京!"
    ids, pieces = pieces_of(text, kinds[kind])
    assert ids.tolist() == kinds[kind].ids_of([text])[0]
    assert [piece.piece for piece in pieces] == [kinds[kind].piece(i) for i in ids]
    covered = {place for piece in pieces for place in range(piece.start, piece.end)}
    assert {place for place, letter in enumerate(text) if letter != " "} <= covered


def test_an_input_is_read_with_its_special_pieces(tokenizer) -> None:
    tokens, segments, pieces = read_input(("The cat", "a dog"), tokenizer, longest=67)
    assert [piece.piece for piece in pieces] == [
        "[CLS]",
        "the",
        "cat",
        "[SEP]",
        "a",
        "dog",
        "[SEP]",
    ]
    assert [piece.text for piece in pieces] == [None, 0, 0, None, 1, 1, None]
    assert pieces[5] == TextPiece("dog", 1, 2, 5, 1)
    assert segments.tolist() == [0, 0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(read_input(("", None), tokenizer, longest=67)[0], tokens[[0, 3]])


def test_too_long_an_input_and_half_a_character_are_refused(tokenizer) -> None:
    with pytest.raises(DataError, match=r"input has 7 pieces, .* one window .* 6; shorten it"):
        read_input(("The cat", "a dog"), tokenizer, longest=6)
    for wrong in ("half a \ud83d", None, 7):
        with pytest.raises(DataError, match="is no text that can be read"):
            read_input((wrong, None), tokenizer, longest=67)
