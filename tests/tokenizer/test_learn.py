"""A vocabulary is learned from streamed text, and twice the same."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import trainers

from bertworks.core.errors import DataError
from bertworks.core.seeds import random_at
from bertworks.tokenizer.learn import learn_wordpiece
from bertworks.tokenizer.tokenizer import SPECIAL_PIECES, Tokenizer, wordpiece_engine

SOURCE = Path(__file__).parents[2] / "src"
TEXTS = [
    "The Café was naïve about running, runners and runs; the cafés were unaffable.",
    "我们今天在北京学习中文，北京是中国的首都。",
    "Das Mädchen läuft über den Hügel und singt ein Lied über das Mädchen.",
    "Numbers 3, 14, 159 and e-mail@example.com are split. \U0001f600 stays.",
]
LEARN = """
import json, sys
from bertworks.tokenizer.learn import learn_wordpiece
texts = json.loads(sys.argv[1])
print(json.dumps(learn_wordpiece(lambda: texts, size=331, cased=False).engine.get_vocab()))
"""


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


def test_processes_that_hash_differently_learn_the_same_vocabulary() -> None:
    texts = json.dumps(words(60, seed=3) + TEXTS)
    learned = []
    for hash_seed in ("0", "1", "17"):
        done = subprocess.run(
            [sys.executable, "-c", LEARN, texts],
            capture_output=True,
            check=True,
            env={"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": hash_seed},
        )
        learned.append(json.loads(done.stdout))
    assert len(learned[0]) == 331
    assert learned[0] == learned[1] == learned[2]


def test_the_trainer_by_itself_would_not_repeat_its_vocabulary() -> None:
    texts = words(60, seed=3)
    learned = set()
    for _ in range(5):
        engine = wordpiece_engine({}, cased=False)
        trainer = trainers.WordPieceTrainer(
            vocab_size=331, special_tokens=list(SPECIAL_PIECES), show_progress=False
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
    assert [tokenizer.piece(index) for index in range(5)] == list(SPECIAL_PIECES)
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
    assert tokenizer.is_uncased
    assert pieces(tokenizer, "Café MÄDCHEN") == pieces(tokenizer, "cafe madchen")
    learned = "".join(set(tokenizer.engine.get_vocab()) - set(SPECIAL_PIECES))
    assert learned == learned.lower()
    assert not set(learned) & set("éïäü")


def test_a_cased_vocabulary_keeps_case_and_accents() -> None:
    tokenizer = learn(5000, cased=True)
    assert not tokenizer.is_uncased
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


def test_the_text_is_streamed_twice_and_never_held() -> None:
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

    learn_wordpiece(read, size=107, cased=False)
    assert len(opened) == 2
    assert len(most) == 10_000
    assert max(most) < 1000
