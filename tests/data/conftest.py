"""What the data tests share: special ids, and shards made of lists."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertworks.core.artifact import Origin, saving
from bertworks.core.pieces import SpecialIds
from bertworks.core.seeds import random_at
from bertworks.data.shards import Shards, ShardWriter, TokenizedDocuments

VOCAB_SIZE = 97
SPECIALS = SpecialIds(pad=0, unknown=1, first=2, separator=3, mask=4)
Sentence = list[int]
Text = list[Sentence]  # a document


@pytest.fixture
def specials() -> SpecialIds:
    """Return the special ids in BERT's order."""
    return SPECIALS


@pytest.fixture
def make_shards(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Shards]:
    """Write documents (lists of sentences of pieces) as shards, each in a chunk of its own."""

    def make(
        documents: list[Text],
        *,
        held_out: tuple[int, ...] = (),
        vocab_size: int = VOCAB_SIZE,
        tokens_per_part: int = 1 << 20,
    ) -> Shards:
        path = tmp_path_factory.mktemp("data") / "shards"
        with saving(path, kind="shards", origin=Origin()) as folder:
            writer = ShardWriter(
                folder,
                specials=SPECIALS,
                vocab_size=vocab_size,
                words={"words": "text"},
                tokens_per_part=tokens_per_part,
            )
            for number, document in enumerate(documents):
                writer.add(tokenized([document], held_out=[number in held_out]))
            writer.finish()
        return Shards.open(path)

    return make


@pytest.fixture
def make_documents() -> Callable[..., list[Text]]:
    """Draw documents of sentences of odd lengths; no piece is special."""

    def make(count: int, *, seed: int, most_sentences: int = 23, longest: int = 13) -> list[Text]:
        random = random_at(seed, "documents")
        return [
            [
                random.integers(5, VOCAB_SIZE, size=random.integers(1, longest + 1)).tolist()
                for _ in range(random.integers(1, most_sentences + 1))
            ]
            for _ in range(count)
        ]

    return make


@pytest.fixture
def tokenize() -> Callable[..., TokenizedDocuments]:
    """Turn lists into what a tokenizing process hands over."""
    return tokenized


def tokenized(documents: list[Text], *, held_out: list[bool]) -> TokenizedDocuments:
    """Lay documents end to end; pieces that three divides continue a word."""
    sentences = [sentence for document in documents for sentence in document]
    tokens = np.array([piece for sentence in sentences for piece in sentence], dtype=np.uint32)
    return TokenizedDocuments(
        tokens=tokens,
        begins_word=tokens % 3 != 0,
        sentences=np.array([len(sentence) for sentence in sentences], dtype=np.int64),
        documents=np.array([len(document) for document in documents], dtype=np.int64),
        is_held_out=np.array(held_out, dtype=bool),
    )


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a small file."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
