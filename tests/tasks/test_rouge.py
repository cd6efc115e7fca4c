"""ROUGE counts words that are shared, in pairs and in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.tasks.rouge import longest_common, rouge_scores, words_of

WORDS = st.lists(st.sampled_from("abcd"), max_size=9)


def slow_longest(first: list[str], second: list[str]) -> int:
    if not first or not second:
        return 0
    if first[-1] == second[-1]:
        return slow_longest(first[:-1], second[:-1]) + 1
    return max(slow_longest(first[:-1], second), slow_longest(first, second[:-1]))


@given(WORDS, WORDS)
def test_the_longest_common_sequence_is_that_of_the_plain_search(
    first: list[str], second: list[str]
) -> None:
    assert longest_common(first, second) == slow_longest(first, second)


def test_scores_are_those_counted_by_hand() -> None:
    found = rouge_scores("the cat on the mat", ["the black cat sat on a mat"])
    assert found == pytest.approx((2 * 4 / 12, 0, 2 * 4 / 12))
    assert rouge_scores("a b", ["a b"]) == (1, 1, 1)


def test_each_score_takes_the_reference_it_is_highest_with() -> None:
    assert rouge_scores("a b c d", ["d c b a", "a b x y"]) == (1, 1 / 3, 0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop-me, U_2!", ["don", "t", "stop", "me", "u", "2"]),
        ("Größe über alles", ["größe", "über", "alles"]),
        ("我爱Python猫。", ["我", "爱", "python", "猫"]),
        ("…!", []),
    ],
)
def test_words_have_no_marks_and_chinese_ones_one_character(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(("text", "gold"), [("", "a"), ("a", "!"), ("", ""), ("a", "b")])
def test_nothing_shared_scores_nothing(text: str, gold: str) -> None:
    assert rouge_scores(text, [gold]) == (0, 0, 0)
