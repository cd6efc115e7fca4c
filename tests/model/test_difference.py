"""A model as how far it is from another: what is kept, and what comes back."""

import pytest
import torch
from torch import Tensor

from bertworks.core.errors import ArtifactError
from bertworks.model.difference import Moved, moves_between

MATRIX, VECTOR, HEAD = "encoder.a.weight", "encoder.a.bias", "heads.old.weight"


def draw(*shape: int, seed: int) -> Tensor:
    """Draw numbers from a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def base() -> dict[str, Tensor]:
    """Give the tensors of a model that others are told against."""
    return {
        MATRIX: draw(37, 23, seed=1),
        "encoder.b.weight": draw(13, 7, seed=2),
        VECTOR: draw(23, seed=3),
        HEAD: draw(2, 23, seed=4),
    }


def thin(*, rank: int, size: float = 0.01) -> Tensor:
    """Draw a small move in few directions."""
    return size * draw(37, rank, seed=5) @ draw(rank, 23, seed=6)


def test_what_has_not_moved_takes_no_space(base: dict[str, Tensor]) -> None:
    model = {name: one.clone() for name, one in base.items() if name != HEAD}
    assert moves_between(base, model) == {}
    again = Moved(base, {})
    assert set(again) == set(model)
    assert all(torch.equal(again[name], model[name]) for name in model)


def test_a_matrix_that_moved_in_few_directions_is_two_thin_ones(base: dict[str, Tensor]) -> None:
    model = {**base, MATRIX: base[MATRIX] + thin(rank=3)}
    own = moves_between(base, model)
    assert {name: [*one.shape] for name, one in own.items() if name != HEAD} == {
        f"{MATRIX}.up": [37, 3],
        f"{MATRIX}.down": [3, 23],
    }
    assert torch.equal(own[HEAD], model[HEAD])
    again = Moved(base, own)
    assert again[MATRIX].dtype == torch.float32
    error = (again[MATRIX] - model[MATRIX]).norm() / thin(rank=3).norm()
    assert error < 1e-3


def test_of_many_directions_the_strongest_are_kept(base: dict[str, Tensor]) -> None:
    strong, weak = thin(rank=1), 0.1 * thin(rank=4).flip(0)
    own = moves_between(base, {**base, MATRIX: base[MATRIX] + strong + weak}, rank=1)
    assert own[f"{MATRIX}.up"].shape == (37, 1)
    error = (Moved(base, own)[MATRIX] - base[MATRIX] - strong).norm() / strong.norm()
    assert 0 < error < 0.3


def test_a_matrix_that_moved_in_all_directions_stays_whole(base: dict[str, Tensor]) -> None:
    model = {**base, MATRIX: draw(37, 23, seed=7)}
    own = moves_between(base, model)
    assert torch.equal(own[MATRIX], model[MATRIX])
    assert torch.equal(Moved(base, own)[MATRIX], model[MATRIX])


def test_vectors_heads_and_other_shapes_are_the_models_own(base: dict[str, Tensor]) -> None:
    model = {
        MATRIX: draw(41, 23, seed=8),
        "encoder.b.weight": base["encoder.b.weight"],
        VECTOR: base[VECTOR] + 1,
        HEAD: base[HEAD],  # a head of the same name is one of another task
        "heads.new.weight": draw(3, 23, seed=9),
    }
    own = moves_between(base, model)
    assert set(own) == {MATRIX, VECTOR, HEAD, "heads.new.weight"}
    again = Moved(base, own)
    assert len(again) == len(model)
    assert all(torch.equal(again[name], model[name]) for name in model)
    assert HEAD not in Moved(base, {})


@pytest.mark.parametrize(
    "pair",
    [
        {f"{MATRIX}.up": torch.zeros(37, 2)},
        {f"{MATRIX}.up": torch.zeros(37, 2), f"{MATRIX}.down": torch.zeros(2, 22)},
        {f"{MATRIX}.up": torch.zeros(36, 2), f"{MATRIX}.down": torch.zeros(2, 23)},
        {f"{MATRIX}.up": torch.zeros(37, 2), f"{MATRIX}.down": torch.zeros(3, 23)},
    ],
)
def test_thin_matrices_that_do_not_fit_are_refused(
    base: dict[str, Tensor], pair: dict[str, Tensor]
) -> None:
    with pytest.raises(ArtifactError, match=r"do not fit .* shape \[37, 23\]; make or fetch"):
        Moved(base, pair)[MATRIX]
