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
    assert moves_between(base, model).own == {}
    again = Moved(base, {})
    assert set(again) == set(model)
    assert all(torch.equal(again[name], model[name]) for name in model)


def test_a_matrix_that_moved_in_few_directions_is_two_thin_ones(base: dict[str, Tensor]) -> None:
    model = {**base, MATRIX: base[MATRIX] + thin(rank=3)}
    own = moves_between(base, model).own
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
    own = moves_between(base, {**base, MATRIX: base[MATRIX] + strong + weak}, rank=1).own
    assert own[f"{MATRIX}.up"].shape == (37, 1)
    error = (Moved(base, own)[MATRIX] - base[MATRIX] - strong).norm() / strong.norm()
    assert 0 < error < 0.3


def test_a_matrix_that_moved_in_all_directions_stays_whole(base: dict[str, Tensor]) -> None:
    model = {**base, MATRIX: draw(37, 23, seed=7)}
    own = moves_between(base, model).own
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
    own = moves_between(base, model).own
    assert set(own) == {MATRIX, VECTOR, HEAD, "heads.new.weight"}
    again = Moved(base, own)
    assert len(again) == len(model)
    assert all(torch.equal(again[name], model[name]) for name in model)
    assert HEAD not in Moved(base, {})


def test_what_the_base_alone_has_is_gone(base: dict[str, Tensor]) -> None:
    model = {name: base[name] for name in (MATRIX, "encoder.b.weight")}
    own = moves_between(base, model).own
    assert {name: one.numel() for name, one in own.items()} == {f"{VECTOR}.gone": 0}
    again = Moved(base, own)
    assert set(again) == set(model)
    with pytest.raises(KeyError):
        again[VECTOR]


def test_what_takes_the_space_is_told_apart(base: dict[str, Tensor]) -> None:
    moved = {MATRIX: base[MATRIX] + thin(rank=3), VECTOR: base[VECTOR] + 1}
    moves = moves_between(base, {**base, **moved})
    assert moves.of_matrices == 3 * (37 + 23) * 2 + 23 * 4
    assert moves.of_others == 2 * 23 * 4  # the head
    assert moves.num_bytes == moves.of_matrices + moves.of_others


def test_weights_are_counted_as_the_model_has_them(base: dict[str, Tensor]) -> None:
    model = {**base, MATRIX: base[MATRIX] + thin(rank=3), HEAD: draw(5, 23, seed=3)}
    moved = Moved(base, moves_between(base, model).own)
    assert moved.num_weights == sum(one.numel() for one in model.values())


@pytest.mark.parametrize("side", ["base", "model"])
def test_numbers_that_are_not_finite_are_refused(base: dict[str, Tensor], side: str) -> None:
    broken = {**base, MATRIX: torch.full_like(base[MATRIX], torch.nan)}
    sides = (broken, base) if side == "base" else (base, broken)
    with pytest.raises(ArtifactError, match=f"{MATRIX} holds numbers that are not finite"):
        moves_between(*sides)


def test_a_move_of_what_the_base_has_not_is_refused(base: dict[str, Tensor]) -> None:
    pair = {"encoder.z.weight.up": torch.zeros(3, 2), "encoder.z.weight.down": torch.zeros(2, 3)}
    with pytest.raises(ArtifactError, match=r"encoder\.z\.weight\.up tells of a matrix that the"):
        Moved(base, pair)


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
