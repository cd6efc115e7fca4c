"""Words begin where a person sees them begin, whatever pieces the text is cut into."""

import sys
from functools import partial
from importlib.metadata import version
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertworks.core.errors import MissingPackageError
from bertworks.tokenizer.boundaries import WordFinder, WordKind, find_starts, load_segmenter
from bertworks.tokenizer.engines import unigram_engine
from bertworks.tokenizer.learn import learn_byte_bpe, learn_unigram, learn_wordpiece
from bertworks.tokenizer.sentencepiece import UnigramModel
from bertworks.tokenizer.special_pieces import ALBERT
from bertworks.tokenizer.tokenizer import Tokenizer

LEARNED_FROM = ["The runners don't run.", "It's 3.14, über 北京天气很好。"] * 3
LEARNERS = {
    "wordpiece": partial(learn_wordpiece, size=90),
    "byte-bpe": partial(learn_byte_bpe, size=262),
    "unigram": partial(learn_unigram, size=60),
}
SEGMENT = load_segmenter()
TEXTS = st.lists(st.text(st.sampled_from("ab1 .'-,:_北京大学\u0301é😀\u200d"), max_size=12))


@pytest.fixture(scope="module", params=LEARNERS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Learn a small vocabulary of each kind, which has pieces for parts of most words."""
    return LEARNERS[request.param](lambda: LEARNED_FROM, cased=False)


def words_of(text: str, *, chinese: bool = False) -> list[str]:
    """Cut a text where words begin; the spaces before them fall away."""
    starts = find_starts(text, SEGMENT if chinese else None).nonzero()[0]
    return [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]


def groups_of(tokenizer: Tokenizer, kind: WordKind, *texts: str) -> list[str]:
    """Put the pieces of each word together again."""
    cut, begins = WordFinder(tokenizer, kind).cut(texts)
    flat = cut.ids.tolist()
    assert len(flat) == len(begins)
    groups = pairwise([*begins.nonzero()[0], len(flat)])
    return [tokenizer.text_of(flat[start:end]).replace(" ", "") for start, end in groups]


# The text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't know.", ["I", "don't", "know", "."]),
        ("O’Neill's dog", ["O’Neill's", "dog"]),
        ("the dogs' bowl", ["the", "dogs", "'", "bowl"]),
        ("rock 'n' roll", ["rock", "'", "n", "'", "roll"]),
        ("state-of-the-art", ["state", "-", "of", "-", "the", "-", "art"]),
        ("the U.S. law", ["the", "U.S", ".", "law"]),
        ("e.g. this", ["e.g", ".", "this"]),
        ("about 3.14, or 1,000", ["about", "3.14", ",", "or", "1,000"]),
        ("at 10:30: go", ["at", "10:30", ":", "go"]),
        ("one,two", ["one", ",", "two"]),
        ("the 3rd B2B", ["the", "3rd", "B2B"]),
        ("wait... what?!", ["wait", "...", "what", "?", "!"]),
        ("a..b", ["a", "..", "b"]),
        ("snake_case __init__", ["snake_case", "__", "init", "__"]),
        ("https://a.org/x", ["https", ":", "//", "a.org", "/", "x"]),
        ('"(so)"', ['"', "(", "so", ")", '"']),
        ("naïve e\u0301te\u0301", ["naïve", "e\u0301te\u0301"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("한국어 책", ["한국어", "책"]),
        ("ok😀😀", ["ok", "😀😀"]),
        ("  two   spaces ", ["two", "spaces"]),
        ("", []),
        (" ", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert words_of(text) == words
    assert words_of(text, chinese=True) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("北京大学的学生", ["北京大学", "的", "学生"]),
        ("我们去公园。", ["我们", "去", "公园", "。"]),
        ("他说——好！！", ["他", "说", "——", "好", "！！"]),
        ("iPhone15很好", ["iPhone15", "很", "好"]),
        ("买3.14斤 苹果", ["买", "3.14", "斤", "苹果"]),
        ("T恤", ["T恤"]),
    ],
)
def test_a_segmenter_finds_chinese_words_and_touches_nothing_else(
    text: str, words: list[str]
) -> None:
    assert words_of(text, chinese=True) == words
    single = [piece for word in words_of(text) for piece in word if "一" <= piece <= "龥"]
    assert all(piece in words_of(text) for piece in single)  # without it each character is a word


def test_characters_of_scripts_without_spaces_are_words() -> None:
    assert words_of("ไทย") == ["ไ", "ท", "ย"]
    assert words_of("がな", chinese=True) == ["が", "な"]


@given(TEXTS)
@example(["北", "京"])
@example(["don", "'t"])
def test_texts_side_by_side_do_not_change_each_others_words(texts: list[str]) -> None:
    for segment in (None, SEGMENT):
        together = find_starts("\n".join(texts), segment).sum()
        assert together == sum(find_starts(text, segment).sum() for text in texts)


# Pieces


SENTENCE = "The runners don't run. 3.14, 北京天气很好。"


def test_every_kind_of_pieces_has_the_same_words(tokenizer: Tokenizer) -> None:
    english = ["the", "runners", "don't", "run", ".", "3.14", ","]
    assert groups_of(tokenizer, "text", SENTENCE) == [*english, *"北京天气很好。"]
    chinese = ["北京", "天气", "很", "好", "。"]
    assert groups_of(tokenizer, "zh", SENTENCE) == [*english, *chinese]


def test_words_as_pieces_tell_them_are_another_thing(tokenizer: Tokenizer) -> None:
    found = groups_of(tokenizer, "pieces", f" {SENTENCE}")
    assert "don't" not in found
    assert "3.14" not in found
    assert "北京" not in found
    starts = tokenizer.word_starts()
    cut, begins = WordFinder(tokenizer, "pieces").cut([SENTENCE, "", "run"])
    assert begins.tolist() == starts[cut.ids].tolist()


@pytest.mark.parametrize("kind", ["text", "zh"])
def test_texts_are_cut_together_as_they_are_alone(tokenizer: Tokenizer, kind: WordKind) -> None:
    texts = ["run", "", " 北京", "京", "'t", " don't", "\u0301", "x y"]
    finder = WordFinder(tokenizer, kind)
    cut, begins = finder.cut(texts)
    alone = [finder.cut([text]) for text in texts]
    assert cut.ids.tolist() == [index for found, _ in alone for index in found.ids.tolist()]
    assert cut.counts.tolist() == [len(found.ids) for found, _ in alone]
    assert begins.tolist() == [mark for _, marks in alone for mark in marks.tolist()]
    assert finder.cut([])[1].shape == (0,)


@given(TEXTS)
@example(["\u200da"])
def test_the_first_piece_of_a_text_begins_a_word_and_no_word_has_two_beginnings(
    tokenizer: Tokenizer, texts: list[str]
) -> None:
    cut, begins = WordFinder(tokenizer, "text").cut(texts)
    first = 0
    for text, count in zip(texts, cut.counts.tolist(), strict=True):
        marks = begins[first : first + count]
        assert marks[:1].all()
        assert marks.sum() <= max(find_starts(text).sum(), 1)
        first += count


def test_a_piece_over_several_words_begins_one() -> None:
    names = [(name, 0.0) for name in ALBERT.names()]
    pieces = [*names, ("▁公园很好", -1.0), ("▁北", -1.0), ("京天", -1.0), ("气", -1.0)]
    tokenizer = Tokenizer(unigram_engine(UnigramModel(pieces, unknown_id=1)))
    cut, begins = WordFinder(tokenizer, "zh").cut(["公园很好", "北京天气"])
    assert cut.counts.tolist() == [1, 3]
    assert begins.tolist() == [True, True, True, False]


# The segmenter


def test_how_words_were_found_is_told(tokenizer: Tokenizer) -> None:
    assert WordFinder(tokenizer, "text").description == {"words": "text"}
    told = WordFinder(tokenizer, "zh").description
    assert told == {"words": "zh", "segmenter": f"rjieba {version('rjieba')}"}


def test_a_missing_segmenter_is_one_sentence(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    WordFinder(tokenizer, "text").cut(["北京"])
    with pytest.raises(MissingPackageError, match=r"Chinese words needs: pip .*bertworks\[zh\]"):
        WordFinder(tokenizer, "zh")
