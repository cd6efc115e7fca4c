"""The labels that evaluate and predict may be given instead of those that a model learned."""

from bertworks.core.errors import UsageError
from bertworks.core.settings import settings_of
from bertworks.serving.predictor import Predictor
from bertworks.stages.setting_groups import ZeroShotSettings
from bertworks.tasks.task import Task
from bertworks.tasks.zero_shot import ByVectors


def zero_shot_task(predictor: Predictor, chosen: ZeroShotSettings) -> Task | ByVectors | None:
    """Return the task that chooses among the labels given, or None where there are none."""
    if chosen.zero_shot:
        return predictor.zero_shot(
            chosen.zero_shot,
            by=chosen.by,
            template=chosen.template,
            calibrate=chosen.calibrate,
        )
    for setting in settings_of(ZeroShotSettings):
        if getattr(chosen, setting.name) != setting.default:
            raise UsageError(f"{setting.flag} is for labels without training; give --zero-shot")
    return None
