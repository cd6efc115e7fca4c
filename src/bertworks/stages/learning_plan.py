"""How weights are moved, as the loop wants it: the same flags of pretrain and finetune."""

from typing import TypedDict

from bertworks.stages.setting_groups import LearningSettings
from bertworks.training.optimizer import Adam, OptimizerName
from bertworks.training.schedule import Schedule


class Learning(TypedDict):
    """The fields of a training plan that these flags fill."""

    optimizer: OptimizerName
    adam: Adam
    schedule: Schedule
    average: float


def learning_plan(asked: LearningSettings, *, warmup: float, corrects: bool = True) -> Learning:
    """Return what the flags ask for; the warm-up is in steps, or in seconds of a budget."""
    return {
        "optimizer": asked.optimizer,
        "adam": Adam(betas=(asked.beta1, asked.beta2), epsilon=asked.epsilon, corrects=corrects),
        "schedule": Schedule(name=asked.schedule, warmup=warmup, decay=asked.decay),
        "average": asked.average,
    }
