"""Weight files: whole ones come back exactly, and no other is believed."""

import json
import pickle
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from bertworks.core.errors import ArtifactError
from bertworks.model.weights import Account, load_weights, read_tensors, write_tensors


def make_network(*, width: int = 5) -> nn.Module:
    torch.manual_seed(1)
    return nn.ModuleDict({"encoder": nn.Linear(3, width), "heads": nn.Linear(width, 2)})


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.fixture
def weights() -> dict[str, Tensor]:
    return tensors_of(make_network())


def test_what_is_written_is_read_again_exactly(tmp_path: Path, weights) -> None:
    file = tmp_path / "model.safetensors"
    weights["turned"] = torch.arange(15.0).view(3, 5).T  # its memory is not in its own order
    write_tensors(file, weights)
    again = read_tensors(file)
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[name], weights[name]) for name in weights)


def test_tensors_that_share_memory_are_written_each_on_its_own(tmp_path: Path) -> None:
    whole = torch.arange(21.0).view(7, 3)
    write_tensors(tmp_path / "w", dict(enumerate_parts(whole)))
    again = read_tensors(tmp_path / "w")
    assert all(torch.equal(again[name], part) for name, part in enumerate_parts(whole))


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, weights) -> None:
    with pytest.raises(OSError, match=r"model\.safetensors"):
        write_tensors(tmp_path / "nowhere" / "model.safetensors", weights)


def enumerate_parts(whole: Tensor) -> list[tuple[str, Tensor]]:
    return [(f"part{number}", part) for number, part in enumerate(whole.chunk(3))]


def test_all_tensors_that_fit_are_loaded_and_accounted_for(weights) -> None:
    model = make_network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    account = load_weights(model, weights)
    assert account == Account(tuple(weights), (), ())
    assert str(account) == "4 tensors matched"
    assert all(torch.equal(model.get_parameter(name), weights[name]) for name in weights)


def test_a_missing_tensor_is_named(weights) -> None:
    del weights["encoder.bias"]
    with pytest.raises(ArtifactError, match=r"lack encoder\.bias"):
        load_weights(make_network(), weights)


def test_only_what_may_be_missing_may_be_missing(weights) -> None:
    del weights["heads.weight"], weights["heads.bias"]
    model = make_network()
    before = tensors_of(model)
    account = load_weights(model, weights, may_miss=["heads."])
    assert account.missing == ("heads.weight", "heads.bias")
    assert "2 start fresh (heads.weight, heads.bias)" in str(account)
    assert torch.equal(model.get_parameter("heads.weight"), before["heads.weight"])
    with pytest.raises(ArtifactError, match=r"heads\.weight"):
        load_weights(make_network(), weights, may_miss=["encoder."])


def test_unexpected_tensors_are_named_and_left_out(weights) -> None:
    extra = {f"other.{number}": torch.zeros(1) for number in range(5)}
    account = load_weights(make_network(), weights | extra)
    assert account.unexpected == tuple(extra)
    assert "5 are left out (other.0, other.1, other.2, …)" in str(account)


@pytest.mark.parametrize("shape", [(3, 5), (15,), (1, 3), (5, 3, 1)])
def test_a_tensor_of_another_shape_is_named_with_both_shapes(weights, shape) -> None:
    weights["encoder.weight"] = torch.zeros(shape)
    with pytest.raises(ArtifactError, match=r"encoder\.weight has shape .* needs \[5, 3\]"):
        load_weights(make_network(), weights)


def test_half_precision_is_widened_without_loss(weights) -> None:
    halves = {name: tensor.half() for name, tensor in weights.items()}
    model = make_network()
    load_weights(model, halves)
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, halves[name].float())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no .*model\.safetensors.*safetensors only"):
        read_tensors(tmp_path / "model.safetensors")


def test_a_file_cut_anywhere_is_refused(tmp_path: Path, weights) -> None:
    file = tmp_path / "model.safetensors"
    write_tensors(file, weights)
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
            read_tensors(file)
    file.write_bytes(whole)
    assert read_tensors(file).keys() == weights.keys()


@given(st.binary(max_size=200))
def test_garbage_is_refused(tmp_path: Path, garbage: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(garbage)
    with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
        read_tensors(file)


def safetensors_bytes(header: object, data: bytes = b"", *, claimed: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if claimed is None else claimed) + text + data


@pytest.mark.parametrize(
    "content",
    [
        safetensors_bytes({"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}, b"0" * 8),
        safetensors_bytes({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}),
        safetensors_bytes({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, b"0" * 8),
        safetensors_bytes(
            {"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 8]}}, b"0" * 8
        ),
        safetensors_bytes(
            {
                "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
            },
            b"0" * 12,
        ),
        safetensors_bytes({"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}, b"0" * 8),
        safetensors_bytes({}, claimed=2**63),
        safetensors_bytes([1, 2, 3]),
    ],
    ids=["short", "negative", "minus", "overflow", "overlap", "type", "header", "list"],
)
def test_a_lying_header_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
        read_tensors(file)


class Bomb:
    """Opens a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.canary,)


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    canary, file = tmp_path / "canary", tmp_path / "model.safetensors"
    file.write_bytes(pickle.dumps(Bomb(canary)))
    with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
        read_tensors(file)
    assert not canary.exists()
    pickle.loads(file.read_bytes())  # what the refusal saved us from
    assert canary.exists()


def test_a_zipped_checkpoint_of_torch_is_refused(tmp_path: Path, weights) -> None:
    file = tmp_path / "model.safetensors"
    torch.save(weights, file)
    with pytest.raises(ArtifactError, match="cannot be read as safetensors"):
        read_tensors(file)
