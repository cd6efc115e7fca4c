"""Texts that belong together: whole sentences of one paragraph, drawn by a seed alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.corpus.document import Document
from bertworks.corpus.sentences import split_sentences
from bertworks.corpus.text_pairs import PairKind, PairMaker, Texts

CATS = "The first cat sleeps here. The second cat runs away. The third cat eats fish. Stop now!"
DOGS = "One dog barks at night. Two dogs bark at noon."
DOCUMENT = Document((CATS, "A heading.", DOGS))
FIRST, SECOND, THIRD, _ = split_sentences(CATS)


def draw(
    kind: PairKind, document: Document = DOCUMENT, *, seed: int = 0, **limits: int
) -> list[Texts]:
    maker = PairMaker(kind, **{"per_document": 99, "shortest": 3, "longest": 9} | limits)
    return maker.draw(document, np.random.default_rng(seed))


def test_neighbours_follow_each_other_in_one_paragraph() -> None:
    assert draw("neighbours") == [
        (FIRST, SECOND),
        (SECOND, THIRD),
        ("One dog barks at night.", "Two dogs bark at noon."),
    ]


def test_a_context_is_what_stands_around_a_sentence_and_may_be_short() -> None:
    assert draw("context") == [
        (FIRST, f"{SECOND} {THIRD}"),
        (SECOND, f"{FIRST} {THIRD} Stop now!"),
        (THIRD, f"{FIRST} {SECOND} Stop now!"),
        ("One dog barks at night.", "Two dogs bark at noon."),
        ("Two dogs bark at noon.", "One dog barks at night."),
    ]


def test_a_chinese_context_has_no_spaces_of_ours() -> None:
    found = draw("context", Document(("一只猫在睡觉。两只狗在跑。三只鸟在唱歌。",)))
    assert found[1] == ("两只狗在跑。", "一只猫在睡觉。三只鸟在唱歌。")


def test_sentences_alone_are_neither_too_short_nor_too_long() -> None:
    assert draw("sentences", shortest=5, longest=5) == [
        (FIRST,), (SECOND,), (THIRD,), ("One dog barks at night.",), ("Two dogs bark at noon.",)
    ]  # fmt: skip
    assert draw("sentences", shortest=1, longest=2) == [("Stop now!",), ("A heading.",)]
    assert draw("sentences", shortest=6) == []


def test_a_sentence_that_comes_twice_is_taken_once() -> None:
    twice = Document((f"{FIRST} {SECOND}", f"{FIRST} {THIRD}"))
    assert len(draw("neighbours", twice)) == 1


@pytest.mark.parametrize("kind", ["neighbours", "context", "sentences"])
def test_no_more_are_taken_than_wanted_and_chance_chooses_which(kind: PairKind) -> None:
    drawn = {tuple(draw(kind, per_document=1, seed=seed)) for seed in range(40)}
    assert all(len(texts) == 1 for texts in drawn)
    assert {texts for (texts,) in drawn} == set(draw(kind))


@given(st.lists(st.text("ab .?。猫\n"), max_size=4), st.integers(0, 3))
def test_every_text_stands_in_the_document_and_seeds_decide(
    paragraphs: list[str], seed: int
) -> None:
    document = Document.from_text("\n".join(paragraphs))
    for kind in ("neighbours", "context", "sentences"):
        found = draw(kind, document, seed=seed, shortest=1)
        assert found == draw(kind, document, seed=seed, shortest=1)
        assert all(texts[0] in document.text and all(texts) for texts in found)
