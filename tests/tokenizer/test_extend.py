"""Words that are added are found whole, and text without them is cut as before."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.tokenizer.engines import byte_bpe_engine
from bertworks.tokenizer.extend import extend
from bertworks.tokenizer.learn import learn_wordpiece
from bertworks.tokenizer.special_pieces import ROBERTA
from bertworks.tokenizer.tokenizer import Tokenizer

KINDS = ["wordpiece", "byte-bpe", "unigram"]
HARD = [
    "Xylophon",
    "covid-19",
    "首都机场",
    "New York",
    "Ångström",
    "T恤",
    "c++",
    "😀",
    "don't",
    "ภาษาไทย",
    "x" * 120,
]


def piece_of(word: str, tokenizer: Tokenizer) -> int:
    """Return the id of an added word."""
    normalizer = tokenizer.engine.normalizer
    parts = [
        "".join(normalizer.normalize_str(part).split()) if normalizer else part
        for part in word.split()
    ]
    index = tokenizer.engine.token_to_id(" ".join(parts))
    assert index is not None
    return index


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", HARD)
def test_a_hard_word_is_one_piece_wherever_it_stands(
    kinds: dict[str, Tokenizer], kind: str, word: str
) -> None:
    extended = extend(kinds[kind], HARD).tokenizer
    index = piece_of(word, extended)
    for text in (word, f"the {word} cat", f"the cat ({word}), and", f"cat {word}.", f"a\n{word}"):
        assert extended.ids_of([text])[0].count(index) == 1, text


@pytest.mark.parametrize("kind", KINDS)
def test_a_chinese_word_is_found_between_others_without_a_space(
    kinds: dict[str, Tokenizer], kind: str
) -> None:
    extended = extend(kinds[kind], ["首都机场", "T恤"]).tokenizer
    for word in ("首都机场", "T恤"):
        for text in (f"我们在{word}学习", f"{word}学", f"我{word}", f"{word}{word}"):
            found = extended.ids_of([text])[0].count(piece_of(word, extended))
            assert found == text.count(word), text


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_piece_has_the_name_of_its_word_and_begins_one(
    kinds: dict[str, Tokenizer], kind: str
) -> None:
    extended = extend(kinds[kind], ["首都机场", "dogma"]).tokenizer
    for word in ("首都机场", "dogma"):
        index = piece_of(word, extended)
        assert extended.piece(index) == extended.shown(index) == word
        assert extended.word_starts()[index]


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_inside_a_longer_one_is_not_found(kinds: dict[str, Tokenizer], kind: str) -> None:
    extended = extend(kinds[kind], ["dogma", "c++"]).tokenizer
    for text in ("dogmatic", "hotdogma", "dogma1", "objc++", "c++11"):
        assert extended.ids_of([text]) == kinds[kind].ids_of([text])


@pytest.mark.parametrize("kind", KINDS)
def test_no_bare_space_is_left_before_a_word(kinds: dict[str, Tokenizer], kind: str) -> None:
    extended = extend(kinds[kind], ["dogma"]).tokenizer
    ids = extended.ids_of(["the dogma"])[0]
    assert ids == [*kinds[kind].ids_of(["the"])[0], piece_of("dogma", extended)]


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_text_without_the_words_is_cut_as_before(
    kinds: dict[str, Tokenizer], kind: str, text: str
) -> None:
    extended = extend(kinds[kind], ["首都机场", "dogma", "covid-19"]).tokenizer
    assume("首都机场" not in text)
    assert extended.ids_of([text]) == kinds[kind].ids_of([text])
    assert extended.encode(text).offsets == kinds[kind].encode(text).offsets


def test_capitals_and_accents_count_only_where_the_tokenizer_keeps_them(
    tokenizer: Tokenizer,
) -> None:
    extension = extend(tokenizer, ["ZÜRICHSEE", "zurichsee", "Zürichsee"])
    assert len(extension.parts) == 1
    (index,) = extension.parts
    ids = extension.tokenizer.ids_of(["Zürichsee zurichsee ZURICHSEE"])[0]
    assert ids == [index] * 3
    cased = learn_wordpiece(lambda: ["The cat and the Dog"] * 3, size=51, cased=True)
    extension = extend(cased, ["DOG", "dog"])
    assert len(extension.parts) == 2
    assert extension.tokenizer.ids_of(["DOG dog Dog"])[0] == [
        *extension.parts,
        *cased.ids_of(["Dog"])[0],
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_starts_from_the_pieces_it_was_cut_into(
    kinds: dict[str, Tokenizer], kind: str
) -> None:
    tokenizer = kinds[kind]
    extension = extend(tokenizer, ["hilldog"])
    ((index, parts),) = extension.parts.items()
    assert index == tokenizer.vocab_size
    (cut,) = tokenizer.ids_of([" hilldog"])
    assert parts == [part for part in cut if tokenizer.piece(part) not in ("Ġ", "▁")]
    assert len(parts) > 1
    sources = extension.sources(tokenizer.vocab_size)
    assert sources[:-1] == [[row] for row in range(tokenizer.vocab_size)]
    assert sources[-1] == parts


def test_a_row_that_no_piece_used_is_taken_over(tokenizer: Tokenizer) -> None:
    size = tokenizer.vocab_size
    extension = extend(tokenizer, ["hilldog", "catmat"])
    sources = extension.sources(size + 7)
    assert len(sources) == size + 7
    assert [sources[index] for index in extension.parts] == list(extension.parts.values())
    assert sources[size + 2 :] == [[row] for row in range(size + 2, size + 7)]


def test_known_words_are_left_and_unreadable_ones_start_from_everything(
    tokenizer: Tokenizer,
) -> None:
    assert tokenizer.specials.unknown in tokenizer.ids_of(["日"])[0]
    extension = extend(tokenizer, ["Cat", "the", "日", "hilldog"])
    assert extension.known == ["cat", "the"]
    assert extension.unreadable == ["日"]
    assert next(iter(extension.parts.values())) == range(tokenizer.vocab_size)
    assert len(extension.parts) == 2


def test_a_piece_that_text_did_not_reach_is_reached_by_its_own_row() -> None:
    names = [*ROBERTA.names(), "Ġ", "c", "a", "t", "Ġc", "at", "cat"]
    merges = [("Ġ", "c"), ("a", "t"), ("c", "at")]
    engine = byte_bpe_engine({piece: index for index, piece in enumerate(names)}, merges)
    assert engine.encode(" cat", add_special_tokens=False).tokens == ["Ġc", "at"]
    extension = extend(Tokenizer(engine), ["cat"])
    assert (extension.reused, extension.parts) == (["cat"], {})
    assert extension.tokenizer.ids_of([" cat", "cat"]) == [[names.index("cat")]] * 2
    assert extension.sources(len(names)) == [[row] for row in range(len(names))]


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizer_that_was_given_stays_as_it_is(
    kinds: dict[str, Tokenizer], kind: str
) -> None:
    before = kinds[kind].engine.to_str()
    extend(kinds[kind], HARD)
    assert kinds[kind].engine.to_str() == before


def test_a_word_of_nothing_and_one_that_cannot_be_are_refused(
    tokenizer: Tokenizer, kinds: dict[str, Tokenizer]
) -> None:
    with pytest.raises(UsageError, match=r"'\\u200b' is nothing to this tokenizer; leave it out"):
        extend(tokenizer, ["\u200b"])
    with pytest.raises(UsageError, match="cannot be one piece"):
        extend(kinds["byte-bpe"], ["a</s>b"])


@pytest.mark.parametrize(
    ("kind", "word"), [("byte-bpe", "é"), ("byte-bpe", "Ġcat"), ("wordpiece", "##s")]
)
def test_a_word_never_takes_the_row_of_a_piece_that_means_something_else(
    kinds: dict[str, Tokenizer], kind: str, word: str
) -> None:
    assert kinds[kind].engine.token_to_id(word) is not None
    with pytest.raises(UsageError, match=f"'{word}' is written as a piece .* leave it out"):
        extend(kinds[kind], [word])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["\udcff", "ab\ud800"])
def test_a_word_that_is_no_text_is_refused(
    kinds: dict[str, Tokenizer], kind: str, word: str
) -> None:
    with pytest.raises(UsageError, match=r"is not UTF-8; write it in UTF-8"):
        extend(kinds[kind], [word])


@pytest.mark.parametrize("kind", KINDS)
def test_a_special_piece_is_no_word_whatever_its_case(
    kinds: dict[str, Tokenizer], kind: str
) -> None:
    for name in kinds[kind].names.names():
        for word in (name, name.lower(), f" {name.title()} "):
            with pytest.raises(UsageError, match="is a special piece of this tokenizer"):
                extend(kinds[kind], [word])


def test_a_larger_tokenizer_numbers_pairs_as_before(tokenizer: Tokenizer) -> None:
    plain = Tokenizer(tokenizer.engine, tokenizer.names, has_segments=False)
    assert extend(plain, ["hilldog"]).tokenizer.specials == plain.specials
    assert extend(tokenizer, ["hilldog"]).tokenizer.specials == tokenizer.specials
