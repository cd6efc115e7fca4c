"""MinHash: signatures estimate the share of shingles that two texts have in common."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.corpus.minhash import SEGMENT, MinHash, likeness, mix, shingles

LETTERS = "abcdefghijklmnopqrs"


def draw_words(chance: random.Random, count: int) -> list[str]:
    """Draw made-up words."""
    return ["".join(chance.choices(LETTERS, k=chance.randint(2, 8))) for _ in range(count)]


def draw_characters(chance: random.Random, count: int) -> list[str]:
    """Draw Chinese characters."""
    return [chr(chance.randint(0x4E00, 0x9FA5)) for _ in range(count)]


@given(
    st.lists(st.text(alphabet="ab ,.\nΣİß你好é́1", max_size=40), max_size=9),
    st.integers(1, 6),
)
def test_texts_have_the_same_signatures_together_as_alone(texts: list[str], size: int) -> None:
    minhash = MinHash(16, shingle_words=size)
    together = minhash.signatures(texts)
    assert together.shape == (len(texts), 16)
    for text, signature in zip(texts, together, strict=True):
        assert (minhash.signature(text) == signature).all()


def test_long_texts_among_short_ones_have_their_own_signatures() -> None:
    chance, minhash = random.Random(3), MinHash(16, shingle_words=2)
    texts = [" ".join(draw_words(chance, count)) for count in (9, 9000, 1, 60_000, 5, 7)]
    for text, signature in zip(texts, minhash.signatures(texts), strict=True):
        assert (minhash.signature(text) == signature).all()


def test_shorter_runs_see_more_likeness_in_short_texts() -> None:
    words = draw_words(random.Random(5), 21)
    texts = (" ".join(words), " ".join([*words[:10], "changed", *words[11:]]))
    shares = []
    for size in (5, 2):
        first, second = (set(shingles(text, size).tolist()) for text in texts)
        shares.append(len(first & second) / len(first | second))
        minhash = MinHash(512, shingle_words=size)
        signatures = [minhash.signature(text) for text in texts]
        assert abs(likeness(signatures[0], signatures[1][None])[0] - shares[-1]) < 0.1
    assert shares == [12 / 22, 18 / 22]


def jaccard(first: str, second: str) -> float:
    """Return the true similarity of two texts."""
    one, other = set(shingles(first).tolist()), set(shingles(second).tolist())
    return len(one & other) / len(one | other)


@pytest.mark.parametrize(("draw", "glue"), [(draw_words, " "), (draw_characters, "")])
def test_the_estimate_is_true_on_average_and_as_sure_as_the_theory_says(
    draw: Callable[..., list[str]], glue: str
) -> None:
    chance, minhash = random.Random(11), MinHash(128)
    errors, spreads = [], []
    for number in range(300):
        words = draw(chance, 150)
        changed = list(words)
        for place in chance.sample(range(150), number % 31):
            changed[place] = draw(chance, 1)[0]
        first, second = glue.join(words), glue.join(changed)
        true = jaccard(first, second)
        signatures = [minhash.signature(text) for text in (first, second)]
        errors.append(likeness(signatures[0], signatures[1][None])[0] - true)
        spreads.append(true * (1 - true) / 128)
    assert abs(np.mean(errors)) < 3.5 * np.sqrt(np.mean(spreads) / len(errors))
    assert np.std(errors) == pytest.approx(np.sqrt(np.mean(spreads)), rel=0.2)


def test_shingles_are_runs_of_five_words() -> None:
    text = "a bb ccc dddd eeeee ffffff ggggggg"
    assert len(set(shingles(text).tolist())) == 3
    assert shingles("bb ccc dddd eeeee ffffff").tolist() == shingles(text)[1:2].tolist()
    assert [len(shingles(text)) for text in ("", "...", "one two")] == [0, 1, 1]


def test_the_order_of_words_and_letters_counts_and_case_and_marks_do_not() -> None:
    assert shingles("Ab, cd; EF.").tolist() == shingles("ab cd ef").tolist()
    assert shingles("ab ef cd").tolist() != shingles("ab cd ef").tolist()
    assert shingles("ba cd ef").tolist() != shingles("ab cd ef").tolist()
    assert shingles("今天天气").tolist() != shingles("天今天气").tolist()
    assert shingles("...").tolist() != shingles("!!!").tolist()


def test_a_signature_does_not_depend_on_who_makes_it() -> None:
    text = " ".join(draw_words(random.Random(2), 1500))
    assert (MinHash(64).signature(text) == MinHash(64).signature(text)).all()
    recorded = [34743, 5241, 23884, 57317]  # by another process
    assert MinHash(64).signature("the cat sat on the mat").tolist()[:4] == recorded


@given(st.text(), st.text())
def test_equal_texts_are_wholly_alike_and_any_texts_can_be_signed(first: str, second: str) -> None:
    minhash = MinHash(16)
    signature = minhash.signature(first)
    assert signature.shape == (16,)
    assert likeness(signature, np.stack([signature, minhash.signature(second)]))[0] == 1


def test_a_long_text_is_signed_in_segments_that_hardly_show() -> None:
    minhash, chance = MinHash(128), random.Random(4)
    text = " ".join(draw_words(chance, 40_000))
    assert len(text) > 2 * SEGMENT
    moved = " ".join(draw_words(chance, 50)) + " " + text
    assert likeness(minhash.signature(text), minhash.signature(moved)[None])[0] > 0.95


def test_mixing_loses_no_value() -> None:
    values = np.arange(100_000, dtype=np.uint64)
    assert len(np.unique(mix(values))) == len(values)
    bits = np.unpackbits(mix(values).view(np.uint8)).reshape(len(values), 64)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.01
