"""Words and marks become sentences as people write them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.tokenizer.engines import wordpiece_engine
from bertworks.tokenizer.joining import join_words
from bertworks.tokenizer.learn import learn_wordpiece
from bertworks.tokenizer.special_pieces import BERT

CAPTIONS = Path(__file__).parents[3] / "shared" / "data" / "translation" / "multi30k-en-de"

ENGLISH = [
    "A man, two dogs and a cat: they don't know what's going on!",
    'She said, "It isn\'t well-known." Then she left (quietly).',
    "Is 3.5% of 1,000 people more than 30? At 10:30, perhaps...",
    "The dogs' bowls are empty; O'Brien's aren't.",
    "'Come in,' he said, 'and sit down.'",
    "\u201cLet\u2019s go,\u201d said the children\u2019s teacher.",
    "It costs $5 and/or £3 [see page 7].",
    "Born on February 14, 1960, in the U.S. of parents from 12 states.",
    "Two- and three-year-olds know 1, 2 and 3, or 4, 5, 6.",
    "Write to @somebody about #2, e.g. the snake_case of {it}.",
    "A state-of-the-art copy-and-paste -- no more.",
    "A bound for $M$-matrices from 1990–2000",
    "Na'vi is a language; who's speaking it at 7 o'clock?",
]
GERMAN = [
    "Zwei junge Männer in der U-Bahn, die über die Straße schauen.",
    "„Wie geht's?“, fragte die Ärztin – aber niemand wußte es.",
    "Ein Mann mit einem „slow“-Schild kauft 3,5 Kilo Äpfel für 1.000 Euro.",
    "Vor- und Nachteile von Papptellern und -tassen (am 24.12.2020).",
    "Der Donaudampfschifffahrtsgesellschaftskapitän hat Größe!",
    "»Ja«, sagte sie: ‚vielleicht‘?",
]
CHINESE = [
    "我们今天在北京学习中文，北京是中国的首都。",
    "他说：“你好！”她问：‘真的吗？’",
    "「您是什麼意思？」婦女問道。",
    "我有3只猫，Bob有10只狗（都很大）。",
    "约翰·史密斯的增长率是3.5%……对吧？",
    "“上周你看电视了吗？”“没有，我没看。”",
    "東京に行きました。",
]
MIXED = [
    "He moved from 北京 to 上海 last year.",
    "ทดสอบ ภาษา 한국어 문장",
    "I like it \U0001f600 \U0001f600",
]
SENTENCES = ENGLISH + GERMAN + CHINESE + MIXED


@pytest.fixture(scope="module")
def tokenizer():
    """Learn a cased vocabulary that knows every character of the sentences."""
    return learn_wordpiece(lambda: SENTENCES, size=701, cased=True, min_count=1)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_comes_back_as_it_was(tokenizer, sentence: str) -> None:
    (ids,) = tokenizer.ids_of([sentence])
    assert tokenizer.specials.unknown not in ids
    assert tokenizer.text_of(ids) == sentence


def test_nothing_is_an_empty_text_and_a_word_is_itself() -> None:
    assert join_words([]) == ""
    assert join_words(["word"]) == "word"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ('" a " b " c', '"a" b "c'),
        (") ( a", ") (a"),
        ("' '", "''"),
        ("- - -", "---"),
        (". a", ". a"),
        ("a -", "a-"),
        ("„ a ” b", "„a” b"),
    ],
)
def test_marks_without_a_partner_still_stand_beside_something(words: str, expected: str) -> None:
    assert join_words(words.split()) == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=5)))
def test_nothing_but_single_spaces_is_ever_added(words: list[str]) -> None:
    joined = join_words(words)
    assert joined.replace(" ", "") == "".join(words)
    assert "  " not in joined
    assert joined == joined.strip()


@given(st.lists(st.sampled_from(["北", "京", "。", "，", "的", "“", "”", "3", "%"]), max_size=20))
def test_chinese_has_no_spaces(words: list[str]) -> None:
    chinese = [*words, "我", "们"]
    digits = [at for at, word in enumerate(chinese) if word in "3%"]
    is_alone = not any(at + 1 in digits for at in digits)  # two numbers must stay two
    assert " " not in join_words(chinese) or not is_alone


@pytest.mark.skipif(
    not CAPTIONS.is_dir(), reason="the public sets lie beside the repository, or not"
)
@pytest.mark.parametrize(("name", "share"), [("val.en", 0.99), ("val.de", 0.98)])
def test_nearly_all_captions_come_back_exactly(name: str, share: float) -> None:
    engine = wordpiece_engine({piece: at for at, piece in enumerate(BERT.names())}, cased=True)
    captions = (CAPTIONS / name).read_text(encoding="utf-8").splitlines()
    normal = map(engine.normalizer.normalize_str, captions)
    cut = [[word for word, _ in engine.pre_tokenizer.pre_tokenize_str(text)] for text in normal]
    same = [join_words(words) == text for words, text in zip(cut, captions, strict=True)]
    assert sum(same) >= share * len(captions)
