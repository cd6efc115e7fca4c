"""Weight files: safetensors in and out, with an account of what fitted where."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from bertworks.core.errors import ArtifactError
from bertworks.core.lines import is_unicode
from bertworks.model.rounded_rows import SCALES, has_rows, round_rows, widen_rows

WEIGHTS = "model.safetensors"
# Names that no other library takes for plain weights.
INT8_WEIGHTS = "model.int8.safetensors"
DIFFERENCE = "model.difference.safetensors"  # how far they are from those of a base
LONGEST_HEADER = 4 << 20  # bytes of a weight file; tens of thousands of tensors need no more


@dataclass(frozen=True)
class Account:
    """What happened to each tensor when weights were loaded."""

    matched: tuple[str, ...]
    missing: tuple[str, ...]  # parameters that no tensor was there for
    unexpected: tuple[str, ...]  # tensors that no parameter wanted

    @property
    def is_complete(self) -> bool:
        """Whether every parameter found its tensor and every tensor its parameter."""
        return not self.missing and not self.unexpected

    def without(self, prefix: str) -> Self:
        """Return the account without what is missing under a prefix, as nothing reads it."""
        return replace(self, missing=tuple(n for n in self.missing if not n.startswith(prefix)))

    def __str__(self) -> str:
        parts = [f"{len(self.matched)} tensors matched"]
        if self.missing:
            parts.append(f"{len(self.missing)} start fresh ({_some(self.missing)})")
        if self.unexpected:
            parts.append(f"{len(self.unexpected)} are left out ({_some(self.unexpected)})")
        return ", ".join(parts)


def load_weights(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    may_miss: Iterable[str] = (),
    fresh: Iterable[str] = (),
    lent: Mapping[str, str] | None = None,
) -> Account:
    """Copy tensors into a model; fail unless all that is missing lies under `may_miss`.

    What is missing keeps the weights it has, or zeros where it has none, and is named in the
    account. So is what lies under `fresh`, though the tensors be there: a task head of the same
    name for other labels. `lent` names parameters that begin as tensors of another name.
    """
    parameters = dict(model.named_parameters())
    unwanted, lent = tuple(fresh), lent or {}
    given = {name for name in tensors if not (unwanted and name.startswith(unwanted))} | {*lent}
    missing = tuple(name for name in parameters if name not in given)
    allowed = tuple(may_miss)
    lost = [name for name in missing if not name.startswith(allowed)] if allowed else list(missing)
    if lost:
        raise ArtifactError(
            f"the weights lack {_some(lost)}; they belong to another network, or the file is not "
            "whole: compare it with config.json, or fetch the folder again"
        )
    matched = tuple(name for name in parameters if name in given)
    wanted = {*parameters, *lent.values()}
    unexpected = tuple(name for name in tensors if name not in wanted)
    surplus = [name for name in unexpected if name.startswith("encoder.")]
    if surplus:
        raise ArtifactError(f"the network has no place for {_some(surplus)}; it is a smaller one")
    for name, parameter in parameters.items():
        if name in lent:
            _give(model, name, tensors[lent[name]].clone())  # it goes its own way from here
        elif name in given:
            _give(model, name, tensors[name])
        elif parameter.is_meta:
            _give(model, name, torch.zeros(parameter.shape))
    return Account(matched, missing, unexpected)


class TensorFiles(Mapping[str, Tensor]):
    """The tensors of safetensors files, mapped into memory and read as they are used.

    What a file holds as int8 rows with scales is a matrix in single precision here.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._found: dict[str, Any] = {}
        for file in files:
            tensors = _open(file)
            self._found |= dict.fromkeys(tensors.keys(), tensors)
        rounded = [name for name in self._found if self._has_scales(name)]
        self._scales = {name: self._found.pop(name + SCALES) for name in rounded}

    def __getitem__(self, name: str) -> Tensor:
        tensor = self._found[name].get_tensor(name)
        if name not in self._scales:
            return tensor
        return widen_rows(tensor, self._scales[name].get_tensor(name + SCALES), name)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def num_weights(self) -> int:
        """How many numbers all tensors have, without reading them."""
        shapes = [file.get_slice(name).get_shape() for name, file in self._found.items()]
        return sum(map(math.prod, shapes))

    def _has_scales(self, name: str) -> bool:
        return (
            name + SCALES in self._found and self._found[name].get_slice(name).get_dtype() == "I8"
        )


def find_weights(folder: Path) -> list[Path]:
    """Return the safetensors files of a model folder: one, or the parts that an index names."""
    for name in (WEIGHTS, INT8_WEIGHTS, DIFFERENCE):
        if (folder / name).is_file():
            return [folder / name]
    index = folder / f"{WEIGHTS}.index.json"
    return _parts_of(index) if index.is_file() else [folder / WEIGHTS]


def _parts_of(index: Path) -> list[Path]:
    """Return the parts of weights that an index names."""
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{index} names no parts ({error}); fetch the folder again") from error
    if not names:
        raise ArtifactError(f"{index} names no parts; fetch the folder again")
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise ArtifactError(f"{index} names {name!r}, which is no file of this folder")
    return [index.parent / name for name in sorted(names)]


def find_pickles(folder: Path) -> list[Path]:
    """Return the pickled weights of a model folder: one file, or its numbered parts."""
    whole = folder / "pytorch_model.bin"
    parts = sorted(folder.glob("pytorch_model-[0-9]*-of-[0-9]*.bin"))
    if not whole.is_file() and not parts:
        raise ArtifactError(f"{folder} has no pytorch_model.bin; there is nothing to import")
    return [whole] if whole.is_file() else parts


def read_pickles(folder: Path) -> dict[str, Tensor]:
    """Read the pickled weights of a model folder: tensors and nothing else."""
    tensors: dict[str, Tensor] = {}
    for file in find_pickles(folder):
        try:
            found = torch.load(file, map_location="cpu", weights_only=True)  # noqa: TID251
        except Exception as error:  # a broken pickle raises anything
            raise ArtifactError(
                f"{file} was refused ({type(error).__name__}): it is damaged, or holds more than "
                "tensors, which could run code; ask its maker for safetensors"
            ) from error
        if not _is_table(found):
            raise ArtifactError(f"{file} is no table of tensors; it is not a model's weights")
        tensors |= found
    return tensors


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file into memory."""
    return {name: tensor.clone() for name, tensor in TensorFiles([path]).items()}


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file, which may be read by those who may read the files beside it."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    path.touch()
    mode = path.stat().st_mode  # by the umask; the library makes a file for its owner alone
    try:
        save_file(whole, path, metadata={"format": "pt"})
        path.chmod(mode)
    except SafetensorError as error:  # a full disk, for one
        raise OSError(f"{path.name}: {error}") from error


def round_weights(folder: Path) -> float:
    """Turn the matrices of a folder's weights into int8 rows; return the largest error of any.

    An error is a share of the largest number of its row.
    """
    whole, rounded, largest = TensorFiles([folder / WEIGHTS]), {}, 0.0
    for name, tensor in whole.items():
        if not has_rows(tensor):
            rounded[name] = tensor
            continue
        rows, scales = round_rows(tensor, name)
        rounded |= {name: rows, name + SCALES: scales}
        errors = (widen_rows(rows, scales, name) - tensor).abs().amax(dim=1)
        peaks = tensor.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny)
        largest = max(largest, float((errors / peaks).max()))
    write_tensors(folder / INT8_WEIGHTS, rounded)
    (folder / WEIGHTS).unlink()
    return largest


def _open(path: Path) -> Any:
    """Map a safetensors file into memory; say what is wrong with one that is none."""
    if not path.is_file():
        raise ArtifactError(f"there is no {path}; weights are read from safetensors only")
    _require_short_header(path)
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        if not is_unicode(str(path)):
            raise ArtifactError(f"the name of {path} is not Unicode; rename the folder") from error
        with path.open("rb") as file:
            begin = file.read(9)
        # A safetensors header that happens to be of such a length has a brace behind it.
        is_pickle = begin[:2] == b"PK" or (begin[:1] == b"\x80" and begin[8:] != b"{")
        remedy = "it is a pickle: bertworks import reads those" if is_pickle else "fetch it again"
        raise ArtifactError(f"{path} cannot be read as safetensors: {error}; {remedy}") from error


def _require_short_header(path: Path) -> None:
    """Refuse a file that tells of so many tensors that reading about them takes the memory."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if LONGEST_HEADER < size < path.stat().st_size:
        raise ArtifactError(
            f"the header of {path} has {size} bytes, and no weights need more than "
            f"{LONGEST_HEADER}; fetch it from somebody else"
        )


def _is_table(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(name, str) and isinstance(tensor, Tensor) and _is_plain(tensor)
        for name, tensor in found.items()
    )


def _is_plain(tensor: Tensor) -> bool:
    """Tell whether all values of a tensor lie in memory, each in a place of its own."""
    if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


@torch.no_grad()
def _give(model: nn.Module, name: str, tensor: Tensor) -> None:
    """Copy a tensor into a parameter, or make it the parameter where that has no memory yet."""
    parameter = model.get_parameter(name)
    if tensor.shape != parameter.shape:
        raise ArtifactError(
            f"{name} has shape {list(tensor.shape)} but the network needs {list(parameter.shape)}; "
            "the weights belong to another network"
        )
    if not tensor.is_floating_point():
        raise ArtifactError(
            f"{name} holds numbers of type {tensor.dtype} and no scales, so what they stand for is "
            "not known; fetch the model in single or half precision"
        )
    if not parameter.is_meta:
        parameter.copy_(tensor)
        return
    owner, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(owner), leaf, nn.Parameter(tensor.to(parameter.dtype)))


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:3]) + (", …" if len(shown) > 3 else "")
