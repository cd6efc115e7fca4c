"""A vocabulary is learned from streamed text, and twice the same."""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, trainers

from bertworks.core.errors import DataError
from bertworks.core.seeds import random_at
from bertworks.tokenizer.engines import wordpiece_engine
from bertworks.tokenizer.learn import learn_byte_bpe, learn_unigram, learn_wordpiece
from bertworks.tokenizer.special_pieces import ALBERT, BERT, ROBERTA
from bertworks.tokenizer.tokenizer import Tokenizer

SOURCE = Path(__file__).parents[2] / "src"
TEXTS = [
    "The Café was naïve about running, runners and runs; the cafés were unaffable.",
    "我们今天在北京学习中文，北京是中国的首都。",
    "Das Mädchen läuft über den Hügel und singt ein Lied über das Mädchen.",
    "Numbers 3, 14, 159 and e-mail@example.com are split. \U0001f600 stays.",
]
LEARN = """
import json, sys
from bertworks.tokenizer import learn
kind, size, texts = json.loads(sys.stdin.read())
options = dict(size=size, cased=False)
sys.stdout.write(getattr(learn, kind)(lambda: texts, **options).engine.to_str())
"""
KINDS = {"learn_wordpiece": 331, "learn_byte_bpe": 611, "learn_unigram": 331}


def words(count: int, *, seed: int) -> list[str]:
    """Make texts of random words in which many pairs of letters are equally common."""
    random = random_at(seed, "words")
    letters = list("abcdefghijklmnopqrstuvwxyzäöü")
    return [
        " ".join("".join(random.choice(letters, size=7)) for _ in range(11)) for _ in range(count)
    ]


def learn(size: int = 153, *, cased: bool = False, min_count: int = 2) -> Tokenizer:
    return learn_wordpiece(lambda: TEXTS * 3, size=size, cased=cased, min_count=min_count)


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.encode(text).tokens


@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_hash_differently_learn_the_same_vocabulary(kind: str) -> None:
    asked = json.dumps([kind, KINDS[kind], words(60, seed=3) + TEXTS])
    learned = []
    for hash_seed, threads in (("0", "1"), ("1", "2"), ("17", "3")):
        done = subprocess.run(
            [sys.executable, "-c", LEARN],
            input=asked.encode(),
            capture_output=True,
            check=True,
            env={
                "PYTHONPATH": str(SOURCE),
                "PYTHONHASHSEED": hash_seed,
                "RAYON_NUM_THREADS": threads,
            },
        )
        learned.append(done.stdout)
    assert len(json.loads(learned[0])["model"]["vocab"]) == KINDS[kind]
    assert learned[0] == learned[1] == learned[2]


def test_the_trainer_by_itself_would_not_repeat_its_vocabulary() -> None:
    texts = words(60, seed=3)
    learned = set()
    for _ in range(5):
        engine = wordpiece_engine({}, cased=False)
        trainer = trainers.WordPieceTrainer(
            vocab_size=331, special_tokens=list(BERT.names()), show_progress=False
        )
        engine.train_from_iterator(texts, trainer)
        learned.add(frozenset(engine.get_vocab().items()))
    assert len(learned) > 1


def test_other_text_gives_another_vocabulary() -> None:
    first, second = words(60, seed=3), words(60, seed=4)
    vocabularies = [
        learn_wordpiece(lambda texts=texts: texts, size=331, cased=False).engine.get_vocab()
        for texts in (first, second)
    ]
    assert vocabularies[0] != vocabularies[1]


def test_the_special_pieces_come_first_in_the_order_of_bert() -> None:
    tokenizer = learn()
    assert [tokenizer.piece(index) for index in range(5)] == list(BERT.names())
    assert tokenizer.specials.as_tuple() == (0, 1, 2, 3, 4)


def test_ids_are_dense_and_no_more_than_wanted() -> None:
    for size in (113, 153, 5000):
        tokenizer = learn(size)
        assert tokenizer.vocab_size <= size
        ids = sorted(tokenizer.engine.get_vocab().values())
        assert ids == list(range(tokenizer.vocab_size))
    assert learn(153).vocab_size == 153


def test_words_of_the_text_become_pieces_and_are_found_again() -> None:
    tokenizer = learn(5000)
    assert pieces(tokenizer, "the runners") == ["the", "runners"]
    assert pieces(tokenizer, "The RUNNERS") == ["the", "runners"]


def test_an_unseen_word_is_cut_into_pieces_that_continue() -> None:
    found = pieces(learn(), "lauberin")
    assert "[UNK]" not in found
    assert found[0][0] != "#"
    assert all(piece.startswith("##") for piece in found[1:])
    assert "".join(piece.removeprefix("##") for piece in found) == "lauberin"


def test_chinese_characters_stand_alone() -> None:
    tokenizer = learn(5000)
    assert pieces(tokenizer, "北京是首都") == list("北京是首都")
    vocabulary = tokenizer.engine.get_vocab()
    assert not [piece for piece in vocabulary if "北" in piece and piece != "北"]


def test_an_uncased_vocabulary_folds_case_and_accents() -> None:
    tokenizer = learn()
    assert tokenizer.folds("A", "a")
    assert pieces(tokenizer, "Café MÄDCHEN") == pieces(tokenizer, "cafe madchen")
    learned = "".join(set(tokenizer.engine.get_vocab()) - set(BERT.names()))
    assert learned == learned.lower()
    assert not set(learned) & set("éïäü")


def test_a_cased_vocabulary_keeps_case_and_accents() -> None:
    tokenizer = learn(5000, cased=True)
    assert not tokenizer.folds("A", "a")
    assert pieces(tokenizer, "Mädchen") == ["Mädchen"]
    assert pieces(tokenizer, "mädchen") != pieces(tokenizer, "Mädchen")
    assert pieces(tokenizer, "Madchen") != pieces(tokenizer, "Mädchen")


def test_a_character_never_seen_is_unknown() -> None:
    assert pieces(learn(), "the Ж") == ["the", "[UNK]"]


def test_rare_pieces_are_not_made() -> None:
    often, rare = learn(5000, min_count=2), learn(5000, min_count=7)
    assert rare.vocab_size < often.vocab_size


def test_a_size_too_small_for_the_characters_is_refused() -> None:
    for size in (-3, 0, 5, 31):
        with pytest.raises(DataError, match=rf"characters, .* raise --size above {size}"):
            learn(size)


@pytest.mark.parametrize(
    ("learn_it", "size", "times"),
    [(learn_wordpiece, 107, 2), (learn_byte_bpe, 280, 1), (learn_unigram, 107, 2)],
)
def test_the_text_is_streamed_and_never_held(
    learn_it: Callable[..., Tokenizer], size: int, times: int
) -> None:
    opened: list[int] = []
    held = 0

    class Text(str):
        """A text that knows how many of its kind are alive."""

        def __new__(cls, text: str) -> "Text":
            nonlocal held
            held += 1
            most.append(held)
            return super().__new__(cls, text)

        def __del__(self) -> None:
            nonlocal held
            held -= 1

    most: list[int] = []

    def read() -> Iterator[str]:
        opened.append(len(opened))
        for _ in range(5000):
            yield Text(TEXTS[0])

    learn_it(read, size=size, cased=False)
    assert len(opened) == times
    assert len(most) == 5000 * times
    assert max(most) < 1000


# The other kinds


def learn_kind(kind: str, size: int, *, cased: bool = False) -> Tokenizer:
    make = {"learn_byte_bpe": learn_byte_bpe, "learn_unigram": learn_unigram}[kind]
    return make(lambda: TEXTS * 3, size=size, cased=cased)


def test_the_unigram_trainer_by_itself_would_not_repeat_its_scores() -> None:
    learned = set()
    for _ in range(5):
        engine = Engine(models.Unigram())
        engine.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=331, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
        )
        engine.train_from_iterator(words(60, seed=3), trainer)
        learned.add(engine.to_str())
    assert len(learned) > 1


@pytest.mark.parametrize("seed", range(5))
def test_unigram_is_repeatable_where_many_pieces_are_equally_good(seed: int) -> None:
    draw = random.Random(seed)
    few = ["".join(draw.choices("abcdefgh"[: 3 + seed], k=5)) for _ in range(200)]
    texts = [" ".join(few[at : at + 10]) for at in range(0, len(few), 10)] * 2
    learned = {learn_unigram(lambda: texts, size=90, cased=True).engine.to_str() for _ in range(4)}
    assert len(learned) == 1


def test_byte_pairs_have_the_special_pieces_of_roberta_first_and_all_bytes() -> None:
    tokenizer = learn_kind("learn_byte_bpe", 300)
    first = [tokenizer.piece(index) for index in range(5)]
    assert first == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert tokenizer.names == ROBERTA
    assert set(pre_tokenizers.ByteLevel.alphabet()) <= set(tokenizer.engine.get_vocab())
    pair = tokenizer.engine.encode("a", "b").tokens
    assert pair == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert tokenizer.specials.unknown not in tokenizer.ids_of(["Ж \U0001f98a \x00 \u0e01"])[0]


def test_the_mask_takes_the_space_before_it_along() -> None:
    tokenizer = learn_kind("learn_byte_bpe", 300)
    assert tokenizer.encode("<mask>").ids == tokenizer.encode(" <mask>").ids == [4]


def test_unigram_has_the_special_pieces_of_albert_first() -> None:
    tokenizer = learn_kind("learn_unigram", 101)
    assert tuple(tokenizer.piece(index) for index in range(5)) == ALBERT.names()
    assert tokenizer.specials.as_tuple() == (0, 1, 2, 3, 4)
    assert tokenizer.encode("the").tokens[0].startswith("▁")
    assert tokenizer.specials.unknown in tokenizer.ids_of(["the Ж"])[0]


@pytest.mark.parametrize(
    ("learn_it", "sizes"), [(learn_byte_bpe, (261, 300)), (learn_unigram, (131, 331))]
)
def test_a_size_that_the_text_allows_is_met(
    learn_it: Callable[..., Tokenizer], sizes: tuple[int, int]
) -> None:
    texts = words(60, seed=3)
    for size in sizes:
        tokenizer = learn_it(lambda: texts, size=size, cased=False)
        assert tokenizer.vocab_size == size
        assert sorted(tokenizer.engine.get_vocab().values()) == list(range(size))
    assert learn_it(lambda: texts, size=90_000, cased=False).vocab_size < 90_000


@pytest.mark.parametrize("size", [-3, 0, 5, 31, 260])
def test_a_size_too_small_for_all_bytes_is_refused(size: int) -> None:
    with pytest.raises(DataError, match=rf"alone need 261 pieces; raise --size, which is {size}"):
        learn_kind("learn_byte_bpe", size)


@pytest.mark.parametrize("size", [-3, 0, 5, 9])
def test_a_size_too_small_for_the_characters_of_unigram_is_refused(size: int) -> None:
    with pytest.raises(DataError, match=rf"already need \d+ pieces; raise --size above {size}"):
        learn_kind("learn_unigram", size)


def test_rare_characters_are_left_out_of_a_small_unigram_vocabulary() -> None:
    many = "".join(chr(0x4E00 + n) for n in range(300))
    tokenizer = learn_unigram(
        lambda: [many, "一二三 abc abc"] * 2 + ["一二三"] * 5, size=83, cased=True
    )
    assert tokenizer.vocab_size <= 83
    assert tokenizer.specials.unknown not in tokenizer.ids_of(["abc"])[0]


@pytest.mark.parametrize("kind", ["learn_byte_bpe", "learn_unigram"])
def test_uncased_folds_case_and_accents_in_each_kind(kind: str) -> None:
    folded, kept = learn_kind(kind, 300), learn_kind(kind, 300, cased=True)
    assert (folded.folds("A", "a"), kept.folds("A", "a")) == (True, False)
    assert folded.ids_of(["Mädchen CAFÉ"]) == folded.ids_of(["madchen cafe"])
    assert kept.ids_of(["Mädchen"]) != kept.ids_of(["mädchen"])
    assert kept.ids_of(["Mädchen"]) != kept.ids_of(["Madchen"])
    assert folded.ids_of(["각"]) == folded.ids_of(["\u1100\u1161\u11a8"])


@pytest.mark.parametrize("kind", ["learn_byte_bpe", "learn_unigram"])
@pytest.mark.parametrize("texts", [[], [""], [" \n"]])
def test_no_text_gives_no_learned_pieces(kind: str, texts: list[str]) -> None:
    make = {"learn_byte_bpe": learn_byte_bpe, "learn_unigram": learn_unigram}[kind]
    tokenizer = make(lambda: texts, size=300, cased=True)
    assert tokenizer.vocab_size <= 262


def test_rare_byte_pairs_are_not_merged() -> None:
    often, rare = (
        learn_byte_bpe(lambda: TEXTS * 3, size=5000, cased=True, min_count=least)
        for least in (2, 7)
    )
    assert rare.vocab_size < often.vocab_size


@pytest.mark.parametrize(("learn_it", "size"), [(learn_byte_bpe, 330), (learn_unigram, 90)])
def test_special_pieces_written_in_the_text_are_not_learned(
    learn_it: Callable[..., Tokenizer], size: int
) -> None:
    named = ["a <mask> b <s>c</s> [MASK] d <unk><pad>[CLS]"] * 30
    learned = learn_it(lambda: words(60, seed=3) + named, size=size, cased=True)
    pieces = list(learned.engine.get_vocab())
    assert not [piece for piece in pieces if " " in piece]
    listed = json.loads(learned.engine.to_str())["model"]["vocab"]
    assert len(listed) == len(pieces) == size
