"""Inputs of programs: texts, tuples and rows become examples, or one sentence."""

import re

import numpy as np
import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.data.examples import TextExample
from bertworks.data.forms import FORMS
from bertworks.serving.inputs import as_example, refuse_others_than_texts, require_list


@pytest.mark.parametrize(
    "item", [("a b", "c"), ["a b", "c"], {"text": "a b", "text_b": "c", "label": "not read"}]
)
def test_pairs_and_rows_become_the_same_example(item) -> None:
    assert as_example(item, 3, "label") == TextExample("a b", "c", line=3)


@pytest.mark.parametrize("item", [5, None, (), ("one",), ("a", "b", "c")])
def test_what_is_no_input_is_one_sentence(item) -> None:
    with pytest.raises(DataError, match=r"input 3 is .*; give a text, a pair of texts, or a row"):
        as_example(item, 3, "label")


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_input_is_answered_with_what_its_form_reads(form: str) -> None:
    with pytest.raises(DataError, match=r"^input 3 is 5; give a ") as refused:
        as_example(5, 3, form)
    columns = set(re.findall(r"[\"'](\w+)[\"']", str(refused.value))) - {"Hello", "world"}
    assert columns
    assert columns <= set(FORMS[form].inputs)
    assert ("a pair of texts" in str(refused.value)) == (form in ("label", "labels", "score"))


def test_words_in_a_list_are_no_row_of_tags() -> None:
    with pytest.raises(DataError, match=r'or a row with its words, as \{"tokens": \['):
        as_example(["the", "cat", "sat"], 1, "tags")


@pytest.mark.parametrize("item", [5, None, b"bytes", "half \ud83d"])
def test_only_texts_can_be_embedded(item) -> None:
    refuse_others_than_texts(["fine", ""])
    with pytest.raises(DataError, match=r"input 2 is .*; only texts can be embedded"):
        refuse_others_than_texts(["fine", item])


@pytest.mark.parametrize("inputs", [["a"], ("a", "b"), [], np.array(["a", "b"])])
def test_what_has_an_order_and_a_length_is_a_list(inputs) -> None:
    require_list(inputs, "predict")


@pytest.mark.parametrize("inputs", ["a text", b"bytes", {"text": "a"}])
def test_one_input_by_itself_is_no_list(inputs) -> None:
    with pytest.raises(UsageError, match="embed takes a list of texts; put the text into a list"):
        require_list(inputs, "embed")


@pytest.mark.parametrize(
    ("inputs", "name"),
    [((text for text in "ab"), "generator"), ({"a"}, "set"), (5, "int"), (None, "NoneType")],
)
def test_what_has_no_order_or_comes_once_is_no_list(inputs, name: str) -> None:
    said = f"predict takes a list of rows, but this is of type {name}; give a list"
    with pytest.raises(UsageError, match=said):
        require_list(inputs, "predict", "row")
