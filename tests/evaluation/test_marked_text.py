"""Marked texts: every character stays in its place, and long texts are cut around their marks."""

from hypothesis import given
from hypothesis import strategies as st

from bertworks.evaluation.marked_text import AROUND, GAP, LONGEST, LONGEST_MARK, Mark, mark_text

places = st.tuples(st.integers(-3, 40), st.integers(-3, 40))
sides = st.sampled_from(["gold", "answer", "place"])


@given(st.text(max_size=30), st.lists(st.tuples(places, sides), max_size=5))
def test_a_short_text_comes_back_whole_whatever_is_marked(text, given_marks) -> None:
    marks = [Mark(*place, side, "x") for place, side in given_marks]
    pieces = mark_text(text, marks)
    assert "".join(piece.text for piece in pieces) == text
    assert not any(piece.is_gap for piece in pieces)


def test_a_piece_tells_what_should_be_there_and_what_was_found() -> None:
    text = "Anna met Bob in Rome"
    marks = [Mark(0, 4, "gold", "PER"), Mark(0, 4, "answer", "PER"), Mark(9, 20, "answer", "ORG")]
    marks.append(Mark(16, 20, "gold", "LOC"))
    told = [(piece.text, piece.marks) for piece in mark_text(text, marks)]
    assert told == [
        ("Anna", "right: PER"),
        (" met ", ""),
        ("Bob in ", "answer: ORG"),
        ("Rome", "gold: LOC, answer: ORG"),
    ]


def test_a_very_long_text_is_cut_around_the_marked_place() -> None:
    text = "a" * 60_000 + "北京" + "b" * 40_000
    pieces = mark_text(text, [Mark(60_000, 60_002, "gold", "LOC")])
    assert [piece.text for piece in pieces] == [GAP, "a" * AROUND, "北京", "b" * AROUND, GAP]
    assert [piece.is_gap for piece in pieces] == [True, False, False, False, True]


def test_a_mark_that_is_longer_than_the_page_is_cut_too() -> None:
    pieces = mark_text("x" * 100_000, [Mark(0, 100_000, "answer", "A")])
    shown = sum(len(piece.text) for piece in pieces)
    assert shown == LONGEST_MARK + AROUND + len(GAP)


def test_mistakes_are_shown_before_what_is_right() -> None:
    words = [f"word{number:05d} " for number in range(2000)]
    text = "".join(words)
    right = [
        Mark(start, start + 9, side, "A")
        for start in range(0, 10_000, 500)
        for side in ("gold", "answer")
    ]
    wrong = Mark(15_000, 15_009, "gold", "B")
    pieces = mark_text(text, [*right, wrong])
    assert any(piece.gold == "B" for piece in pieces)
    assert sum(len(piece.text) for piece in pieces) < 2 * LONGEST


def test_without_marks_the_beginning_of_a_long_text_is_shown() -> None:
    text = "many words " * 1000
    first, gap = mark_text(text, [])
    assert text.startswith(first.text)
    assert LONGEST - 40 <= len(first.text) <= LONGEST
    assert first.text.endswith(("many", "words"))
    assert gap.is_gap


def test_an_empty_text_has_no_pieces() -> None:
    assert mark_text("", [Mark(0, 3, "gold", "A")]) == ()


def test_a_long_text_is_cut_between_words() -> None:
    text = "word " * 500 + "Rome " + "word " * 500
    pieces = mark_text(text, [Mark(2500, 2504, "gold", "LOC")])
    shown = [piece.text for piece in pieces if not piece.is_gap]
    assert shown[1] == "Rome"
    assert set(" ".join(shown).split()) == {"word", "Rome"}


def test_what_is_found_in_part_is_not_called_right() -> None:
    marks = [Mark(0, 13, "gold", "PER"), Mark(0, 6, "answer", "PER")]
    told = [(piece.text, piece.marks) for piece in mark_text("Angela Merkel", marks)]
    assert told == [("Angela", "gold: PER, answer: PER"), (" Merkel", "gold: PER")]
