"""Sentences are found in English and Chinese, and nothing is lost between them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertworks.corpus.sentences import split_sentences

MARKS = ".!?。！？；…”’」』）】\"'“‘([)]*`  \n\tABab7é字.Mr"


@pytest.mark.parametrize(
    "sentences",
    [
        ["The cat sat.", "A dog ran!", "Why?", "Nobody knows."],
        ['He said "Stop."', '"I will not," said the other.'],
        ["It costs 3.50 dollars at example.com today.", "7 people bought it."],
        ["Call `run()` first.", "`stop()` ends it."],
        ["It ended (at last.)", "(Or so they said.)"],
        ["Él llegó.", "Ángel no."],
    ],
)
def test_english_sentences_end_before_a_new_beginning(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "Mr. Smith met Dr. Jones in St. Louis.",
        "J. R. R. Tolkien wrote it.",
        "See Fig. 3 and cf. Vol. 7 of it.",
        "Tools, e.g. Python, i.e. The language, work.",
        "The U.S. Army stayed.",
        "they wait... then go on. and on.",
        "no end here",
    ],
)
def test_abbreviations_and_small_letters_do_not_end_a_sentence(sentence: str) -> None:
    assert split_sentences(sentence) == [sentence]


def test_a_word_that_ends_like_an_abbreviation_is_none() -> None:
    assert split_sentences("They built a depot.No. It was late.") == [
        "They built a depot.No. It was late."
    ]
    assert split_sentences("He paid the Frst. Then he left.") == [
        "He paid the Frst.",
        "Then he left.",
    ]


@pytest.mark.parametrize(
    "sentences",
    [
        ["我们今天学习。", "你呢？", "太好了！", "好；", "再见"],
        ["他说：“走吧。”", "大家都走了。"],
        ["（他走了。）", "我留下。"],
        ["真的吗？！", "等等……", "好。"],
        ["『是。』」", "完"],
    ],
)
def test_chinese_sentences_need_no_space(sentences: list[str]) -> None:
    assert split_sentences("".join(sentences)) == sentences


def test_mixed_text_follows_both_rules() -> None:
    text = "BERT 很好。It reads text. 我们用它。"
    assert split_sentences(text) == ["BERT 很好。", "It reads text.", "我们用它。"]


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_white_space_holds_no_sentence(text: str) -> None:
    assert split_sentences(text) == []


@given(st.text(MARKS, max_size=60) | st.text(max_size=60))
@example("A. B. C. D.")
@example("。。。”” ”。 A")
def test_joined_sentences_lose_nothing_but_white_space(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@given(st.text(MARKS, max_size=60))
def test_every_sentence_stands_in_the_text(text: str) -> None:
    place = 0
    for sentence in split_sentences(text):
        place = text.index(sentence, place) + len(sentence)


@pytest.mark.parametrize("unit", ["A. ", "Mr. ", "。", '."', ". ", ".' \"", "!  "])
def test_a_megabyte_of_marks_is_no_trap(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    assert sum(map(len, split_sentences(text))) > 0
