"""Text to pieces and back, over the `tokenizers` library."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Self

import numpy as np
from tokenizers import AddedToken, Encoding, models
from tokenizers import Tokenizer as Engine

from bertworks.core.errors import ArtifactError
from bertworks.core.pieces import SpecialIds
from bertworks.tokenizer.cutter import Cutter, CutTexts
from bertworks.tokenizer.files import (
    is_byte_level,
    read_engine,
    tells_segments,
    write_engine,
)
from bertworks.tokenizer.joining import join_words
from bertworks.tokenizer.special_pieces import SpecialPieces, find_special_pieces
from bertworks.tokenizer.words import CONTINUATION, SPACE, Marks, begins_word, plain_bytes

BROKEN = "\ufffd"  # what an engine writes for bytes that are no character
IdsOf = Callable[[Sequence[str]], list[list[int]]]
BRIEF = 4096  # characters, which are cut before other threads could go on


class Tokenizer:
    """A vocabulary and the rules that cut text into its pieces."""

    def __init__(
        self, engine: Engine, names: SpecialPieces | None = None, *, has_segments: bool = True
    ) -> None:
        engine.no_padding()
        engine.no_truncation()
        if isinstance(engine.model, models.BPE):
            engine.model.dropout = None  # by which a file may cut a text otherwise each time
        self.engine = engine
        self._other_ids_of: IdsOf | None = None  # None: texts are cut as the engine does
        vocabulary = engine.get_vocab()
        self.names = names or find_special_pieces({}, vocabulary)
        ids = {role: vocabulary[name] for role, name in vars(self.names).items()}
        pair = engine.encode("a", "b")
        self.specials = SpecialIds(
            **ids,
            num_between=_num_between(engine, pair, ids),
            second_segment=_second_segment(pair) if has_segments else 0,
        )

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the tokenizer of a folder, whatever its form."""
        engine, names = read_engine(folder)
        try:
            return cls(engine, names, has_segments=tells_segments(folder))
        except ArtifactError as error:
            raise ArtifactError(f"{folder}: {error}") from error

    def with_engine(self, engine: Engine) -> Self:
        """Return another engine with the same special pieces, which joins pairs as this does."""
        return type(self)(engine, self.names, has_segments=self.specials.second_segment > 0)

    def cutting(self, ids_of: IdsOf) -> Self:
        """Return the same pieces with another `ids_of`; `encode` and `cut` do as before."""
        other = copy(self)
        other._other_ids_of = ids_of
        return other

    def save(
        self, folder: Path, *, max_length: int | None = None, has_segments: bool = True
    ) -> None:
        """Write the files by which this and other libraries open the tokenizer.

        `max_length` tells others how many pieces the network reads; we read longer texts too.
        `has_segments` tells them whether it tells the texts of a pair apart.
        """
        told = ["token_type_ids"] if has_segments and self.specials.second_segment else []
        more: dict[str, object] = {"model_input_names": ["input_ids", *told, "attention_mask"]}
        if max_length is not None:
            more["model_max_length"] = max_length
        write_engine(folder, self.engine, self.names, more=more)

    @cached_property
    def vocab_size(self) -> int:
        """The number of pieces, counted to the highest id."""
        return max(self.engine.get_vocab().values()) + 1

    @cached_property
    def named_ids(self) -> np.ndarray:
        """The ids that have a piece, in order: numbering may have holes."""
        return np.unique(list(self.engine.get_vocab().values()))

    def folds(self, letter: str, other: str) -> bool:
        """Tell whether texts are cut as if one letter were the other."""
        normalizer = self.engine.normalizer
        return normalizer is not None and normalizer.normalize_str(letter) == other

    @property
    def mask_piece(self) -> str:
        """The piece that stands in a text for what is to be found."""
        return self.names.mask

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece ids of each text, without special pieces."""
        if self._other_ids_of is not None:
            return self._other_ids_of(texts)
        found = self.engine.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def written_ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece ids of texts that are to be written, without special pieces.

        What looks like one, as </s> in HTML, is text as any other: the end would be learned there.
        """
        marks = self._special - {self.specials.unknown}
        return [
            ids
            if marks.isdisjoint(ids)
            else self._plain_engine.encode(text, add_special_tokens=False).ids
            for text, ids in zip(texts, self.ids_of(texts), strict=True)
        ]

    def cut(self, texts: Sequence[str]) -> CutTexts:
        """Return the pieces of many texts in arrays, without special pieces: the quickest way."""
        return self._cutter.cut(texts)

    def encode(self, text: str) -> Encoding:
        """Return ids and character offsets of one text, without special pieces."""
        if len(text) <= BRIEF:
            return self.engine.encode(text, add_special_tokens=False)
        (found,) = self.engine.encode_batch([text], add_special_tokens=False)
        return found  # of a batch: only then other threads go on meanwhile

    def piece(self, index: int) -> str:
        """Return one piece as it stands in the vocabulary."""
        # The engine would name an added word in its normal form, with spaces inside Chinese ones.
        return self._added.get(index) or self.engine.id_to_token(index) or self.names.unknown

    def shown(self, index: int) -> str:
        """Return one piece as a person reads it: without the marks of spaces."""
        piece = self.piece(index)
        if index in self._added:
            return piece
        try:
            return plain_bytes(piece, self._marks).decode("utf-8").strip() or piece
        except UnicodeDecodeError:  # a part of a character
            return piece

    def text_of(self, ids: Sequence[int]) -> str:
        """Put pieces together again as people write, without special pieces.

        A character of which only some bytes are there is left out.
        """
        known = (index for index in ids if index not in self._special)
        kept = [index for index in known if self.engine.id_to_token(index) is not None]
        if self._marks == "continuation":
            return join_words(self._words(kept))
        if self._marks == "bytes":
            return b"".join(map(self._plain_bytes, kept)).decode("utf-8", errors="ignore")
        return "".join(self._runs(kept)).removeprefix(" ")

    def word_starts(self) -> np.ndarray:
        """Tell for each piece of the vocabulary whether it begins a word, [V] bool."""
        starts = np.ones(self.vocab_size, dtype=bool)
        for piece, index in self.engine.get_vocab().items():
            starts[index] = begins_word(piece, self._marks)
        starts[list(self._added)] = True
        return starts

    def _words(self, ids: Sequence[int]) -> list[str]:
        """Return the words and marks that WordPieces make."""
        words: list[str] = []
        for index in ids:
            piece, is_added = self.piece(index), index in self._added
            continues = piece.startswith(CONTINUATION) and piece != CONTINUATION and not is_added
            if continues and words:
                words[-1] += piece.removeprefix(CONTINUATION)
            else:
                words.append(piece.removeprefix(CONTINUATION) if continues else piece)
        return words

    def _plain_bytes(self, index: int) -> bytes:
        piece = self.piece(index)
        if index not in self._added:
            return plain_bytes(piece, self._marks)
        return f"{' ' * self._tokens[index].lstrip}{piece}".encode()

    def _runs(self, ids: Sequence[int]) -> Iterator[str]:
        """Yield the text of runs of pieces as the engine puts them together, and of added words."""
        for is_added, run in groupby(ids, self._added.__contains__):
            own = list(run)
            pieces = [self.piece(index) for index in own]
            if is_added:
                yield "".join(f" {word}" for word in pieces)
                continue
            text = self.engine.decode(own, skip_special_tokens=True)
            is_broken = BROKEN in text and BROKEN not in "".join(pieces)
            space = " " * (pieces[0].startswith(SPACE) and not text.startswith(" "))
            yield space + (text.replace(BROKEN, "") if is_broken else text)

    @cached_property
    def _plain_engine(self) -> Engine:
        """The same rules, by which the names of special pieces are plain text."""
        engine = Engine.from_str(self.engine.to_str())
        engine.encode_special_tokens = True
        return engine

    @cached_property
    def _special(self) -> set[int]:
        """The pieces that are no part of a text."""
        told = (index for index, token in self._tokens.items() if token.special)
        return {*told, *self.specials.as_tuple()}

    @cached_property
    def _cutter(self) -> Cutter:
        return Cutter(self.engine)

    @cached_property
    def _added(self) -> dict[int, str]:
        """The pieces that are found in a text before it is cut, the special ones among them."""
        special = zip(self.specials.as_tuple(), self.names.names(), strict=True)
        return {index: token.content for index, token in self._tokens.items()} | dict(special)

    @cached_property
    def _tokens(self) -> dict[int, AddedToken]:
        return self.engine.get_added_tokens_decoder()

    @cached_property
    def _marks(self) -> Marks:
        if isinstance(self.engine.model, models.WordPiece):
            return "continuation"
        if is_byte_level(self.engine):
            return "bytes"
        return "space" if SPACE in self.engine.to_str() else "none"


def _num_between(engine: Engine, pair: Encoding, ids: dict[str, int]) -> int:
    """Return how many separators the engine itself puts between the texts of a pair."""
    added = zip(pair.ids, pair.special_tokens_mask, strict=True)
    found = [index for index, is_added in added if is_added]
    num_between = len(found) - 2
    if not found:
        return 1  # it joins no texts, so nothing speaks against BERT's way
    if found != [ids["first"], *[ids["separator"]] * (num_between + 1)] or num_between < 1:
        pieces = " ".join(engine.id_to_token(index) or "?" for index in found)
        raise ArtifactError(
            f"the tokenizer joins a pair with {pieces}, which no network here expects; "
            "use the tokenizer of a BERT-like model"
        )
    return num_between


def _second_segment(pair: Encoding) -> int:
    """Return the number that the engine itself gives to the second text of a pair."""
    told = zip(pair.sequence_ids, pair.type_ids, strict=True)
    found = {number for sequence, number in told if sequence == 1}
    # A small vocabulary may have no piece for it; the separator behind it has its number.
    number = max(found or pair.type_ids[-1:], default=1)
    if number > 1:
        raise ArtifactError(
            f"the tokenizer numbers the second text of a pair {number}, and no network here has "
            "such a segment; use the tokenizer of a BERT-like model"
        )
    return number
