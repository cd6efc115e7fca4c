"""Which languages a vocabulary has words of."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from bertworks.service.languages import SAMPLES, languages_of
from bertworks.tokenizer.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *(f"##{one}" for one in "abcdefghijklmnopqrstuvwxyz")]
ENGLISH = sorted(set(SAMPLES["en"].split()))
CHINESE = sorted(set(SAMPLES["zh"]))


@pytest.fixture
def with_pieces(tmp_path: Path) -> Callable[[Iterable[str]], Tokenizer]:
    def make(pieces: Iterable[str]) -> Tokenizer:
        whole = "\n".join([*SPECIAL, *pieces])
        (tmp_path / "vocab.txt").write_text(whole, encoding="utf-8")
        return Tokenizer.open(tmp_path)

    return make


@pytest.mark.parametrize(
    ("pieces", "languages"),
    [
        (ENGLISH, ["en"]),
        (ENGLISH + CHINESE, ["en", "zh"]),
        (LETTERS + CHINESE, ["zh"]),
        (LETTERS + CHINESE[::2], []),
        (ENGLISH[:-1] + LETTERS, ["en"]),
        (ENGLISH + CHINESE[2:], ["en", "zh"]),
    ],
    ids=["English", "both", "letters", "half", "all but a word", "all but two characters"],
)
def test_a_language_counts_where_its_words_are_whole(
    with_pieces: Callable[[Iterable[str]], Tokenizer], pieces: list[str], languages: list[str]
) -> None:
    assert languages_of(with_pieces(pieces)) == languages


def test_the_service_tells_the_languages_of_its_models(client) -> None:
    for model in client.get("/info").json()["models"]:
        assert set(model["languages"]) <= set(SAMPLES)
