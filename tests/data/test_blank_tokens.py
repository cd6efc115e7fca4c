"""Blank tokens are passed over where a span stays whole without them, and else refused."""

import pytest

from bertworks.core.errors import DataError
from bertworks.data.blank_tokens import pass_blanks


@pytest.mark.parametrize("tag", ["O", "I-LOC", "M-LOC", "I", "M"])
@pytest.mark.parametrize("blank", ["", " ", "\u3000", "\t\xa0"])
def test_blank_tokens_outside_of_spans_or_within_them_are_passed_over(blank: str, tag: str) -> None:
    pairs = [("北", "B-LOC"), ("京", "I-LOC")]
    assert pass_blanks([pairs[0], (blank, tag), pairs[1]]) == pairs


@pytest.mark.parametrize("tag", ["B-LOC", "S-LOC", "E-LOC", "L-LOC", "U-LOC", "B", "NN"])
def test_a_blank_token_at_which_a_span_begins_or_ends_is_refused(tag: str) -> None:
    with pytest.raises(DataError, match=f"^a blank token tagged {tag}; tag it O, and let its span"):
        pass_blanks([("在", "O"), (" ", tag)])
