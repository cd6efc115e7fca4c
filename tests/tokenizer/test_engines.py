"""The engines cut text by the rules of their families."""

from collections.abc import Callable

import pytest
from tokenizers import AddedToken

from bertworks.tokenizer.engines import byte_bpe_engine, unigram_engine, wordpiece_engine
from bertworks.tokenizer.sentencepiece import UnigramModel
from bertworks.tokenizer.special_pieces import ALBERT, BERT, MPNET, ROBERTA

WORDS = ["the", "cafe", "café", "The", "##s", "北京", "北", "京", "[", "]", "mask"]


def numbered(*pieces: str) -> dict[str, int]:
    return {piece: index for index, piece in enumerate(pieces)}


@pytest.mark.parametrize(
    ("options", "cut"),
    [
        ({"cased": False}, ["the", "cafe", "##s", "北", "京"]),
        ({"cased": False, "strip_accents": False}, ["the", "café", "##s", "北", "京"]),
        ({"cased": True, "split_chinese": False}, ["The", "café", "##s", "北京"]),
        ({"cased": True, "strip_accents": True}, ["The", "cafe", "##s", "北", "京"]),
    ],
)
def test_wordpiece_obeys_its_options(options: dict[str, bool], cut: list[str]) -> None:
    engine = wordpiece_engine(numbered(*BERT.names(), *WORDS), **options)
    assert engine.encode("The cafés 北京", add_special_tokens=False).tokens == cut


def test_wordpiece_with_the_names_of_mpnet_has_two_separators_between() -> None:
    engine = wordpiece_engine(numbered(*MPNET.names(), "a", "b"), cased=True, names=MPNET)
    tokens = engine.encode("a c", "b").tokens
    assert tokens == ["<s>", "a", "[UNK]", "</s>", "</s>", "b", "</s>"]


def test_byte_pairs_are_merged_in_their_order() -> None:
    vocabulary = numbered(*ROBERTA.names(), "a", "b", "Ġ", "ab", "Ġab", "ba")
    engine = byte_bpe_engine(vocabulary, [("a", "b"), ("b", "a"), ("Ġ", "ab")])
    assert engine.encode("aba ab").tokens == ["<s>", "ab", "a", "Ġab", "</s>"]
    assert engine.encode("ab ab").offsets == [(0, 0), (0, 2), (3, 5), (0, 0)]
    assert engine.encode("a", "b").tokens == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    spaced = byte_bpe_engine(vocabulary, [("a", "b"), ("Ġ", "ab")], prefix_space=True)
    assert spaced.encode("ab", add_special_tokens=False).tokens == ["Ġab"]


def test_flags_of_added_pieces_are_kept() -> None:
    vocabulary = numbered(*ROBERTA.names(), "a", "Ġ")
    tokens = [AddedToken(name, special=True, lstrip=name == "<mask>") for name in ROBERTA.names()]
    plain = byte_bpe_engine(vocabulary, [])
    flagged = byte_bpe_engine(vocabulary, [], added=tokens)
    cut = [engine.encode("a <mask>", add_special_tokens=False).ids for engine in (plain, flagged)]
    assert cut == [[5, 6, 4], [5, 4]]


def test_the_likeliest_pieces_are_taken(character_map: Callable[..., bytes]) -> None:
    scores = [("▁a", -1.0), ("b", -1.5), ("▁ab", -2.0), ("▁", -3.0), ('"', -3.0), ("ä", -4.0)]
    pieces = [(name, 0.0) for name in ALBERT.names()] + scores
    changes = character_map({"①": "a", "bb": "b"})

    def cut(text: str, *, characters: bytes = b"", **options: bool) -> list[str | None]:
        engine = unigram_engine(UnigramModel(pieces, 1, (), characters), **options)
        ids = engine.encode(text, add_special_tokens=False).ids
        return [engine.id_to_token(index) for index in ids]

    folded = ["▁ab", "▁", '"', "<unk>", "b", '"', "▁", "<unk>"]
    assert cut("AB ``äb'' z") == folded
    assert cut("A äb", cased=True, keep_accents=True) == ["▁", "<unk>", "▁", "ä", "b"]
    assert cut("①b", characters=changes, keep_accents=True) == ["▁ab"]
    assert cut("ab", prefix_space=False) == ["<unk>", "b"]


@pytest.mark.parametrize("engine", ["wordpiece", "byte-bpe", "unigram"])
def test_special_pieces_written_in_a_text_stand_for_themselves(engine: str) -> None:
    made, names = {
        "wordpiece": (wordpiece_engine(numbered(*BERT.names(), *WORDS), cased=False), BERT),
        "byte-bpe": (byte_bpe_engine(numbered(*ROBERTA.names(), "a"), []), ROBERTA),
        "unigram": (unigram_engine(UnigramModel([(n, 0.0) for n in ALBERT.names()], 1)), ALBERT),
    }[engine]
    for name in names.names():
        assert made.encode(name, add_special_tokens=False).tokens == [name]
