"""BLEU and chrF come of sums, so any sample of texts has them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core import optional
from bertworks.core.errors import MissingPackageError
from bertworks.tasks.ngram_scores import WordRuns, bleu_of, chrf_of, chrf_sums

TEXTS = st.text(st.sampled_from("ab c."), max_size=12)


def test_bleu_of_a_sentence_is_what_is_counted_by_hand() -> None:
    sums = WordRuns("13a").sums("the cat sat on mats", ["the cat sat on the mat", "a cat"])
    assert sums == [5, 6, 4, 3, 2, 1, 5, 4, 3, 2]
    expected = math.exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu_of(np.array(sums)) == pytest.approx(expected)


def test_chinese_is_counted_by_characters() -> None:
    assert WordRuns("zh").sums("我爱猫", ["我爱狗"]) == [3, 3, 2, 1, 0, 0, 3, 2, 1, 0]
    assert WordRuns("13a").sums("我爱猫", ["我爱狗"])[:3] == [1, 1, 0]


def test_chrf_takes_the_reference_that_is_nearest_and_no_spaces() -> None:
    assert chrf_sums("a b", ["xyz", "ab"]) == [2, 2, 2, 1, 1, 1] + [0] * 12
    assert chrf_of(np.array(chrf_sums("a b", ["xyz", "ab"]))) == 1
    assert chrf_of(np.array(chrf_sums("a b", ["xyz"]))) == 0


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_scores_lie_between_nothing_and_all(text: str, golds: list[str]) -> None:
    for score in (
        bleu_of(np.array(WordRuns("13a").sums(text, golds))),
        chrf_of(np.array(chrf_sums(text, golds))),
    ):
        assert 0 <= score <= 1 + 1e-12


def test_many_sums_are_scored_at_once() -> None:
    random = np.random.default_rng(3)
    sums = random.integers(1, 9, (7, 5, 18)).cumsum(axis=1).astype(float)
    assert chrf_of(sums)[3, 2] == chrf_of(sums[3, 2])
    assert bleu_of(sums[..., :10])[3, 2] == bleu_of(sums[3, 2, :10])
    assert bleu_of(np.zeros((2, 10))).tolist() == [0, 0]
    assert chrf_of(np.zeros((2, 18))).tolist() == [0, 0]


def test_without_sacrebleu_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(optional, "import_module", refuse)
    with pytest.raises(MissingPackageError, match=r"to score texts needs: pip install 'bertworks"):
        WordRuns("13a")
