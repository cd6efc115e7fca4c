"""A document is its paragraphs, and its text alone decides where it belongs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.corpus.document import Document

DOCUMENTS = [Document((f"Paragraph {n} of this text.", "另一段。")) for n in range(3001)]


def test_the_text_is_the_paragraphs_in_order() -> None:
    document = Document(("first", "第二", "third"))
    assert document.text == "first\n第二\nthird"
    assert document.num_bytes == len(b"first\n") + len("第二\n".encode()) + len(b"third\n")


def test_a_text_becomes_its_lines_without_blank_ones() -> None:
    document = Document.from_text("\n first \r\n\n\u3000第二\u2028third\n")
    assert document.paragraphs == ("first", "第二", "third")
    assert Document.from_text(document.text) == document
    assert Document.from_text(" \n ").paragraphs == ()


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_about_the_wanted_share_is_held_out(share: float) -> None:
    held_out = sum(document.is_held_out(share) for document in DOCUMENTS)
    deviation = (share * (1 - share) * len(DOCUMENTS)) ** 0.5
    assert abs(held_out - share * len(DOCUMENTS)) < 4 * deviation


def test_none_or_all_can_be_held_out() -> None:
    assert not any(document.is_held_out(0.0) for document in DOCUMENTS)
    assert all(document.is_held_out(1.0) for document in DOCUMENTS)


def test_a_larger_share_holds_out_the_same_documents_and_more() -> None:
    few = {document for document in DOCUMENTS if document.is_held_out(0.05)}
    more = {document for document in DOCUMENTS if document.is_held_out(0.2)}
    assert few < more


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=5))
def test_equal_texts_share_their_fate(paragraphs: list[str]) -> None:
    document = Document(tuple(paragraphs))
    assert document.is_held_out(0.3) == Document((document.text,)).is_held_out(0.3)
