"""The flags of optimizer and schedule: each reaches the plan."""

from dataclasses import replace

import pytest

from bertworks.stages.learning_plan import learning_plan
from bertworks.stages.setting_groups import LearningSettings
from bertworks.training.optimizer import Adam
from bertworks.training.plan import TrainingPlan
from bertworks.training.schedule import Schedule

OTHERS = {
    "optimizer": "muon",
    "beta1": 0.8,
    "beta2": 0.7,
    "epsilon": 1e-3,
    "schedule": "stable",
    "decay": 0.4,
    "average": 0.9,
}


def test_the_flags_are_those_of_the_plan() -> None:
    asked = LearningSettings(**OTHERS)
    plan = TrainingPlan(steps=7, lr=0.1, **learning_plan(asked, warmup=3))
    assert plan.adam == Adam(betas=(0.8, 0.7), epsilon=1e-3)
    assert plan.schedule == Schedule(name="stable", warmup=3, decay=0.4)
    assert (plan.optimizer, plan.average) == ("muon", 0.9)
    assert learning_plan(asked, warmup=3, corrects=False)["adam"].corrects is False


@pytest.mark.parametrize("name", OTHERS)
def test_none_of_the_flags_is_without_effect(name: str) -> None:
    usual = LearningSettings()
    changed = replace(usual, **{name: OTHERS[name]})
    assert learning_plan(changed, warmup=3) != learning_plan(usual, warmup=3)
    assert {*OTHERS} == {*vars(usual)}
