"""What answers claim, beside what is right."""

import numpy as np
import pytest

from bertworks.tasks.claims import Claims


def test_a_choice_claims_its_best_chance() -> None:
    claims = Claims.choice([0.2, 0.5, 0.3], right=2)
    chances, is_right = claims.made
    assert (chances.tolist(), is_right.tolist()) == ([0.5], [False])
    assert claims.brier == pytest.approx((0.2**2 + 0.5**2 + 0.7**2) / 2)


@pytest.mark.parametrize("right", [0, 1])
def test_of_two_choices_the_brier_score_is_that_of_either(right: int) -> None:
    claims = Claims.choice([0.3, 0.7], right=right)
    assert claims.brier == pytest.approx((0.7 - right) ** 2)


def test_chances_that_stand_by_themselves_are_all_claimed() -> None:
    claims = Claims.each([0.2, 0.9, 0.6], [False, True, False])
    chances, is_right = claims.made
    assert (len(chances), is_right.tolist()) == (3, [False, True, False])
    assert claims.brier == pytest.approx(np.mean([0.04, 0.01, 0.36]))
