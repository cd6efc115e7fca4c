"""The plan of a pre-training: by steps, or by a time that leaves their number open."""

from dataclasses import replace
from pathlib import Path

import pytest

from bertworks.core.crew import Crew
from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp
from bertworks.stages.pretrain_plan import budget_of, plan_of
from bertworks.stages.settings import PretrainSettings

PLAIN = PretrainSettings(Path("shards"), out=Path("out"), steps=200, warmup=0.1)
TIMED = replace(PLAIN, steps=None, budget="20s")


def test_warmup_is_a_share_of_the_steps_or_of_the_time() -> None:
    plan = plan_of(PLAIN, None, {})
    assert (plan.steps, plan.schedule.warmup, plan.budget) == (200, 20, None)
    budget = budget_of(TIMED, Crew())
    assert budget is not None
    plan = plan_of(TIMED, budget, {})
    assert (plan.steps, plan.schedule.warmup, budget.seconds) == (None, 2.0, 20.0)
    assert budget_of(PLAIN, Crew()) is None


def test_with_steps_beside_a_budget_batches_may_move_over_them() -> None:
    both = replace(TIMED, steps=5, mask_rate=Ramp(0.3, 0.1), short_longest=64)
    budget = budget_of(both, Crew())
    plan = plan_of(both, budget, {})
    assert (plan.steps, plan.budget, plan.schedule.warmup) == (5, budget, 2.0)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mask_rate": Ramp(0.3, 0.1)}, r"--mask-rate 0\.3\.\.0\.1 changes over the steps"),
        ({"short_longest": 64}, "--short-longest 64 changes over the steps"),
    ],
)
def test_what_needs_a_number_of_steps_is_refused_beside_a_budget(changed, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        budget_of(replace(TIMED, **changed), Crew())
