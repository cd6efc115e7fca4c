"""What a tokenizer makes of text is counted: fertility, unknown pieces, scripts, unused pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.tokenizer.engines import unigram_engine, wordpiece_engine
from bertworks.tokenizer.inspect import LONGEST_SHOWN, MOST_SHOWN, Inspection
from bertworks.tokenizer.sentencepiece import UnigramModel
from bertworks.tokenizer.special_pieces import ALBERT
from bertworks.tokenizer.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, "the", "cat", "run", "##ning", "##s", "北", "京", ".", "never"]


@pytest.fixture
def small() -> Tokenizer:
    """Give a vocabulary whose pieces can be counted by hand."""
    return Tokenizer(wordpiece_engine({p: i for i, p in enumerate(PIECES)}, cased=False))


def inspected(tokenizer: Tokenizer, *texts: str) -> Inspection:
    """Count texts."""
    inspection = Inspection(tokenizer)
    for text in texts:
        inspection.add(text)
    return inspection


def test_the_numbers_are_those_that_a_hand_counts(small: Tokenizer) -> None:
    found = inspected(small, "The cats running.", "北京毒 dog dog").summary()
    assert found == {
        "words": 8,  # the cats running 北 京 毒 dog dog
        "pieces": 11,  # the cat ##s run ##ning . 北 京 [UNK] [UNK] [UNK]; but
        "fertility": 10 / 8,  # the full stop is no word's
        "whole_words": 3 / 8,  # the 北 京
        "characters_per_piece": 24 / 11,
        "unknown_pieces": 3 / 11,
        "unknown_characters": 7 / 24,
        "vocabulary": 14,
        "unused_pieces": 5,
        "scripts": [
            {
                "script": "Latin",
                "words": 5,
                "share_of_words": 5 / 8,
                "covered": 1 - 6 / 20,
                "fertility": 7 / 5,
                "whole_words": 1 / 5,
            },
            {
                "script": "Han",
                "words": 3,
                "share_of_words": 3 / 8,
                "covered": 1 - 1 / 3,
                "fertility": 1.0,
                "whole_words": 2 / 3,
            },
        ],
        "unknown_words": [{"text": "dog", "count": 2}, {"text": "毒", "count": 1}],
    }


def test_unused_pieces_are_listed_in_their_order(small: Tokenizer) -> None:
    inspection = inspected(small, "the 北 dog")
    used = {"[UNK]", "the", "北"}
    assert inspection.unused() == [piece for piece in PIECES if piece not in used]


def test_nothing_gives_zeros(small: Tokenizer) -> None:
    found = inspected(small, "", " \n").summary()
    assert (found["words"], found["pieces"], found["fertility"]) == (0, 0, 0.0)
    assert (found["scripts"], found["unknown_words"]) == ([], [])


def test_only_the_commonest_unknown_words_are_shown_and_long_ones_cut(small: Tokenizer) -> None:
    texts = [f"w{'x' * number}" for number in range(1, MOST_SHOWN + 9)]
    found = inspected(small, *texts, "y" * 300, "y" * 300).summary()["unknown_words"]
    assert len(found) == MOST_SHOWN
    assert found[0] == {"text": "y" * LONGEST_SHOWN, "count": 2}


def test_a_piece_over_two_words_is_counted_once() -> None:
    pieces = [*((name, 0.0) for name in ALBERT.names()), ("▁", -2.0), ("北京", -3.0)]
    tokenizer = Tokenizer(unigram_engine(UnigramModel(pieces, 1)))
    (row,) = inspected(tokenizer, "北京北京").summary()["scripts"]
    assert row["words"] == 4
    assert row["fertility"] == 3 / 4  # the mark of a space before the text is the third
    assert row["whole_words"] == 3 / 4


def test_bytes_know_every_script(kinds: dict[str, Tokenizer]) -> None:
    found = inspected(kinds["byte-bpe"], "Москва 😀 cat cat 毒").summary()
    assert (found["unknown_pieces"], found["unknown_words"]) == (0.0, [])
    rows = {row["script"]: row for row in found["scripts"]}
    assert rows["Latin"]["whole_words"] == 1.0
    assert rows["Cyrillic"]["fertility"] == 12.0
    assert all(row["covered"] == 1.0 for row in rows.values())


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
@given(texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=4))
def test_counts_agree_with_the_tokenizer_whatever_the_text(
    kinds: dict[str, Tokenizer], kind: str, texts: list[str]
) -> None:
    tokenizer = kinds[kind]
    inspection = inspected(tokenizer, *texts)
    found = inspection.summary()
    used = [index for ids in tokenizer.ids_of(texts) for index in ids]
    assert found["pieces"] == len(used)
    assert found["unused_pieces"] + len(set(used)) == len(tokenizer.engine.get_vocab())
    assert sum(row["words"] for row in found["scripts"]) == found["words"]
    assert sum(count["pieces"] for count in inspection.scripts.values()) <= len(used)
    for row in found["scripts"]:
        assert 0 <= row["whole_words"] <= 1
        assert 0 <= row["covered"] <= 1
