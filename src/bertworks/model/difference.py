"""A model as how far it is from another: thin matrices where it has moved, nothing elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bertworks.core.errors import ArtifactError
from bertworks.model.rounded_rows import has_rows

ENCODER = "encoder."  # begins the names of what a model and its base have in common
UP, DOWN = ".up", ".down"  # end the names of the two thin matrices of one that has moved
GONE = ".gone"  # ends the name of an empty tensor, for one that the base alone has
NOISE = 1e-4  # of the strongest direction of a move; weaker ones are what rounding makes


class Moved(Mapping[str, Tensor]):
    """The tensors of a model, by our names: those of its base, and what it has of its own."""

    def __init__(self, base: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
        self._base = base
        self._own = own
        common = [name for name in base if name.startswith(ENCODER) and name + GONE not in own]
        others = [name for name in own if not name.endswith((UP, DOWN, GONE))]
        self._names = dict.fromkeys([*common, *others])
        moved = [name.removesuffix(UP) for name in own if name.endswith(UP)]
        if strange := [name for name in moved if name not in common]:
            raise ArtifactError(
                f"{strange[0]}{UP} tells of a matrix that the base has not; make or fetch the "
                "folder again"
            )

    def __getitem__(self, name: str) -> Tensor:
        if name in self._own:
            return self._own[name]
        if name not in self._names:
            raise KeyError(name)
        base = self._base[name]
        if name + UP not in self._own:
            return base
        up, down = self._own[name + UP], self._own.get(name + DOWN)
        rank = up.shape[-1] if up.ndim else 0
        if down is None or [*up.shape, *down.shape] != [
            *base.shape[:1],
            rank,
            rank,
            *base.shape[1:],
        ]:
            raise ArtifactError(
                f"{name}{UP} and {DOWN} do not fit the matrix of the base, which has shape "
                f"{list(base.shape)}; make or fetch the folder again"
            )
        return base.float() + up.float() @ down.float()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def num_weights(self) -> int:
        """How many numbers all tensors have, without adding any up."""
        places = ((self._own if name in self._own else self._base, name) for name in self)
        return sum(tensors[name].numel() for tensors, name in places)


@dataclass(frozen=True)
class Moves:
    """What a model has that its base has not, and how many bytes of what kind that is."""

    own: dict[str, Tensor]
    of_matrices: int  # of what the base has too, and the model has moved
    of_others: int  # heads, and tensors of other shapes than the base's

    @property
    def num_bytes(self) -> int:
        """How many bytes all of it takes."""
        return self.of_matrices + self.of_others


def moves_between(
    base: Mapping[str, Tensor], model: Mapping[str, Tensor], *, rank: int | None = None
) -> Moves:
    """Return what a model has that its base has not: thin matrices, and other tensors as they are.

    Of a matrix that has moved in many directions the strongest `rank` ones are kept; without a
    number all of them, unless the matrix itself would hardly take more space.
    """
    gone = [name for name in base if name.startswith(ENCODER) and name not in model]
    moved: dict[str, Tensor] = {}
    others = {name + GONE: torch.empty(0) for name in gone}
    for name, tensor in model.items():
        before = base[name] if name.startswith(ENCODER) and name in base else None
        if before is None or before.shape != tensor.shape:
            others[name] = tensor
        elif not torch.equal(before, tensor):
            moved |= _move(name, tensor, before, rank) if has_rows(tensor) else {name: tensor}
    return Moves(moved | others, _bytes_of(moved), _bytes_of(others))


def _move(name: str, matrix: Tensor, before: Tensor, rank: int | None) -> dict[str, Tensor]:
    difference = matrix.float() - before.float()
    if not difference.isfinite().all():
        raise ArtifactError(
            f"{name} holds numbers that are not finite, in the model or in its base; train it "
            "again, or leave --base out"
        )
    left, strengths, right = torch.linalg.svd(difference, full_matrices=False)
    count = int((strengths > NOISE * strengths[0]).sum())
    count = min(count, rank or count)
    roots = strengths[:count].sqrt()
    up, down = left[:, :count] * roots, roots[:, None] * right[:count]
    # Half precision errs by a two-thousandth of a move, and a move is small itself.
    thin = {name + UP: up.half().contiguous(), name + DOWN: down.half().contiguous()}
    is_thin = sum(one.numel() for one in thin.values()) < matrix.numel()
    return thin if is_thin else {name: matrix}


def _bytes_of(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
