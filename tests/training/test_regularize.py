"""What regularizers a run may have, and what they need."""

import pytest

from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp
from bertworks.training.lora import LoraPlan
from bertworks.training.plan import TrainingPlan
from bertworks.training.regularize import Regularize


def test_by_default_there_are_none() -> None:
    usual = Regularize()
    assert not usual.needs_pretrained
    assert (usual.r_drop, usual.adversary, usual.lora, usual.smoothing) == (
        0,
        None,
        None,
        Ramp(0, 0),
    )


@pytest.mark.parametrize(
    "given",
    [{"mixout": 0.1}, {"decay_toward": "pretrained"}, {"lora": LoraPlan(rank=1, alpha=1)}],
)
def test_some_need_the_values_before(given) -> None:
    assert Regularize(**given).needs_pretrained
    assert not Regularize(parameter_dropout=0.1).needs_pretrained


def test_what_cannot_go_together_is_refused() -> None:
    with pytest.raises(UsageError, match="leave one out"):
        Regularize(mixout=0.1, parameter_dropout=0.1)
    with pytest.raises(UsageError, match="two averages"):
        TrainingPlan(steps=3, lr=0.1, average=0.9, regularize=Regularize(average_last=2))
