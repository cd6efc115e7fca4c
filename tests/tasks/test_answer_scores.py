"""Scores of answers by their words: cases worked by hand, and what holds for all words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.data.examples import Found, QuestionExample
from bertworks.tasks.answer_scores import (
    AnswerScorer,
    best_scores,
    chinese_f1,
    plain,
    plain_chinese,
    word_f1,
)

words = st.lists(
    st.sampled_from(["The", "cat", "a", "Sat", "on,", "an", "mat!", "北京", "3.5", "é"]), max_size=9
).map(" ".join)


def asked(*golds: str, passage: str = "the cat sat on the mat") -> QuestionExample:
    """Return a question with these answers."""
    return QuestionExample("where?", passage, tuple(Found(gold, None) for gold in golds))


def test_case_articles_punctuation_and_spaces_do_not_count() -> None:
    assert plain("  The   Cat's \n mat, an (old) one. ") == "cats mat old one"
    assert plain("a theatre") == "theatre"  # not an article within a word
    assert plain("The a an!") == ""


def test_the_f1_of_words_is_as_worked_by_hand() -> None:
    # 2 words of 3 given are among 4: 2 * 2 / (3 + 4).
    assert word_f1("big black cat", "the black cat on mats") == pytest.approx(4 / 7)
    # A word counts as often as both have it.
    assert word_f1("cat cat cat", "cat cat dog") == pytest.approx(4 / 6)
    assert word_f1("dog", "cat") == 0.0
    assert word_f1("mat black", "black mat") == 1.0


@pytest.mark.parametrize("f1", [word_f1, chinese_f1])
def test_nothing_is_right_only_where_nothing_is_sought(f1) -> None:
    assert (f1("", ""), f1("cat", ""), f1("", "cat")) == (1.0, 0.0, 0.0)


def test_chinese_counts_the_longest_common_run_of_characters_and_words() -> None:
    # 北京 and 大学 are both common, but only one run counts: 2 * 2 / (4 + 5).
    assert chinese_f1("北京大学", "北京的大学") == pytest.approx(4 / 9)
    # A word of another script is one segment: 年 is common, and so is iPhone 年: 2 * 2 / (3 + 2).
    assert chinese_f1("2007年 iPhone", "2007年") == pytest.approx(2 * 2 / (3 + 2))
    assert chinese_f1("“北京”，《中国》", "北京中国") == 1.0
    assert plain_chinese(" “北京”、iPhone。") == "北京iphone"


@given(st.text("北京大学", max_size=9), st.text("北京大学", max_size=9))
def test_no_common_run_is_longer_than_the_one_that_counts(first: str, second: str) -> None:
    runs = (first[a:b] for a in range(len(first)) for b in range(a, len(first) + 1))
    longest = max((len(run) for run in runs if run in second), default=0)
    if first and second:
        assert chinese_f1(first, second) == pytest.approx(2 * longest / (len(first) + len(second)))


def test_of_several_golds_the_nearest_counts() -> None:
    example = asked("on the mat", "the mat", "mats")
    assert best_scores(example, "The mat.") == (1.0, 1.0)
    f1, exact = best_scores(example, "the old mat")
    assert (f1, exact) == (pytest.approx(2 / 3), 0.0)


def test_a_passage_in_chinese_is_scored_by_characters() -> None:
    chinese = asked("北京大学", passage="他在北京大学学习中文，使用 iPhone。")
    assert best_scores(chinese, "北京大学学")[0] == pytest.approx(8 / 9)
    assert best_scores(asked("北京大学"), "北京大学学")[0] == 0.0  # one English word, another one


def test_a_question_without_an_answer_wants_none() -> None:
    assert best_scores(asked(), "") == (1.0, 1.0)
    assert best_scores(asked(), "the cat") == (0.0, 0.0)


def test_golds_of_articles_alone_do_not_make_silence_right() -> None:
    assert best_scores(asked("the", "cat"), "") == (0.0, 0.0)
    assert best_scores(asked("the"), "A") == (1.0, 1.0)


@given(words, words)
def test_f1_is_even_handed_and_between_none_and_all(first: str, second: str) -> None:
    for f1, normalize in ((word_f1, plain), (chinese_f1, plain_chinese)):
        assert 0.0 <= f1(first, second) == f1(second, first) <= 1.0
        assert f1(first, first) == 1.0
        if normalize(first) == normalize(second):
            assert f1(first, second) == 1.0


@given(st.lists(words, max_size=3), words)
def test_more_golds_never_make_an_answer_worse(golds: list[str], given_: str) -> None:
    example = asked(*golds, "cat")
    f1, exact = best_scores(example, given_)
    assert f1 >= exact
    assert f1 >= best_scores(asked("cat"), given_)[0]


def test_questions_with_and_without_answers_are_told_apart() -> None:
    scorer = AnswerScorer()
    for golds, text in ((["cat"], "cat"), (["black cat"], "cat"), ([], ""), ([], "cat"), ([], "")):
        verdict = scorer.add(asked(*golds), {"answer": text, "probability": 0.5})
    assert (verdict.gold, verdict.given, verdict.score) == ("(no answer)", "(no answer)", 1.0)
    found = scorer.metrics()
    assert list(found)[:2] == ["f1", "exact_match"]
    assert found == pytest.approx(
        {
            "f1": (1 + 2 / 3 + 2) / 5,
            "exact_match": 3 / 5,
            "answerable_f1": 5 / 6,
            "answerable_exact_match": 1 / 2,
            "unanswerable_accuracy": 2 / 3,
        }
    )


def test_one_kind_of_questions_alone_has_no_figures_of_its_own() -> None:
    scorer = AnswerScorer()
    scorer.add(asked("cat"), {"answer": "cat", "probability": 0.5})
    assert scorer.metrics() == {"f1": 1.0, "exact_match": 1.0}
