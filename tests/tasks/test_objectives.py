"""Objectives are read from words, or are those of the family."""

import pytest

from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp
from bertworks.tasks.objectives import read_objectives


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("bert", ["fill_mask", "next_sentence"]),
        ("bertworks", ["fill_mask", "next_sentence"]),
        ("albert", ["fill_mask", "sentence_order"]),
        ("electra", ["fill_mask", "replaced_token"]),
        ("roberta", ["fill_mask"]),
        ("modernbert", ["fill_mask"]),
        ("distilbert", ["fill_mask"]),
    ],
)
def test_a_family_has_the_objectives_that_it_was_published_with(family, names) -> None:
    assert list(read_objectives((), family)) == names
    assert list(read_objectives(("fill_mask",), family)) == ["fill_mask"]


def test_weights_are_numbers_or_ramps_and_one_unless_they_are_said() -> None:
    words = ("sentence_order=0.5..0", "fill_mask", "next_sentence=2")
    assert read_objectives(words, "bert") == {
        "fill_mask": Ramp(1, 1),
        "next_sentence": Ramp(2, 2),
        "sentence_order": Ramp(0.5, 0),
    }


def test_replaced_tokens_bring_their_generator_and_weigh_fifty() -> None:
    assert read_objectives(("replaced_token",), "bert") == {
        "fill_mask": Ramp(1, 1),
        "replaced_token": Ramp(50, 50),
    }
    assert read_objectives(("replaced_token=9", "fill_mask=2"), "electra") == {
        "fill_mask": Ramp(2, 2),
        "replaced_token": Ramp(9, 9),
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fillmask"], "there is no objective 'fillmask'; the objectives are fill_mask, "),
        (["fillmask"], "did you mean fill_mask?"),
        (["fill_mask,next_sentence"], "next_piece; put spaces between them"),
        (["fill_mask", "fill_mask=2"], "the objective fill_mask is given twice"),
        (["fill_mask=-1"], "the weight of fill_mask is '-1', but it must be a number of at least"),
        (["fill_mask=1..-1"], "the weight of fill_mask is '1..-1'"),
        (["fill_mask="], "the weight of fill_mask is ''"),
        (["fill_mask=much"], "the weight of fill_mask is 'much'"),
        (["next_sentence"], "the objectives next_sentence need fill_mask beside them"),
        (["next_piece"], "the objectives next_piece need fill_mask beside them"),
        (["fill_mask=0"], "no objective has a weight above 0 in the end"),
        (["fill_mask=1..0", "next_sentence=0"], "nothing would be learned; raise one"),
        (["next_piece", "replaced_token"], "next_piece and replaced_token cannot be trained tog"),
    ],
)
def test_objectives_that_cannot_be_are_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_objectives(words, "bert")
    assert said in str(refused.value)
