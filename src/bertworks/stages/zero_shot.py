"""The task that predict and evaluate ask a model for, which may choose among labels given."""

from collections.abc import Sequence

from bertworks.core.errors import UsageError
from bertworks.serving.predictor import Predictor
from bertworks.stages.answer_settings import PredictSettings
from bertworks.stages.idle_flags import refuse_any
from bertworks.stages.settings import EvaluateSettings
from bertworks.tasks.task import Task
from bertworks.tasks.zero_shot import ByVectors


def chosen_task(
    predictor: Predictor, settings: EvaluateSettings | PredictSettings
) -> Task | ByVectors:
    """Return the task of the model that is asked for, or the one that chooses among labels."""
    chosen = settings.without_training
    if not chosen.zero_shot:
        refuse_any(chosen, "is for labels without training; give --zero-shot")
        return predictor.asked_task(settings.task, settings.writing.asked)
    if settings.task is not None:
        raise UsageError("--task is for what a model has learned; leave it or --zero-shot out")
    refuse_any(settings.writing, "is for models that write; leave it or --zero-shot out")
    return predictor.zero_shot(
        described(chosen.zero_shot),
        by=chosen.by,
        template=chosen.template,
        calibrate=chosen.calibrate,
    )


def described(words: Sequence[str]) -> dict[str, str]:
    """Read labels as they are given in words: NAME, or NAME=DESCRIPTION."""
    found: dict[str, str] = {}
    for word in words:
        name, _, description = word.partition("=")
        if name in found:
            raise UsageError(f"the label {name!r} is given twice; give it once")
        found[name] = description or name
    return found
