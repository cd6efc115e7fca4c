"""Weight files: whole ones come back exactly, and no other is believed."""

import json
import os
import pickle
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from torch import Tensor, nn

from bertworks.core.errors import ArtifactError
from bertworks.model.weights import (
    INT8_WEIGHTS,
    LONGEST_HEADER,
    WEIGHTS,
    Account,
    TensorFiles,
    find_pickles,
    find_weights,
    load_weights,
    read_pickles,
    read_tensors,
    round_weights,
    write_tensors,
)


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


def test_a_header_of_myriads_of_tensors_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    tensors = {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(9)}
    file.write_bytes(safetensors_bytes(tensors))
    assert len(read_tensors(file)) == 9
    long = json.dumps(tensors).encode().ljust(LONGEST_HEADER + 1)
    file.write_bytes(struct.pack("<Q", len(long)) + long + b"0")
    with pytest.raises(ArtifactError, match=r"has 4194305 bytes, and no weights need more than"):
        read_tensors(file)
    file.write_bytes(struct.pack("<Q", len(long) - 1) + long[:-1])
    assert len(read_tensors(file)) == 9


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


@pytest.mark.parametrize("is_zipped", [True, False])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_checkpoint_of_torch_is_refused_with_the_way_to_import_it(
    tmp_path: Path, weights, is_zipped: bool, protocol: int
) -> None:
    file = tmp_path / "model.safetensors"
    torch.save(weights, file, _use_new_zipfile_serialization=is_zipped, pickle_protocol=protocol)
    for read in (read_tensors, lambda file: TensorFiles([file])):
        with pytest.raises(ArtifactError, match="it is a pickle: bertworks import reads those"):
            read(file)


def test_a_torn_file_is_not_taken_for_a_pickle(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    for size in (0x80, 0x280, 0x480):  # lengths that look like the beginning of a pickle
        file.write_bytes(struct.pack("<Q", size) + header.ljust(size) + b"0000")
        with pytest.raises(ArtifactError, match=r"safetensors: .*; fetch it again"):
            read_tensors(file)
        file.write_bytes(struct.pack("<Q", size) + header.ljust(size) + b"00000000")
        assert read_tensors(file)["a"].shape == (2,)


def write_parts(folder: Path, weights: dict[str, Tensor], **changes: object) -> Path:
    """Write weights as two files and an index of them."""
    names = list(weights)
    parts = {"part-1.safetensors": names[::2], "part-2.safetensors": names[1::2]}
    for file, own in parts.items():
        write_tensors(folder / file, {name: weights[name] for name in own})
    places: dict[str, object] = {name: file for file, own in parts.items() for name in own}
    index = {"metadata": {"total_size": 1}, "weight_map": places | changes}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_weights_in_parts_are_one_mapping(tmp_path: Path, weights) -> None:
    files = find_weights(write_parts(tmp_path, weights))
    assert [file.name for file in files] == ["part-1.safetensors", "part-2.safetensors"]
    found = TensorFiles(files)
    assert set(found) == set(weights)
    assert len(found) == 4
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    model = make_network()
    assert load_weights(model, found).is_complete
    with pytest.raises(KeyError):
        found["nowhere"]


def test_one_whole_file_is_preferred_to_parts(tmp_path: Path, weights) -> None:
    write_parts(tmp_path, weights)
    write_tensors(tmp_path / "model.safetensors", weights)
    assert find_weights(tmp_path) == [tmp_path / "model.safetensors"]


def test_a_part_that_is_not_there_is_named(tmp_path: Path, weights) -> None:
    write_parts(tmp_path, weights)
    (tmp_path / "part-2.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"there is no .*part-2\.safetensors"):
        TensorFiles(find_weights(tmp_path))


def test_a_torn_part_is_named(tmp_path: Path, weights) -> None:
    write_parts(tmp_path, weights)
    file = tmp_path / "part-2.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=r"part-2\.safetensors cannot be read"):
        TensorFiles(find_weights(tmp_path))


@pytest.mark.parametrize(
    "name", ["../stranger.safetensors", "/etc/passwd", "sub/part.safetensors", 3, None]
)
def test_an_index_never_leads_out_of_its_folder(tmp_path: Path, weights, name: object) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write_tensors(tmp_path / "stranger.safetensors", weights)
    write_parts(folder, weights, **{"heads.weight": name})
    with pytest.raises(ArtifactError, match=r"index\.json names .* no file of this folder"):
        find_weights(folder)


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_an_index_that_names_a_folder_is_refused(tmp_path: Path, weights, name: str) -> None:
    write_parts(tmp_path, weights, **{"heads.weight": name})
    with pytest.raises(ArtifactError, match=r"there is no |no file of this folder"):
        TensorFiles(find_weights(tmp_path))


@pytest.mark.parametrize(
    "content",
    ["{", "", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {}}', '{"weight_map": {"a": []}}'],
)
def test_an_index_without_parts_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ArtifactError, match=r"index\.json names no parts"):
        find_weights(tmp_path)


def test_a_file_put_in_its_place_changes_nothing_that_was_opened(tmp_path: Path, weights) -> None:
    file, other = tmp_path / "model.safetensors", tmp_path / "other.safetensors"
    write_tensors(file, weights)
    write_tensors(other, {name: tensor + 1 for name, tensor in weights.items()})
    found = TensorFiles([file])
    other.replace(file)
    assert torch.equal(found["heads.bias"], weights["heads.bias"])
    assert torch.equal(TensorFiles([file])["heads.bias"], weights["heads.bias"] + 1)


def test_a_network_changes_nothing_in_the_file_that_it_was_loaded_from(
    tmp_path: Path, weights
) -> None:
    file = tmp_path / "model.safetensors"
    write_tensors(file, weights)
    content = file.read_bytes()
    with torch.device("meta"):
        model = make_network()
    load_weights(model, TensorFiles([file]))
    with torch.no_grad():
        model.get_parameter("heads.weight").add_(1.0)
    assert torch.equal(model.get_parameter("heads.weight"), weights["heads.weight"] + 1)
    assert file.read_bytes() == content


def test_what_should_be_fresh_is_not_loaded_though_it_is_there(weights) -> None:
    model = make_network()
    with torch.no_grad():
        model.get_parameter("heads.weight").fill_(7.0)
    weights["heads.weight"] = torch.zeros(9, 9)  # of another shape, even
    account = load_weights(model, weights, may_miss=["heads."], fresh=["heads."])
    assert account.missing == ("heads.weight", "heads.bias")
    assert account.matched == ("encoder.weight", "encoder.bias")
    assert bool((model.get_parameter("heads.weight") == 7.0).all())


def test_a_parameter_may_begin_as_a_tensor_of_another_name(weights) -> None:
    model = nn.ModuleDict({"encoder": nn.Linear(3, 5), "heads": nn.Linear(3, 5)})
    given = {name: weights[name] for name in ("encoder.weight", "encoder.bias")}
    lent = {"heads.weight": "encoder.weight"}
    account = load_weights(model, given, may_miss=["heads."], fresh=["heads."], lent=lent)
    assert account.missing == ("heads.bias",)
    assert account.matched == ("encoder.weight", "encoder.bias", "heads.weight")
    assert not account.unexpected
    assert model.get_parameter("heads.weight").equal(weights["encoder.weight"])
    with torch.no_grad():
        model.get_parameter("heads.weight").fill_(7.0)  # it goes its own way
    assert model.get_parameter("encoder.weight").equal(weights["encoder.weight"])


def test_what_is_lent_is_copied_into_a_network_without_memory_too(weights) -> None:
    with torch.device("meta"):
        model = nn.ModuleDict({"encoder": nn.Linear(3, 5), "heads": nn.Linear(3, 5)})
    given = {name: weights[name] for name in ("encoder.weight", "encoder.bias")}
    given["heads.weight"] = torch.zeros(9, 9)  # a head of the same name that is not wanted
    lent = {f"heads.{part}": f"encoder.{part}" for part in ("weight", "bias")}
    assert not load_weights(model, given, fresh=["heads."], lent=lent).missing
    for part in ("weight", "bias"):
        own, other = (model.get_parameter(f"{side}.{part}") for side in ("encoder", "heads"))
        assert other.equal(own)
        assert other.data_ptr() != own.data_ptr()


def test_what_was_lent_is_not_said_to_be_left_out(weights) -> None:
    weights["other.weight"] = torch.ones(2, 5)
    assert load_weights(make_network(), weights).unexpected == ("other.weight",)
    model = make_network()
    account = load_weights(model, weights, lent={"heads.weight": "other.weight"})
    assert not account.unexpected
    assert model.get_parameter("heads.weight").equal(torch.ones(2, 5))


def test_a_lent_tensor_of_another_shape_is_named(weights) -> None:
    lent = {"heads.weight": "encoder.weight"}
    with pytest.raises(ArtifactError, match=r"heads\.weight has shape \[5, 3\]"):
        load_weights(make_network(), weights, lent=lent)


def test_parts_of_a_larger_encoder_are_refused_by_name(weights) -> None:
    weights["encoder.blocks.7.weight"] = torch.zeros(1)
    model = make_network()
    before = tensors_of(model)
    with pytest.raises(ArtifactError, match=r"no place for encoder\.blocks\.7\.weight"):
        load_weights(model, {name: tensor + 1 for name, tensor in weights.items()})
    assert all(torch.equal(model.get_parameter(name), before[name]) for name in before)


def test_an_account_can_leave_out_what_nothing_reads() -> None:
    account = Account(("a",), ("encoder.pooler.weight", "heads.weight"), ("other",))
    assert account.without("encoder.pooler.") == Account(("a",), ("heads.weight",), ("other",))
    assert account.without("pooler.") == account


# Pickles, which only an import reads


@pytest.mark.parametrize("is_zipped", [True, False])
def test_pickled_tensors_are_read_as_they_are(tmp_path: Path, weights, is_zipped: bool) -> None:
    file = tmp_path / "pytorch_model.bin"
    torch.save(weights, file, _use_new_zipfile_serialization=is_zipped)
    again = read_pickles(tmp_path)
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[name], weights[name]) for name in weights)


def test_pickles_in_parts_are_one_table(tmp_path: Path, weights) -> None:
    for number, name in enumerate(weights, start=1):
        part = tmp_path / f"pytorch_model-{number:05}-of-{len(weights):05}.bin"
        torch.save({name: weights[name]}, part)
    assert read_pickles(tmp_path).keys() == weights.keys()


@pytest.mark.parametrize(
    "data", [[torch.ones(3)], torch.ones(3), {"a": 3}, {3: torch.ones(3)}, {"a": {"b": None}}, None]
)
def test_a_pickle_of_something_else_is_no_table_of_tensors(tmp_path: Path, data: object) -> None:
    torch.save(data, tmp_path / "pytorch_model.bin")
    with pytest.raises(ArtifactError, match=r"pytorch_model\.bin is no table of tensors"):
        read_pickles(tmp_path)


def test_a_pickle_with_code_in_it_is_refused_and_the_code_not_run(tmp_path: Path) -> None:
    canary, file = tmp_path / "canary", tmp_path / "pytorch_model.bin"
    for is_zipped in (True, False):
        torch.save({"a": Bomb(canary)}, file, _use_new_zipfile_serialization=is_zipped)
        with pytest.raises(ArtifactError, match=r"was refused \(.*: it is damaged, or holds more"):
            read_pickles(tmp_path)
        assert not canary.exists()
    torch.load(file, weights_only=False)  # noqa: TID251 (what the refusal saved us from)
    assert canary.exists()


def test_a_pickle_cut_anywhere_is_refused(tmp_path: Path, weights) -> None:
    file = tmp_path / "pytorch_model.bin"
    torch.save(weights, file)
    whole = file.read_bytes()
    for size in range(0, len(whole), 97):
        file.write_bytes(whole[:size])
        with pytest.raises(ArtifactError, match=r"pytorch_model\.bin was refused") as refused:
            read_pickles(tmp_path)
        assert "\n" not in str(refused.value)


def test_without_a_pickle_there_is_nothing_to_import(tmp_path: Path, weights) -> None:
    write_tensors(tmp_path / "model.safetensors", weights)
    with pytest.raises(ArtifactError, match=r"has no pytorch_model\.bin; there is nothing to"):
        read_pickles(tmp_path)


@pytest.mark.parametrize(
    "other",
    ["pytorch_model_old.bin", "pytorch_model-best.bin", "pytorch_model.fp16.bin", "optimizer.bin"],
)
def test_other_pickles_of_a_folder_are_left_alone(tmp_path: Path, weights, other: str) -> None:
    torch.save({"encoder.bias": torch.zeros(1)}, tmp_path / other)
    with pytest.raises(ArtifactError, match=r"has no pytorch_model\.bin"):
        find_pickles(tmp_path)
    torch.save(weights, tmp_path / "pytorch_model.bin")
    assert find_pickles(tmp_path) == [tmp_path / "pytorch_model.bin"]
    assert torch.equal(read_pickles(tmp_path)["encoder.bias"], weights["encoder.bias"])


def test_a_whole_pickle_is_taken_before_its_parts(tmp_path: Path) -> None:
    parts = [tmp_path / f"pytorch_model-0000{number}-of-00002.bin" for number in (1, 2)]
    for file in parts:
        file.touch()
    assert find_pickles(tmp_path) == parts
    (tmp_path / "pytorch_model.bin").touch()
    assert find_pickles(tmp_path) == [tmp_path / "pytorch_model.bin"]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(3, 3).to_sparse(),
        torch.empty(3, device="meta"),
        torch.ones(1).expand(2**40),
    ],
    ids=["sparse", "without values", "one value for many"],
)
def test_a_pickled_tensor_that_is_not_plain_is_refused(tmp_path: Path, tensor) -> None:
    torch.save({"a": tensor}, tmp_path / "pytorch_model.bin")  # as others do
    with pytest.raises(ArtifactError, match=r"no table of tensors|was refused"):
        read_pickles(tmp_path)


def test_other_pickles_beside_the_weights_are_left_alone(tmp_path: Path, weights) -> None:
    torch.save(weights, tmp_path / "pytorch_model.bin")
    zeros = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    torch.save(zeros, tmp_path / "pytorch_model_old.bin")
    torch.save(zeros, tmp_path / "pytorch_model.fp16.bin")
    assert torch.equal(read_pickles(tmp_path)["heads.weight"], weights["heads.weight"])


def test_a_folder_whose_name_is_not_unicode_is_one_sentence(tmp_path: Path, weights) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    write_tensors(tmp_path / "model.safetensors", weights)
    file = (tmp_path / "model.safetensors").rename(folder / "model.safetensors")
    with pytest.raises(ArtifactError, match="is not Unicode; rename the folder"):
        read_tensors(file)


# Weights in int8 rows


def rounded_folder(folder: Path, tensors: dict[str, Tensor]) -> Path:
    """Write weights into a folder and turn them into int8 rows."""
    folder.mkdir(exist_ok=True)
    write_tensors(folder / WEIGHTS, tensors)
    round_weights(folder)
    return folder


def test_rounded_weights_take_a_quarter_and_are_read_as_float(tmp_path: Path) -> None:
    random = torch.Generator().manual_seed(5)
    whole = {"matrix": torch.randn(64, 300, generator=random), "norm": torch.randn(7)}
    write_tensors(tmp_path / WEIGHTS, whole)
    size = (tmp_path / WEIGHTS).stat().st_size
    assert 0.003 < round_weights(tmp_path) < 1 / 253
    (file,) = find_weights(tmp_path)
    assert file.name == INT8_WEIGHTS
    assert [path.name for path in tmp_path.iterdir()] == [INT8_WEIGHTS]
    assert file.stat().st_size < 0.27 * size
    tensors = TensorFiles([file])
    assert sorted(tensors) == ["matrix", "norm"]
    assert "matrix.scales" not in tensors
    assert len(tensors) == 2
    assert tensors["matrix"].dtype == torch.float32
    assert torch.equal(tensors["norm"], whole["norm"])
    cosine = torch.cosine_similarity(tensors["matrix"], whole["matrix"])
    assert 0.9999 < cosine.min() < 1


def test_a_network_is_filled_from_rounded_weights(tmp_path: Path, weights) -> None:
    tensors = TensorFiles(find_weights(rounded_folder(tmp_path, weights)))
    model = make_network()
    assert load_weights(model, tensors) == Account(tuple(weights), (), ())
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        assert (parameter - weights[name]).abs().max() <= weights[name].abs().max() / 250


def test_rows_and_scales_may_lie_in_different_parts(tmp_path: Path) -> None:
    whole = {"one": torch.randn(3, 5, generator=torch.Generator().manual_seed(1))}
    rounded_folder(tmp_path / "whole", whole)
    with safe_open(tmp_path / "whole" / INT8_WEIGHTS, framework="pt") as file:
        parts = {name: file.get_tensor(name) for name in ("one", "one.scales")}
    for number, (name, tensor) in enumerate(parts.items(), start=1):
        write_tensors(tmp_path / f"part{number}", {name: tensor})
    table = {"weight_map": {"one": "part1", "one.scales": "part2"}}
    (tmp_path / f"{WEIGHTS}.index.json").write_text(json.dumps(table))
    tensors = TensorFiles(find_weights(tmp_path))
    assert list(tensors) == ["one"]
    assert (tensors["one"] - whole["one"]).abs().max() < 0.02


def test_plain_weights_beside_rounded_ones_are_preferred(tmp_path: Path, weights) -> None:
    rounded_folder(tmp_path, weights)
    write_tensors(tmp_path / WEIGHTS, weights)
    assert find_weights(tmp_path) == [tmp_path / WEIGHTS]


def test_whole_numbers_without_scales_are_not_taken_for_weights(tmp_path: Path, weights) -> None:
    weights["encoder.weight"] = torch.ones(5, 3, dtype=torch.int8)
    write_tensors(tmp_path / "w", weights)
    with pytest.raises(ArtifactError, match=r"encoder\.weight holds .*torch\.int8 and no scales"):
        load_weights(make_network(), TensorFiles([tmp_path / "w"]))


def test_scales_beside_float_are_a_tensor_like_any_other(tmp_path: Path) -> None:
    write_tensors(tmp_path / "w", {"a": torch.ones(2, 3), "a.scales": torch.ones(2)})
    assert sorted(TensorFiles([tmp_path / "w"])) == ["a", "a.scales"]


def test_damaged_scales_are_noticed_when_the_matrix_is_read(tmp_path: Path) -> None:
    rows = {"a": torch.ones(2, 3, dtype=torch.int8), "a.scales": torch.ones(3)}
    write_tensors(tmp_path / "w", rows)
    with pytest.raises(ArtifactError, match=r"a\.scales has shape \[3\]"):
        read_tensors(tmp_path / "w")


def test_weights_that_cannot_be_rounded_stay_as_they_are(tmp_path: Path, weights) -> None:
    weights["encoder.weight"][2, 1] = float("nan")
    write_tensors(tmp_path / WEIGHTS, weights)
    with pytest.raises(ArtifactError, match=r"encoder\.weight holds numbers that are not finite"):
        round_weights(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [WEIGHTS]


def test_weights_may_be_read_by_those_who_may_read_the_files_beside_them(tmp_path: Path) -> None:
    beside = tmp_path / "config.json"
    beside.write_text("{}")
    write_tensors(tmp_path / "a.safetensors", {"w": torch.ones(3)})
    assert (tmp_path / "a.safetensors").stat().st_mode == beside.stat().st_mode
