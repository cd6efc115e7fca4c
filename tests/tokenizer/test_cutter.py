"""Texts are cut as the engine cuts them, whether or not their words are remembered."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken
from tokenizers import Tokenizer as Engine

from bertworks.tokenizer import cutter as module
from bertworks.tokenizer.cutter import Cutter
from bertworks.tokenizer.learn import learn_byte_bpe, learn_unigram, learn_wordpiece

LINES = ["The runners don't run, she runs: 3.14!", "北京天气很好。我们去公园", "naïve über Mädchen"]
ODD = (
    " \t\n\r\x0b\x1c\x85\xa0\u2028\u3000\u200b\u200d\xad\x00\ufffd"
    "aAéEe\u0301İßΣ中\u3400\uf900𠀀.,'’…·—กำ한々🇩[##²٣"
)
TEXTS = st.lists(st.text(st.sampled_from(ODD) | st.characters(exclude_categories=["Cs"])))


def engine_of(*, cased: bool = False) -> Engine:
    return learn_wordpiece(lambda: LINES, size=90, cased=cased, min_count=1).engine


FOLDED, CASED = engine_of(), engine_of(cased=True)


def expect(engine: Engine, texts: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
    """Return what the engine says: ids, ends in the joined texts, pieces of each text."""
    found = engine.encode_batch(list(texts), add_special_tokens=False)
    starts = np.cumsum([0, *(len(text) + 1 for text in texts)]).tolist()
    ends = [at + e for at, one in zip(starts, found, strict=False) for _, e in one.offsets]
    return [i for one in found for i in one.ids], ends, [len(one) for one in found]


def cut(cutter: Cutter, texts: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
    found = cutter.cut(texts)
    return found.ids.tolist(), found.ends.tolist(), found.counts.tolist()


@given(TEXTS)
@example(["a\x1cb", "a\x0bb", ".\u0301a", "中\u0301", "İx", "", "x" * 101])
def test_remembered_words_give_what_the_engine_gives(texts: list[str]) -> None:
    for engine in (FOLDED, CASED):
        cutter = Cutter(engine)
        assert cutter.words is not None
        for _ in range(2):
            assert cut(cutter, texts) == expect(engine, texts)


def test_a_word_is_learned_once_and_all_are_forgotten_before_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cutter = Cutter(FOLDED)
    assert cutter.words is not None
    for texts in (["run, run", "北京北"], ["北 run,"]):
        assert cut(cutter, texts) == expect(FOLDED, texts)
        assert list(cutter.words.number_of) == ["run", ",", "北", "京"]
    monkeypatch.setattr(module, "MOST_CHARACTERS", 5)
    assert cut(cutter, ["she runs"]) == expect(FOLDED, ["she runs"])
    assert list(cutter.words.number_of) == ["she", "runs"]


def test_special_pieces_in_a_text_are_found() -> None:
    texts = ["a [MASK]b", "run"]
    assert cut(Cutter(FOLDED), texts) == expect(FOLDED, texts)
    assert FOLDED.token_to_id("[MASK]") in cut(Cutter(FOLDED), texts)[0]


@pytest.mark.parametrize("learn", [learn_byte_bpe, learn_unigram])
def test_kinds_that_look_beyond_a_word_are_left_to_the_engine(learn: object) -> None:
    assert callable(learn)
    engine = learn(lambda: LINES * 9, size=300, cased=False).engine
    assert Cutter(engine).words is None
    assert cut(Cutter(engine), LINES) == expect(engine, LINES)


def test_added_words_that_reach_over_spaces_are_left_to_the_engine() -> None:
    engine = engine_of()
    engine.add_tokens([AddedToken("she runs", normalized=True)])
    assert Cutter(engine).words is None
    assert cut(Cutter(engine), LINES) == expect(engine, LINES)


# The control


def test_words_that_are_not_cut_alone_would_be_noticed() -> None:
    engine = engine_of()
    careless = Cutter(engine)
    engine.add_tokens([AddedToken("she runs", normalized=True)])
    assert cut(careless, LINES) != expect(engine, LINES)
