"""The learning rate over a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.training.schedule import warmup_linear


def test_the_rate_rises_in_equal_parts_and_falls_in_equal_parts() -> None:
    shares = [warmup_linear(step, warmup=4, total=9) for step in range(1, 10)]
    rising, falling = [1 / 4, 2 / 4, 3 / 4, 1], [5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert shares == pytest.approx(rising + falling)


def test_without_warm_up_the_first_step_is_the_fastest() -> None:
    shares = [warmup_linear(step, warmup=0, total=4) for step in range(1, 5)]
    assert shares == pytest.approx([4 / 5, 3 / 5, 2 / 5, 1 / 5])


def test_the_step_after_the_last_would_stand_still() -> None:
    assert warmup_linear(8, warmup=2, total=7) == 0
    assert warmup_linear(100, warmup=2, total=7) == 0


@given(st.data())
def test_every_step_moves_and_the_rate_has_one_peak(data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 300))
    warmup = data.draw(st.integers(0, total))
    shares = [warmup_linear(step, warmup=warmup, total=total) for step in range(1, total + 1)]
    assert all(0 < share <= 1 for share in shares)
    peak = max(warmup, 1) - 1
    assert shares[: peak + 1] == sorted(shares[: peak + 1])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)
    assert shares[peak] == max(shares)
    assert not warmup or shares[peak] == 1
