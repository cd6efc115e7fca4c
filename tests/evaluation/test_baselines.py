"""The baseline: words in common decide, and nothing of the test set is learned."""

import sys

import numpy as np
import pytest

from bertworks.core.errors import MissingPackageError
from bertworks.data.examples import SourceExample, TextExample
from bertworks.evaluation.baselines import Copying, tfidf_match

TOPICS = {
    "zoo": "lion tiger zebra monkey parrot",
    "kitchen": "pot pan spoon oven recipe",
    "sea": "wave harbour sail anchor tide",
    "sky": "cloud comet planet orbit moon",
}


def draw_pairs(count: int, seed: int) -> list[TextExample]:
    """Draw pairs of texts, half of them about one topic."""
    random = np.random.default_rng(seed)
    pairs = []
    for number in range(count):
        first, other = random.permutation(list(TOPICS))[:2]
        second = first if number % 2 else other
        texts = [" ".join(random.choice(TOPICS[t].split(), 4)) for t in (first, second)]
        pairs.append(TextExample(*texts, label="same" if number % 2 else "different"))
    return pairs


def test_words_in_common_decide() -> None:
    test = draw_pairs(60, seed=2)
    found = tfidf_match(draw_pairs(200, seed=1), test)
    assert np.mean([label == pair.label for label, pair in zip(found, test, strict=True)]) > 0.9
    assert {type(label) for label in found} == {str}


def test_without_anything_to_learn_the_baseline_guesses() -> None:
    training = draw_pairs(200, seed=1)
    labels = np.random.default_rng(3).permutation([pair.label for pair in training])
    shuffled = [
        TextExample(p.text, p.text_b, str(n)) for p, n in zip(training, labels, strict=True)
    ]
    test = draw_pairs(60, seed=2)
    found = tfidf_match(shuffled, test)
    assert np.mean([label == pair.label for label, pair in zip(found, test, strict=True)]) < 0.8


def test_an_answer_does_not_depend_on_the_rest_of_the_test_set() -> None:
    training, test = draw_pairs(200, seed=1), draw_pairs(20, seed=2)
    together = tfidf_match(training, test)
    assert [tfidf_match(training, [pair])[0] for pair in test] == together


def test_the_order_of_the_two_texts_does_not_matter() -> None:
    training, test = draw_pairs(200, seed=1), draw_pairs(20, seed=2)
    turned = [TextExample(pair.text_b or "", pair.text, pair.label) for pair in test]
    assert tfidf_match(training, turned) == tfidf_match(training, test)


@pytest.mark.parametrize("text_b", [None, "", "words never seen"])
def test_texts_with_nothing_in_common_are_different(text_b: str | None) -> None:
    assert tfidf_match(draw_pairs(200, seed=1), [TextExample("lion tiger", text_b)]) == [
        "different"
    ]


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'bertworks\[eval\]'"):
        tfidf_match(draw_pairs(8, seed=1), draw_pairs(2, seed=2))


def test_a_source_and_its_first_sentence_are_texts_to_compare_with() -> None:
    summaries = [
        SourceExample("We count words. It works well.", ("We count words.",)),
        SourceExample("我们数词。很好。", ("我们数词。", "很好。")),
    ]
    copying = Copying()
    for summary in summaries:
        copying.add(summary)
    found = copying.metrics()
    assert list(found) == ["source", "first sentence"]
    assert found["first sentence"]["exact_match"] == 1
    assert found["source"]["exact_match"] == 0
    assert 0 < found["source"]["rougeL"] < 1
    assert found["source"]["length_ratio"] > 1


def test_of_single_sentences_the_source_alone_is_compared_with() -> None:
    copying = Copying()
    copying.add(SourceExample("Two cats sleep. ", ("Zwei Katzen schlafen.",)))
    assert list(copying.metrics()) == ["source"]
