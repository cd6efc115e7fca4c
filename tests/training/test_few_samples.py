"""Few examples get more passes and a fresh top; many get the usual."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.training.few_samples import (
    ENOUGH_STEPS,
    FEW,
    MOST_EPOCHS,
    USUAL_EPOCHS,
    Recipe,
    default_rate,
    default_recipe,
)


def recipe(num_examples: int, *, num_blocks: int = 12, has_fresh_head: bool = True) -> Recipe:
    steps = -(-num_examples // 32)
    return default_recipe(
        num_examples, steps_per_epoch=steps, num_blocks=num_blocks, has_fresh_head=has_fresh_head
    )


@given(num_examples=st.integers(1, FEW - 1))
def test_few_examples_are_seen_often_enough_but_not_endlessly(num_examples: int) -> None:
    epochs, steps = recipe(num_examples).epochs, -(-num_examples // 32)
    assert USUAL_EPOCHS <= epochs <= MOST_EPOCHS
    assert epochs == MOST_EPOCHS or epochs * steps >= ENOUGH_STEPS
    assert epochs == USUAL_EPOCHS or (epochs - 1) * steps < ENOUGH_STEPS


@given(num_examples=st.integers(FEW, 10**7), num_blocks=st.integers(1, 48))
def test_many_examples_get_the_usual(num_examples: int, num_blocks: int) -> None:
    assert recipe(num_examples, num_blocks=num_blocks) == Recipe(USUAL_EPOCHS, 0)


@pytest.mark.parametrize(("num_blocks", "drawn"), [(2, 0), (6, 1), (12, 2), (24, 4)])
def test_one_block_of_six_is_drawn_afresh_under_a_fresh_head(num_blocks: int, drawn: int) -> None:
    assert recipe(1000, num_blocks=num_blocks) == Recipe(MOST_EPOCHS, drawn)
    assert recipe(1000, num_blocks=num_blocks, has_fresh_head=False).reinit == 0


@pytest.mark.parametrize(
    ("width", "rate"), [(128, 1e-4), (384, 1e-4), (511, 1e-4), (512, 5e-5), (768, 5e-5)]
)
def test_a_narrow_network_takes_longer_steps(width: int, rate: float) -> None:
    assert default_rate(width) == rate
