"""SentencePiece files are read to the last digit, or refused with a sentence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import ArtifactError
from bertworks.tokenizer.sentencepiece import read_sentencepiece

PIECES = [
    ("<pad>", 0.0, 3),
    ("<unk>", 0.0, 2),
    ("▁the", -3.1, 1),
    ("北京", -1e-30, 1),
    ("\U0001f600", 2.5e7, 4),
    ("x" * 300, -11.0, 5),
]
Write = Callable[..., bytes]


def test_pieces_scores_and_types_are_read(tmp_path: Path, sentencepiece_model: Write) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(sentencepiece_model(PIECES, characters=b"\x00\x01map"))
    model = read_sentencepiece(path)
    assert model.pieces == [(text, float(np.float32(score))) for text, score, _ in PIECES]
    assert model.unknown_id == 1
    assert model.added == (("<pad>", True), ("\U0001f600", False))
    assert model.character_map == b"\x00\x01map"


def test_fields_of_other_numbers_and_forms_are_passed_over(
    tmp_path: Path, sentencepiece_model: Write
) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(sentencepiece_model(PIECES))
    plain = read_sentencepiece(path)
    # Numbers 4 to 7: a text, a number, eight bytes, four bytes.
    path.write_bytes(
        path.read_bytes() + b"\x22\x02hi\x28\xac\x02\x31" + bytes(8) + b"\x3d" + bytes(4)
    )
    assert read_sentencepiece(path) == plain


@pytest.mark.parametrize(("model_type", "name"), [(2, "BPE"), (3, "word"), (4, "character")])
def test_other_kinds_of_models_are_refused(
    model_type: int, name: str, tmp_path: Path, sentencepiece_model: Write
) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(sentencepiece_model(PIECES, model_type=model_type))
    with pytest.raises(ArtifactError) as error:
        read_sentencepiece(path)
    assert str(error.value).startswith(f"{path} is a {name} model of SentencePiece, but only")
    assert "tokenizer.json" in str(error.value)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path, sentencepiece_model: Write) -> None:
    path = tmp_path / "spiece.model"
    data = sentencepiece_model(PIECES)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ArtifactError, match="is no SentencePiece model, or a part of one"):
            read_sentencepiece(path)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_model_are_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"spiece\.model is (no|a \w+ model of) SentencePiece"):
        read_sentencepiece(path)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00",  # a number for a text
        b"\x0a\x02\x18\x02",  # a piece without a text
        b"\x08\x05",  # a number for a piece
        b"\x0a\x05\x0a\x01a\x12\x00",  # no bytes for a score
        b"\x0a\x03\x0a\x01\xff",  # no UTF-8
        b"\x1a\x0a\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a number for the characters
        b"\xff" * 12,
    ],
)
def test_values_of_the_wrong_form_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match="is no SentencePiece model, or a part of one"):
        read_sentencepiece(path)


def test_a_model_without_an_unknown_piece_is_refused(
    tmp_path: Path, sentencepiece_model: Write
) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(sentencepiece_model([piece for piece in PIECES if piece[2] != 2]))
    with pytest.raises(ArtifactError, match="5 pieces and none for the unknown"):
        read_sentencepiece(path)
