"""Inputs of programs: texts, tuples and rows become examples, or one sentence."""

import pytest

from bertworks.core.errors import DataError
from bertworks.data.examples import TextExample
from bertworks.serving.inputs import as_example, refuse_others_than_texts


@pytest.mark.parametrize(
    "item", [("a b", "c"), ["a b", "c"], {"text": "a b", "text_b": "c", "label": "not read"}]
)
def test_pairs_and_rows_become_the_same_example(item) -> None:
    assert as_example(item, 3, "label") == TextExample("a b", "c", line=3)


@pytest.mark.parametrize("item", [5, None, (), ("one",), ("a", "b", "c")])
def test_what_is_no_input_is_one_sentence(item) -> None:
    with pytest.raises(DataError, match=r"input 3 is .*; give a text, a pair of texts, or a row"):
        as_example(item, 3, "label")


@pytest.mark.parametrize("item", [5, None, b"bytes", "half \ud83d"])
def test_only_texts_can_be_embedded(item) -> None:
    refuse_others_than_texts(["fine", ""])
    with pytest.raises(DataError, match=r"input 2 is .*; only texts can be embedded"):
        refuse_others_than_texts(["fine", item])
