"""SentencePiece model files: just enough of protocol buffers to read a unigram vocabulary."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertworks.core.errors import ArtifactError

UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4  # types of pieces that are not ordinary
MODEL_TYPES = {1: "unigram", 2: "BPE", 3: "word", 4: "character"}


@dataclass(frozen=True)
class UnigramModel:
    """Pieces with their log-probabilities, and how text is brought into its canonical form."""

    pieces: list[tuple[str, float]]
    unknown_id: int
    added: tuple[tuple[str, bool], ...] = ()  # pieces that a text may name, and: are they special?
    character_map: bytes = b""


def read_sentencepiece(path: Path) -> UnigramModel:
    """Read a `spiece.model`; anything but a unigram model is refused."""
    try:
        return _read(path.read_bytes(), path)
    except (ValueError, LookupError, TypeError, struct.error) as error:
        raise ArtifactError(
            f"{path} is no SentencePiece model, or a part of one ({error}); copy it again"
        ) from error


def _read(data: bytes, path: Path) -> UnigramModel:
    pieces: list[tuple[str, float]] = []
    types: list[int] = []
    model_type, character_map = 1, None
    for number, value in _fields(data):
        if number == 1:
            told = dict(_fields(value))
            pieces.append((str(told[1], "utf-8"), _float(told.get(2, bytes(4)))))
            types.append(told.get(3, 1))
        elif number == 2:
            model_type = dict(_fields(value)).get(3, 1)
        elif number == 3:
            character_map = b"" + dict(_fields(value)).get(2, b"")
    if model_type != 1:
        kind = MODEL_TYPES.get(model_type, "strange")
        raise ArtifactError(
            f"{path} is a {kind} model of SentencePiece, but only unigram ones are read; "
            "give the model's tokenizer.json instead"
        )
    if UNKNOWN not in types:
        raise ValueError(f"it has {len(pieces)} pieces and none for the unknown")
    if character_map is None:
        raise ValueError(f"it ends after {len(pieces)} pieces")  # how text is normalized comes last
    added = tuple(
        (piece, kind == CONTROL)
        for (piece, _), kind in zip(pieces, types, strict=True)
        if kind in (CONTROL, USER_DEFINED)
    )
    return UnigramModel(pieces, types.index(UNKNOWN), added, character_map)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of a message: an int, or the bytes of texts, messages and floats."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            number, at = _varint(data, at)
            yield key >> 3, number
        elif wire in (1, 2, 5):
            size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            if at + size > len(data):
                raise ValueError(f"it ends {at + size - len(data)} bytes too early")
            yield key >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError(f"byte {at} cannot stand there")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, lowest first; return it and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise ValueError(f"the number before byte {at} does not end")


def _float(data: bytes) -> float:
    return float(struct.unpack("<f", data)[0])
