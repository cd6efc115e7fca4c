"""Layers chosen and mixed: their numbers, their weights, and what is refused."""

import pytest
import torch

from bertworks.core.errors import UsageError
from bertworks.model.layer_mix import LayerMix

LAYERS = [torch.full((3, 2), float(number)) for number in range(5)]  # what enters, and 4 layers


@pytest.mark.parametrize(
    ("layers", "mix", "expected"),
    [
        (-1, "mean", [4.0]),
        (0, "mean", [0.0]),
        (-5, "mean", [0.0]),
        ((-1, -2, -3, -4), "mean", [2.5]),
        ((1, 1), "mean", [1.0]),
        ((-2, 1), "concat", [3.0, 1.0]),
        ((1, 3), (1, 3), [2.5]),
        ((1, 3), [0.5, 1.5], [2.5]),
        ((4,), "concat", [4.0]),
    ],
)
def test_layers_are_mixed_by_the_plain_formulas(layers, mix, expected: list[float]) -> None:
    chosen = LayerMix.of(layers, mix, num_layers=4)
    row = torch.tensor(expected).repeat_interleave(2)
    torch.testing.assert_close(chosen.apply(iter(LAYERS)), row.expand(3, -1))
    assert chosen.width == len(expected)


def test_the_last_layer_alone_is_told_from_others() -> None:
    for layers, is_last in [(-1, True), (4, True), ((-1,), True), (3, False), ((-1, 3), False)]:
        assert LayerMix.of(layers, "mean", num_layers=4).is_last_of(4) is is_last


@pytest.mark.parametrize(
    ("layers", "mix", "message"),
    [
        ((), "mean", "layers is empty"),
        (5, "mean", "there is no layer 5; the network has 4, from 1"),
        ((-1, -6), "mean", "there is no layer -6"),
        ((1.5,), "mean", "there is no layer 1.5"),
        (-1, "sum", "mix 'sum' is not known; use mean, concat or one weight for each layer"),
        ((1, 2), (1.0,), "2 layers need as many weights"),
        ((1, 2), (1.0, -1.0), "with a sum other than 0"),
        ((1, 2), (1.0, float("nan")), "with a sum other than 0"),
        ((1, 2), ("a", "b"), r"mix \('a', 'b'\) is not known"),
        (None, "mean", "there is no layer None"),
        (1.0, "mean", "there is no layer 1.0"),
        (-1, None, "mix None is not known"),
    ],
)
def test_what_cannot_be_mixed_is_refused(layers, mix, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LayerMix.of(layers, mix, num_layers=4)
