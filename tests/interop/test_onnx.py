"""ONNX files say whose weights they hold, and are opened only beside these."""

from pathlib import Path

import onnx
import pytest

from bertworks.core.errors import ArtifactError, UsageError
from bertworks.interop import onnx as files
from bertworks.interop.onnx import (
    OnnxPlan,
    SessionSettings,
    names_owner,
    open_session,
    owner_of,
    write_onnx,
)
from bertworks.model.embedding import EmbeddingRecipe


@pytest.fixture
def written(tmp_path: Path, small, loud_encoder) -> Path:
    """Write a small network."""
    file = tmp_path / "onnx" / "model.onnx"
    plan = OnnxPlan(recipe=EmbeddingRecipe())
    write_onnx(file, loud_encoder(small("bert")), plan, owner="abc")
    return file


def test_a_file_keeps_to_the_standard_and_names_its_axes(written: Path) -> None:
    onnx.checker.check_model(str(written))
    session = open_session(written, SessionSettings(threads=1), owner="abc")
    names = {"input_ids", "attention_mask", "token_type_ids"}
    assert {item.name for item in session.get_inputs()} == names
    assert all(item.shape == ["batch", "length"] for item in session.get_inputs())
    assert {item.name: item.shape[:1] for item in session.get_outputs()} == {
        "last_hidden_state": ["batch"],
        "sentence_embedding": ["batch"],
    }
    assert session.get_session_options().intra_op_num_threads == 1


def test_the_same_network_is_written_in_the_same_bytes(
    tmp_path: Path, written: Path, small, loud_encoder
) -> None:
    again = tmp_path / "again.onnx"
    plan = OnnxPlan(recipe=EmbeddingRecipe())
    write_onnx(again, loud_encoder(small("bert")), plan, owner="abc")
    assert again.read_bytes() == written.read_bytes()


def test_a_file_for_another_model_is_refused(written: Path) -> None:
    with pytest.raises(ArtifactError, match="an ONNX file for another model"):
        open_session(written, SessionSettings(), owner="abd")
    open_session(written, SessionSettings())


def test_what_is_no_onnx_file_is_refused_in_one_sentence(tmp_path: Path, written: Path) -> None:
    with pytest.raises(ArtifactError, match=r"there is no .*; write it with: bertworks export"):
        open_session(tmp_path / "gone.onnx", SessionSettings())
    torn = tmp_path / "torn.onnx"
    torn.write_bytes(written.read_bytes()[:-999])
    with pytest.raises(ArtifactError, match=r"cannot open .*torn.onnx .*; export it again"):
        open_session(torn, SessionSettings())


def test_the_owner_is_the_hash_of_the_weights(tmp_path: Path) -> None:
    assert owner_of(tmp_path) == ""
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    first = owner_of(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"others")
    assert len(first) == 64
    assert owner_of(tmp_path) != first


def test_weights_that_no_file_can_hold_are_refused(
    tmp_path: Path, small, loud_encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match="an ONNX file holds less than 2"):
        write_onnx(tmp_path / "x.onnx", loud_encoder(small("bert")), OnnxPlan(), owner="")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_ours_names_the_owner_of_its_weights_and_others_do_not(
    written: Path,
) -> None:
    whole = written.read_bytes()
    assert len(whole) > files.LAST_BYTES
    assert names_owner(written)
    for other in (b"", whole[: -files.LAST_BYTES], whole.replace(files.OWNER.encode(), b"other")):
        written.write_bytes(other)
        assert not names_owner(written)
