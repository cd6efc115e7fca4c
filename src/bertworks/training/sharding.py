"""A model whose weights several processes share: each keeps some rows of every tensor (FSDP2).

Before a layer computes, the processes give each other their rows, and forget those of the others
after it. A checkpoint has a file of each process; put together, they fit any number of them.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.core.crew import Crew
from bertworks.core.errors import ArtifactError
from bertworks.model.encoder import Block, Encoder
from bertworks.model.weights import TensorFiles, read_tensors

Tensors = Mapping[str, Tensor]


def shard(model: nn.Module, crew: Crew, device: torch.device) -> None:
    """Leave this process its rows of each tensor; gradients are summed over all as they are made.

    What a block computes by itself is a unit. The rest, such as norms that two blocks touch and
    tables that two networks read, is there through the whole step.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (crew.size,))
    for unit in (*_units(model), model):
        sharded: Any = fully_shard(unit, mesh=mesh)
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)
    register_fsdp_forward_method(model, "judged")


@contextmanager
def whole(model: nn.Module) -> Iterator[None]:
    """Give a model all of its weights for a while; one that is not sharded has them."""
    units: list[Any] = [module for module in model.modules() if hasattr(module, "unshard")]
    for unit in units:
        unit.unshard()
    try:
        yield
    finally:
        for unit in units:
            unit.reshard()


def own_rows(tensor: Any) -> Tensor:
    """Return the part of a tensor that lies in this process: all of it, if it is not sharded."""
    return tensor.detach().to_local() if is_sharded(tensor) else tensor


def fitted(tensor: Tensor, like: Any) -> Tensor:
    """Return of a whole tensor what this process keeps, if it is one like that."""
    if not is_sharded(like) or tensor.shape != like.shape:
        return tensor
    from torch.distributed.tensor import DTensor

    mesh = like.device_mesh
    rows = -(-len(tensor) // mesh.size())
    first = min(mesh.get_local_rank() * rows, len(tensor))
    return DTensor.from_local(
        tensor[first : first + rows].to(like.device, copy=True),
        mesh,
        like.placements,
        shape=like.shape,
        stride=like.stride(),
    )


def is_sharded(tensor: Any) -> bool:
    """Tell whether some rows of a tensor lie in other processes."""
    return hasattr(tensor, "to_local")


def part_name(name: str, crew: Crew) -> str:
    """Return the name of the file with this process's part of what was shared by several."""
    return name if crew.size == 1 else f"{name}-{crew.rank:05d}-of-{crew.size:05d}"


def read_parts(folder: Path, name: str) -> Tensors:
    """Return the tensors that one process has written whole, or several in parts."""
    pattern = re.compile(rf"{name}-(\d+)-of-(\d+)\.safetensors")
    found = sorted(path.name for path in folder.iterdir() if pattern.fullmatch(path.name))
    if not found:
        return read_tensors(folder / f"{name}.safetensors")
    number = int(found[0].rpartition("-")[2].partition(".")[0])
    if len(found) != number:
        raise ArtifactError(f"{folder} has {len(found)} of {number} parts of {name}; remove it")
    return _JoinedParts([TensorFiles([folder / file]) for file in found])


class _JoinedParts(Mapping[str, Tensor]):
    """Tensors whose rows lie in several files, joined as they are asked for."""

    def __init__(self, parts: list[TensorFiles]) -> None:
        self.parts = parts

    def __getitem__(self, name: str) -> Tensor:
        rows = [part[name] for part in self.parts]
        return torch.cat(rows) if rows[0].dim() else rows[0].clone()  # a number is that of all

    def __contains__(self, name: object) -> bool:
        return name in self.parts[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts[0])

    def __len__(self) -> int:
        return len(self.parts[0])


def _units(model: nn.Module) -> list[nn.Module]:
    """Return the modules that read no weights but their own, each once in a pass."""
    encoders = [module for module in model.modules() if isinstance(module, Encoder)]
    own = [encoder.blocks for encoder in encoders if encoder.config.sharing is None]
    blocks = [block for blocks in own for block in blocks if isinstance(block, Block)]
    found = [unit for block in blocks for unit in (block.mixer, block.feed_forward)]
    return [unit for unit in found if unit is not None]
