"""Weight files: safetensors in and out, with an account of what fitted where."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bertworks.core.errors import ArtifactError


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

    def __str__(self) -> str:
        parts = [f"{len(self.matched)} tensors matched"]
        if self.missing:
            parts.append(f"{len(self.missing)} start fresh ({_some(self.missing)})")
        if self.unexpected:
            parts.append(f"{len(self.unexpected)} are left out ({_some(self.unexpected)})")
        return ", ".join(parts)


def load_weights(
    model: nn.Module, tensors: dict[str, Tensor], *, may_miss: Iterable[str] = ()
) -> Account:
    """Copy tensors into a model; fail unless all that is missing lies under `may_miss`."""
    parameters = dict(model.named_parameters())
    missing = tuple(name for name in parameters if name not in tensors)
    allowed = tuple(may_miss)
    lost = [name for name in missing if not name.startswith(allowed)] if allowed else list(missing)
    if lost:
        raise ArtifactError(f"the weights lack {_some(lost)}; they belong to another network")
    for name, parameter in parameters.items():
        if name in tensors:
            _copy(name, tensors[name], parameter)
    matched = tuple(name for name in parameters if name in tensors)
    unexpected = tuple(name for name in tensors if name not in parameters)
    surplus = [name for name in unexpected if name.startswith("encoder.")]
    if surplus:
        raise ArtifactError(f"the network has no place for {_some(surplus)}; it is a smaller one")
    return Account(matched, missing, unexpected)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file."""
    if not path.is_file():
        raise ArtifactError(f"there is no {path}; weights are read from safetensors only")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"{path} cannot be read as safetensors: {error}") from error


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(whole, path, metadata={"format": "pt"})
    except SafetensorError as error:  # a full disk, for one
        raise OSError(f"{path.name}: {error}") from error


@torch.no_grad()
def _copy(name: str, tensor: Tensor, parameter: nn.Parameter) -> None:
    if tensor.shape != parameter.shape:
        raise ArtifactError(
            f"{name} has shape {list(tensor.shape)} but the network needs {list(parameter.shape)}; "
            "the weights belong to another network"
        )
    parameter.copy_(tensor)


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:3]) + (", …" if len(shown) > 3 else "")
