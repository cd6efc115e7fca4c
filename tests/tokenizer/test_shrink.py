"""A vocabulary shrinks to what texts need, and those texts are cut as before."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine

from bertworks.tokenizer.engines import byte_bpe_engine, wordpiece_engine
from bertworks.tokenizer.extend import extend
from bertworks.tokenizer.shrink import Needs, match_greedily
from bertworks.tokenizer.special_pieces import ROBERTA
from bertworks.tokenizer.tokenizer import Tokenizer

KINDS = ["wordpiece", "byte-bpe", "unigram"]
TEXTS = ["The cat sat on the hill.", "the dog: 北京! 日本 (xyzzy)", "e\u0301 😀 [MASK]"]


def shrunken(tokenizer: Tokenizer, texts: list[str]) -> tuple[Tokenizer, list[int]]:
    """Keep what the texts need."""
    needs = Needs(tokenizer)
    for text in texts:
        needs.add([text])
    return needs.shrunken()


def old_ids(smaller: Tokenizer, kept: list[int], texts: list[str]) -> list[list[int]]:
    """Return what the smaller tokenizer makes of texts, in the numbers of the larger one."""
    return [[kept[index] for index in ids] for ids in smaller.ids_of(texts)]


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=4))
def test_the_texts_are_cut_as_before_whatever_they_are(
    kinds: dict[str, Tokenizer], kind: str, texts: list[str]
) -> None:
    smaller, kept = shrunken(kinds[kind], texts)
    assert old_ids(smaller, kept, texts) == kinds[kind].ids_of(texts)


@pytest.mark.parametrize("kind", KINDS)
@given(words=st.lists(st.text("catonhesdg ", min_size=1, max_size=9), min_size=1, max_size=5))
def test_words_of_common_letters_are_cut_as_before(
    kinds: dict[str, Tokenizer], kind: str, words: list[str]
) -> None:
    smaller, kept = shrunken(kinds[kind], words)
    assert old_ids(smaller, kept, words) == kinds[kind].ids_of(words)


@pytest.mark.parametrize("kind", KINDS)
def test_special_pieces_and_their_layout_are_kept(kinds: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = kinds[kind]
    smaller, kept = shrunken(tokenizer, TEXTS)
    assert len(kept) == smaller.vocab_size < tokenizer.vocab_size
    now, before = smaller.specials, tokenizer.specials
    assert [kept[index] for index in now.as_tuple()] == list(before.as_tuple())
    pair = smaller.engine.encode("the cat", "the dog")
    whole = tokenizer.engine.encode("the cat", "the dog")
    assert [kept[index] for index in pair.ids] == whole.ids
    assert pair.type_ids == whole.type_ids


@pytest.mark.parametrize("kind", KINDS)
def test_no_piece_is_kept_without_need(kinds: dict[str, Tokenizer], kind: str) -> None:
    smaller, kept = shrunken(kinds[kind], ["the cat"])
    used = set(kinds[kind].ids_of(["the cat"])[0]) | set(kinds[kind].specials.as_tuple())
    surplus = [smaller.piece(index) for index, old in enumerate(kept) if old not in used]
    if kind == "wordpiece":
        assert surplus == []
    elif kind == "unigram":
        assert len(surplus) <= 1  # the rarest piece
    else:
        between = {"th", "he", "ca", "at", "Ġc", "Ġca"}
        assert {piece for piece in surplus if len(piece) > 1} <= between
        assert len([piece for piece in surplus if len(piece) == 1]) >= 250


def test_an_unknown_word_stays_unknown() -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "a", "##b", "##c", "##d"]
    tokenizer = Tokenizer(wordpiece_engine({p: i for i, p in enumerate(pieces)}, cased=False))
    # The word is unknown because ab, the longest beginning, leaves an x; a ##b ##x is not tried.
    texts = ["abx", "a", "ab ##", "abc"]
    smaller, kept = shrunken(tokenizer, texts)
    assert old_ids(smaller, kept, texts) == tokenizer.ids_of(texts)
    assert "ab" in smaller.engine.get_vocab()
    assert "##d" not in smaller.engine.get_vocab()


def test_without_the_pieces_on_the_way_an_unknown_word_would_be_known() -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "a", "##bx", "##c"]
    tokenizer = Tokenizer(wordpiece_engine({p: i for i, p in enumerate(pieces)}, cased=False))
    texts = ["abx", "a", "abxc"]
    needs = Needs(tokenizer)
    needs.add(texts)
    needs.ids |= {tokenizer.engine.token_to_id("##bx")}
    smaller, kept = needs.shrunken()
    assert old_ids(smaller, kept, texts) == tokenizer.ids_of(texts)
    needs.ids -= {tokenizer.engine.token_to_id("ab")}
    careless, kept = needs.shrunken()
    assert old_ids(careless, kept, texts) != tokenizer.ids_of(texts)


def test_greedy_matching_ends_where_nothing_fits() -> None:
    vocabulary = {"un": 0, "una": 1, "##b": 2, "##ble": 3, "##le": 4}
    model = {"vocab": vocabulary, "continuing_subword_prefix": "##"}
    assert match_greedily("unable", model) == [1, 3]
    assert match_greedily("unabx", model) == [1, 2]
    assert match_greedily("xun", model) == []


def test_a_piece_that_is_taken_whole_needs_no_merges() -> None:
    vocabulary = {piece: index for index, piece in enumerate([*ROBERTA.names(), *"catb", "ca"])}
    engine = byte_bpe_engine({**vocabulary, "cat": len(vocabulary)}, [("c", "a")])
    told = json.loads(engine.to_str())
    told["model"]["ignore_merges"] = True
    tokenizer = Tokenizer(Engine.from_str(json.dumps(told)))
    smaller, kept = shrunken(tokenizer, ["cat"])
    assert old_ids(smaller, kept, ["cat"]) == tokenizer.ids_of(["cat"])
    assert "ca" not in smaller.engine.get_vocab()
    assert "ca" in shrunken(tokenizer, ["cab"])[0].engine.get_vocab()


def test_merges_written_as_words_are_read_too(kinds: dict[str, Tokenizer]) -> None:
    needs = Needs(kinds["byte-bpe"])
    needs.model["merges"] = [" ".join(merge) for merge in needs.model["merges"]]
    needs.add(["the cat"])
    smaller, kept = needs.shrunken()
    assert old_ids(smaller, kept, ["the cat"]) == kinds["byte-bpe"].ids_of(["the cat"])


def test_what_is_unknown_to_a_unigram_model_keeps_its_score(kinds: dict[str, Tokenizer]) -> None:
    tokenizer = kinds["unigram"]
    model = json.loads(tokenizer.engine.to_str())["model"]
    smaller, _ = shrunken(tokenizer, ["the cat"])
    now = json.loads(smaller.engine.to_str())["model"]
    assert min(score for _, score in now["vocab"]) == min(score for _, score in model["vocab"])


@pytest.mark.parametrize("kind", KINDS)
def test_added_words_are_kept_where_they_occur(kinds: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = extend(kinds[kind], ["首都机场", "dogma", "covid-19"]).tokenizer
    texts = ["the dogma", "在首都机场学习", "dogmatic"]
    smaller, kept = shrunken(tokenizer, texts)
    assert old_ids(smaller, kept, texts) == tokenizer.ids_of(texts)
    vocabulary = smaller.engine.get_vocab()
    assert {"首都机场", "dogma"} <= vocabulary.keys()
    assert "covid-19" not in vocabulary


def test_a_smaller_tokenizer_numbers_pairs_as_before(tokenizer: Tokenizer) -> None:
    plain = Tokenizer(tokenizer.engine, tokenizer.names, has_segments=False)
    assert shrunken(plain, TEXTS)[0].specials.second_segment == 0
    assert shrunken(tokenizer, TEXTS)[0].specials.second_segment == 1
