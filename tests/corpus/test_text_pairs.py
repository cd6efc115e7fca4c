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
ONE, TWO = split_sentences(DOGS)


def draw(
    kind: PairKind, document: Document = DOCUMENT, *, seed: int = 0, **limits: int
) -> list[Texts]:
    maker = PairMaker(kind, **{"per_document": 99, "shortest": 3, "longest": 9} | limits)
    return maker.draw(document, np.random.default_rng(seed))


def test_neighbours_follow_each_other_in_one_paragraph() -> None:
    found = {texts for seed in range(20) for texts in draw("neighbours", seed=seed)}
    assert found == {(FIRST, SECOND), (SECOND, THIRD), (ONE, TWO)}


def test_a_context_is_what_stands_around_a_sentence_and_may_be_short() -> None:
    found = {texts for seed in range(40) for texts in draw("context", seed=seed)}
    assert found == {
        (FIRST, f"{SECOND} {THIRD}"),
        (SECOND, f"{FIRST} {THIRD} Stop now!"),
        (THIRD, f"{FIRST} {SECOND} Stop now!"),
        (ONE, TWO),
        (TWO, ONE),
    }


def test_a_chinese_context_has_no_spaces_of_ours() -> None:
    document = Document(("一只猫在睡觉。两只狗在跑。三只鸟在唱歌。",))
    found = {texts for seed in range(20) for texts in draw("context", document, seed=seed)}
    assert ("两只狗在跑。", "一只猫在睡觉。三只鸟在唱歌。") in found


def test_sentences_alone_are_neither_too_short_nor_too_long() -> None:
    assert draw("sentences", shortest=5, longest=5) == [
        (FIRST,), (SECOND,), (THIRD,), ("One dog barks at night.",), ("Two dogs bark at noon.",)
    ]  # fmt: skip
    assert draw("sentences", shortest=1, longest=2) == [("Stop now!",), ("A heading.",)]
    assert draw("sentences", shortest=6) == []


@pytest.mark.parametrize("kind", ["neighbours", "context", "sentences"])
def test_what_stands_in_one_row_stands_in_no_other_nor_beside_itself(kind: PairKind) -> None:
    again = Document((CATS, f"{FIRST} {FIRST} {FIRST}", f"{FIRST} {THIRD}", DOGS))
    for seed in range(20):
        rows = draw(kind, again, seed=seed)
        texts = [text for row in rows for text in row]
        assert rows
        assert sum(one in other for one in texts for other in texts) == len(texts)


@pytest.mark.parametrize("kind", ["neighbours", "context", "sentences"])
def test_no_more_are_taken_than_wanted_and_chance_chooses_which(kind: PairKind) -> None:
    drawn = {tuple(draw(kind, per_document=1, seed=seed)) for seed in range(40)}
    assert all(len(texts) == 1 for texts in drawn)
    assert len(drawn) > 2


@given(st.lists(st.text("ab .?。猫\n"), max_size=4), st.integers(0, 3))
def test_every_text_stands_in_the_document_and_seeds_decide(
    paragraphs: list[str], seed: int
) -> None:
    document = Document.from_text("\n".join(paragraphs))
    for kind in ("neighbours", "context", "sentences"):
        found = draw(kind, document, seed=seed, shortest=1)
        assert found == draw(kind, document, seed=seed, shortest=1)
        is_whole = [text in document.text for texts in found for text in texts]
        assert all(is_whole[:: 2 if kind == "context" else 1])  # a context has a gap
        assert all(map(all, found))
