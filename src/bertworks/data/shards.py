"""Token shards: a corpus as memory-mapped piece ids with document, sentence and word-start marks.

A shards folder holds parts of equal capacity; a document lies in one part. Per part:

    tokens-00000.bin      piece ids, end to end (uint16, or uint32 for large vocabularies)
    words-00000.bin       one bit per token: does it begin a word?
    sentences-00000.bin   int64: where each sentence ends, counted in tokens of the part
    documents-00000.bin   int64: where each document ends, counted in sentences of the part
    held-out-00000.bin    uint8 per document: is it kept for evaluation?

`shards.json` names the vocabulary size, the special ids, how words were found, and the counts.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from bertworks.core.artifact import open_artifact
from bertworks.core.errors import ArtifactError
from bertworks.core.pieces import SpecialIds

TOKENS_PER_PART = 32 * 1024 * 1024


@dataclass(frozen=True)
class TokenizedDocuments:
    """Some documents as pieces: what a tokenizing process hands to the writer."""

    tokens: np.ndarray  # all pieces, end to end
    begins_word: np.ndarray  # per piece
    sentences: np.ndarray  # pieces per sentence
    documents: np.ndarray  # sentences per document
    is_held_out: np.ndarray  # per document


class ShardWriter:
    """Writes documents in order into parts; files only grow, so that another can go on."""

    def __init__(
        self,
        folder: Path,
        *,
        specials: SpecialIds,
        vocab_size: int,
        words: dict[str, str],  # how they were found
        tokens_per_part: int = TOKENS_PER_PART,
        parts: Sequence[dict[str, int]] = (),
    ) -> None:
        """Begin with no parts, or go on after those that a writer made before."""
        self.folder = folder
        self.specials = specials
        self.vocab_size = vocab_size
        self.words = words
        self.tokens_per_part = tokens_per_part
        self.dtype = np.uint16 if vocab_size <= 2**16 else np.uint32
        self.parts = [dict(part) for part in parts]

    def add(self, documents: TokenizedDocuments) -> None:
        """Take documents; begin a new part when the last one is full."""
        if not len(documents.tokens):  # a part without tokens could not be mapped
            return
        if not self._is_open:
            self.parts.append(dict.fromkeys(_COUNTS, 0))
        part = self.parts[-1]
        self._append("tokens", documents.tokens.astype(self.dtype))
        self._append_marks(documents.begins_word, after=part["tokens"])
        self._append("sentences", part["tokens"] + np.cumsum(documents.sentences, dtype=np.int64))
        self._append(
            "documents", part["sentences"] + np.cumsum(documents.documents, dtype=np.int64)
        )
        self._append("held-out", documents.is_held_out.astype(np.uint8))
        part["tokens"] += len(documents.tokens)
        part["sentences"] += len(documents.sentences)
        part["documents"] += len(documents.documents)
        part["held_out_documents"] += int(documents.is_held_out.sum())

    def finish(self) -> dict[str, Any]:
        """Close the last part and write the description; return the description."""
        totals = {key: sum(part[key] for part in self.parts) for key in _COUNTS}
        description = {
            "vocab_size": self.vocab_size,
            "specials": self.specials.as_json(),
            **self.words,
            "dtype": np.dtype(self.dtype).name,
            **totals,
            "parts": self.parts,
        }
        (self.folder / "shards.json").write_text(json.dumps(description, indent=1))
        return description

    @property
    def _is_open(self) -> bool:
        return bool(self.parts) and self.parts[-1]["tokens"] < self.tokens_per_part

    def _append(self, name: str, values: np.ndarray) -> None:
        with _file(self.folder, name, len(self.parts) - 1).open("ab") as file:
            file.write(values.tobytes())

    def _append_marks(self, begins_word: np.ndarray, *, after: int) -> None:
        """Write one bit per token; the first ones may share a byte with those before."""
        path = _file(self.folder, "words", len(self.parts) - 1)
        path.touch()
        with path.open("r+b") as file:
            file.seek(after // 8)
            shared = np.unpackbits(np.frombuffer(file.read(1), np.uint8))[: after % 8]
            file.seek(after // 8)
            file.write(np.packbits(np.concatenate([shared, begins_word])).tobytes())


class Shards:
    """A corpus of piece ids; opened by memory map, so its size is no burden."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a shards folder after checking every file of it."""
        open_artifact(folder, "shards")
        return cls(folder)

    def _open(self) -> None:
        try:
            description = json.loads((self.folder / "shards.json").read_text())
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{self.folder} is no shards folder ({error})") from error
        self.vocab_size: int = description["vocab_size"]
        self.specials = SpecialIds(**description["specials"])
        # Before words were found in the text, the pieces told them.
        self.words: str = description.get("words", "pieces")
        self.num_tokens: int = description["tokens"]
        numbers = range(len(description["parts"]))
        dtype = np.dtype(description["dtype"])
        self._tokens = [_map(_file(self.folder, "tokens", n), dtype) for n in numbers]
        self._words = [_map(_file(self.folder, "words", n), np.dtype(np.uint8)) for n in numbers]
        self.part_starts = _starts([len(tokens) for tokens in self._tokens])
        sentences = [_map(_file(self.folder, "sentences", n), np.dtype(np.int64)) for n in numbers]
        documents = [_map(_file(self.folder, "documents", n), np.dtype(np.int64)) for n in numbers]
        held_out = [_map(_file(self.folder, "held-out", n), np.dtype(np.uint8)) for n in numbers]
        self.sentence_starts = _join_ends(sentences, self.part_starts)
        self.document_starts = _join_ends(documents, _starts([len(ends) for ends in sentences]))
        self.is_held_out = np.concatenate(held_out).astype(bool)

    def tokens(self, start: int, end: int) -> np.ndarray:
        """Return the pieces from start to end, which lie in one document."""
        part = int(np.searchsorted(self.part_starts, start, side="right")) - 1
        offset = int(self.part_starts[part])
        return self._tokens[part][start - offset : end - offset]

    def begins_word(self, places: np.ndarray) -> np.ndarray:
        """Tell for the pieces at some places whether each begins a word."""
        part_of = np.searchsorted(self.part_starts, places, side="right") - 1
        begins = np.zeros(len(places), dtype=bool)
        for part in np.unique(part_of):
            within = places[part_of == part] - self.part_starts[part]
            begins[part_of == part] = self._words[part][within // 8] << (within % 8) & 0x80
        return begins

    def __getstate__(self) -> Path:
        """Travel to a worker process as a path, not as a copy of the corpus."""
        return self.folder

    def __setstate__(self, folder: Path) -> None:
        """Open the same files again."""
        self.folder = folder
        self._open()


_COUNTS = ("tokens", "sentences", "documents", "held_out_documents")


def _file(folder: Path, name: str, part: int) -> Path:
    return folder / f"{name}-{part:05d}.bin"


def _map(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    return np.memmap(path, dtype=dtype, mode="r")


def _starts(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _join_ends(ends: list[np.ndarray], offsets: np.ndarray) -> np.ndarray:
    """Turn the ends within each part into starts within the whole, closed by the last end."""
    joined = [part + offset for part, offset in zip(ends, offsets, strict=False)]
    return np.concatenate([np.zeros(1, np.int64), *joined])
