"""The health of a run: what is skipped, when it goes back, when it stops; by numbers alone."""

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.training.health import (
    LEAST_AVERAGE,
    LONGEST_ROLLBACK,
    MOST_BAD_IN_A_ROW,
    MOST_ROLLBACKS,
    MOST_SKIPPED_EARLY,
    MOST_SPIKES_IN_A_ROW,
    NUM_SUSPECTS,
    NUM_UNJUDGED,
    Health,
    Rollback,
    Verdict,
    judge,
    limits,
)

SPIKE = 3.0


def live(
    losses: list[float], *, health: Health | None = None, spike: float = SPIKE, first: int = 1
) -> tuple[list[Verdict], Health]:
    """Judge one loss after another; a run that goes back would not go on like this."""
    verdicts, health = [], health or Health()
    for step, loss in enumerate(losses, start=first):
        verdict, health = judge(health, step, {"fill_mask": loss}, norm=1.0, spike=spike)
        verdicts.append(verdict)
    return verdicts, health


def acts(verdicts: list[Verdict]) -> list[str]:
    return [verdict.act for verdict in verdicts]


# Steps that are not finite


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["loss", "norm"])
def test_a_step_that_is_not_finite_is_skipped(bad: float, where: str) -> None:
    loss, norm = (bad, 1.0) if where == "loss" else (2.0, bad)
    verdict, health = judge(Health(), 1, {"a": 1.0, "b": loss}, norm=norm, spike=0)
    assert verdict == Verdict("skip", "its loss or gradient is not finite")
    assert (health.num_skipped, health.bad_in_a_row) == (1, 1)
    assert health.averages == {}


def test_too_many_in_a_row_stop_the_run() -> None:
    verdicts, _ = live([2.0, *[math.nan] * (MOST_BAD_IN_A_ROW + 1)])
    assert acts(verdicts) == ["update", *["skip"] * MOST_BAD_IN_A_ROW, "stop"]
    expected = f"{MOST_BAD_IN_A_ROW + 1} steps in a row up to {MOST_BAD_IN_A_ROW + 2} had a loss"
    assert verdicts[-1].reason.startswith(expected)


def test_a_good_step_forgives_those_before_it_but_not_in_all() -> None:
    verdicts, health = live([math.nan, 2.0] * MOST_SKIPPED_EARLY)
    assert acts(verdicts) == ["skip", "update"] * MOST_SKIPPED_EARLY
    assert health.num_skipped == MOST_SKIPPED_EARLY
    verdicts, _ = live([math.nan], health=health, first=2 * MOST_SKIPPED_EARLY + 1)
    assert acts(verdicts) == ["stop"]
    assert verdicts[0].reason.startswith(f"{MOST_SKIPPED_EARLY + 1} of 21 steps were skipped")


def test_a_long_run_may_skip_a_thousandth() -> None:
    verdict, _ = judge(Health(num_skipped=49), 50_000, {"a": math.nan}, norm=1.0, spike=0)
    assert verdict.act == "skip"
    verdict, _ = judge(Health(num_skipped=50), 50_000, {"a": math.nan}, norm=1.0, spike=0)
    assert verdict.act == "stop"


# Spikes


def test_a_loss_far_above_its_average_is_skipped_and_leaves_the_average_alone() -> None:
    calm, health = live([2.0] * NUM_UNJUDGED)
    assert set(acts(calm)) == {"update"}
    verdicts, after = live([6.1], health=health)
    assert verdicts == [Verdict("skip", "its fill_mask loss is 6.10, its average 2.00")]
    assert after.averages == health.averages
    assert acts(live([5.9], health=health)[0]) == ["update"]


def test_an_average_of_too_few_losses_judges_nothing() -> None:
    verdicts, _ = live([*[2.0] * (NUM_UNJUDGED - 1), 100.0])
    assert set(acts(verdicts)) == {"update"}


def test_a_small_loss_may_rise_to_its_multiple() -> None:
    _, health = live([0.01] * NUM_UNJUDGED)
    assert acts(live([SPIKE * LEAST_AVERAGE - 0.1], health=health)[0]) == ["update"]
    assert acts(live([SPIKE * LEAST_AVERAGE + 0.1], health=health)[0]) == ["skip"]


@given(st.lists(st.floats(0.01, 20.0), min_size=1, max_size=40), st.floats(0.01, 200.0))
def test_limits_tell_before_a_step_what_its_judge_will_say(
    losses: list[float], last: float
) -> None:
    _, health = live(losses)
    verdict, _ = judge(health, 99, {"fill_mask": last}, norm=1.0, spike=SPIKE)
    is_above = last > limits(health, SPIKE).get("fill_mask", math.inf)
    assert is_above is (verdict.act != "update")
    assert limits(health, 0.0) == {}


def test_without_a_limit_every_finite_loss_is_learned_from() -> None:
    verdicts, _ = live([2.0] * NUM_UNJUDGED + [1e9], spike=0)
    assert set(acts(verdicts)) == {"update"}


def test_each_task_has_its_own_average() -> None:
    health = Health()
    for step in range(2 * NUM_UNJUDGED):
        losses = {"fill_mask": 2.0} if step % 2 else {"next_piece": 9.0, "next_sentence": 0.0}
        verdict, health = judge(health, step + 1, losses, norm=1.0, spike=SPIKE)
        assert verdict.act == "update"
    assert health.averages == {"next_piece": 9.0, "fill_mask": 2.0}  # nothing to find, no loss
    verdict, _ = judge(health, 99, {"next_piece": 9.0, "fill_mask": 9.0}, norm=1.0, spike=SPIKE)
    assert "fill_mask loss is 9.00" in verdict.reason


def test_the_average_begins_as_a_mean_and_then_forgets_slowly() -> None:
    assert live([1.0, 2.0, 6.0])[1].averages["fill_mask"] == pytest.approx(3.0)
    _, health = live([8.0] * 30 + [2.0] * 500, spike=0)
    assert health.averages["fill_mask"] == pytest.approx(2.0, abs=0.01)


def test_a_few_spikes_in_a_row_are_blamed_on_the_batches() -> None:
    losses = [2.0] * NUM_UNJUDGED + [9.0] * MOST_SPIKES_IN_A_ROW + [2.0]
    verdicts, health = live(losses)
    assert acts(verdicts)[NUM_UNJUDGED:] == [*["skip"] * MOST_SPIKES_IN_A_ROW, "update"]
    assert (health.spikes_in_a_row, health.first_spike, health.rollbacks) == (0, 0, ())


@pytest.mark.parametrize("num_calm", [NUM_UNJUDGED, 90])
def test_more_of_them_are_blamed_on_the_weights(num_calm: int) -> None:
    verdicts, health = live([2.0] * num_calm + [9.0] * (MOST_SPIKES_IN_A_ROW + 1))
    assert acts(verdicts)[num_calm:] == [*["skip"] * MOST_SPIKES_IN_A_ROW, "go back"]
    last = num_calm + MOST_SPIKES_IN_A_ROW + 1
    (rollback,) = health.rollbacks
    assert (rollback.first, rollback.last) == (max(1, num_calm + 1 - NUM_SUSPECTS), last)
    assert rollback.reason.endswith(f"step {last} its fill_mask loss is 9.00, its average 2.00")


def test_what_was_rolled_back_is_left_out_whatever_it_measures() -> None:
    health = Health(rollbacks=(Rollback(7, 9, "one"), Rollback(20, 20, "two")))
    for step in range(1, 25):
        verdict, after = judge(health, step, {"a": math.nan}, norm=math.nan, spike=SPIKE)
        if step in (7, 8, 9, 20):
            assert verdict == Verdict("leave out", "two" if step == 20 else "one")
            assert after == health
        else:
            assert verdict.act == "skip"


def test_a_run_that_rises_again_and_again_stops() -> None:
    _, calm = live([2.0] * NUM_UNJUDGED)
    rollbacks = tuple(Rollback(number, number, "") for number in range(1, MOST_ROLLBACKS + 1))
    health = Health(calm.averages, calm.num_seen, rollbacks=rollbacks)
    verdicts, _ = live([9.0] * (MOST_SPIKES_IN_A_ROW + 1), health=health, first=100)
    assert acts(verdicts) == [*["skip"] * MOST_SPIKES_IN_A_ROW, "stop"]
    assert f"after {MOST_ROLLBACKS} rollbacks" in verdicts[-1].reason


@given(st.lists(st.sampled_from((2.0, 9.0, math.nan)), min_size=60, max_size=200))
def test_a_rollback_never_reaches_further_than_it_may(losses: list[float]) -> None:
    health = live([2.0] * 100)[1]
    for step, loss in enumerate(losses, start=101):
        verdict, health = judge(health, step, {"fill_mask": loss}, norm=1.0, spike=SPIKE)
        if verdict.act == "go back":
            assert health.rollbacks[-1].last == step
            assert step - health.rollbacks[-1].first < LONGEST_ROLLBACK
        if verdict.act in ("go back", "stop"):
            break


# Memory


@given(st.lists(st.sampled_from((0.5, 2.0, 9.0, math.nan)), max_size=80), st.integers(0, 80))
def test_a_run_that_was_stopped_decides_as_one_that_was_not(losses: list[float], stop: int) -> None:
    whole, end = live(losses)
    before, kept = live(losses[:stop])
    reopened = Health.from_json(json.loads(json.dumps(asdict(kept))))
    assert reopened == kept
    after, same_end = live(losses[stop:], health=reopened, first=len(before) + 1)
    assert (before + after, same_end) == (whole, end)


def test_nothing_that_was_lent_is_changed() -> None:
    _, health = live([2.0] * 3)
    kept = asdict(health)
    judge(health, 4, {"fill_mask": 5.0}, norm=1.0, spike=SPIKE)
    assert asdict(health) == kept
