"""How a text is cut: ids, pieces, characters, and nothing without end."""

import pytest

from bertworks.core.errors import DataError
from bertworks.service.failures import Failure
from bertworks.service.pieces import (
    MOST_LOOKED_AT,
    Piece,
    attention_item,
    cut_into_pieces,
    look_at,
)

TEXT = "Die Katze läuft."


def test_pieces_stand_for_their_characters(tokenizer) -> None:
    first, *inner, last = cut_into_pieces(TEXT, tokenizer, most=50)
    specials = tokenizer.specials
    assert first == Piece(specials.first, "[CLS]", special=True)
    assert last == Piece(specials.separator, "[SEP]", special=True)
    assert [piece.id for piece in inner] == tokenizer.ids_of([TEXT])[0]
    assert TEXT[inner[0].start : inner[0].stop] == "Die"
    assert inner[-1].stop == len(TEXT)
    assert cut_into_pieces(TEXT, tokenizer, most=50, special=False) == inner


@pytest.mark.parametrize("text", ["cat " * 8, " " * 64 * 7 + "  cat"])
def test_a_text_of_too_many_pieces_or_characters_is_refused(tokenizer, text: str) -> None:
    assert cut_into_pieces(text, tokenizer, most=8)
    with pytest.raises(Failure, match="a text has more than 7 pieces; shorten it") as failed:
        cut_into_pieces(text, tokenizer, most=7)
    assert failed.value.code == "too_large"


def test_attention_is_shown_for_short_inputs_alone(predictor_of) -> None:
    predictor = predictor_of()
    item = attention_item(("the cat", "a dog"), 1, predictor)
    (seen,) = look_at([item.content], predictor)
    assert len(seen["pieces"]) == item.num_tokens == 7
    layers, heads = len(seen["weights"]), len(seen["weights"][0])
    assert (layers, heads) == (3, 3)
    assert sum(seen["weights"][2][1][0]) == pytest.approx(1, abs=1e-4)
    assert predictor.longest < MOST_LOOKED_AT
    with pytest.raises(DataError, match=r"input 3: the input has 92 pieces"):
        attention_item("cat " * 90, 3, predictor)
