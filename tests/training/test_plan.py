"""A plan says what a run is asked to do."""

from bertworks.core.settings import Ramp
from bertworks.training.pace import Budget, Spent
from bertworks.training.plan import TrainingPlan
from bertworks.training.schedule import Schedule

COSINE = Schedule(name="cosine", warmup=2)


def test_weights_move_over_the_run_and_those_not_named_are_left_out() -> None:
    plan = TrainingPlan(steps=5, lr=0.1, weights={"fill_mask": Ramp(1, 0.5), "other": Ramp(2, 2)})
    assert plan.weights_at(0) == {"fill_mask": 1, "other": 2}
    assert plan.weights_at(0.5) == {"fill_mask": 0.75, "other": 2}
    assert TrainingPlan(steps=5, lr=0.1).weights_at(0.5) == {}


def test_the_pace_goes_by_steps_or_by_the_budget() -> None:
    by_steps = TrainingPlan(steps=5, lr=0.1, schedule=COSINE).pace(Spent())
    assert (by_steps.steps, by_steps.end, by_steps.rate(1)) == (5, 6, 0.5)
    budget = Budget(seconds=60.0, clock=lambda: 7.0)
    by_time = TrainingPlan(budget=budget, lr=0.1, schedule=Schedule(warmup=20.0)).pace(
        Spent(10.0, 10.0)
    )
    assert (by_time.steps, by_time.seconds, by_time.rate(1)) == (None, 10.0, 0.5)


def test_a_run_gives_up_after_so_many_evaluations_without_a_gain() -> None:
    plan = TrainingPlan(steps=90, lr=0.1, evaluate_every=10, patience=2)
    assert not plan.gives_up(20, best_step=10)
    assert plan.gives_up(30, best_step=10)
    assert plan.gives_up(20, best_step=0)
    assert not TrainingPlan(steps=90, lr=0.1, evaluate_every=10).gives_up(90, best_step=10)
