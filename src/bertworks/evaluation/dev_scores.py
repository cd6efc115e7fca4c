"""Scores on dev: what tells the best moment of a fine-tuning, of one task or of several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bertworks.core.device import Machine
from bertworks.core.errors import UsageError
from bertworks.data.packing import Features
from bertworks.evaluation.scoring import evaluate_task
from bertworks.tasks.answering import Answerer
from bertworks.tasks.task import TaskModel, Tunable
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.plan import Evaluation

MEAN = "mean"  # of the first scores of several tasks


@dataclass(frozen=True)
class DevSet:
    """The examples on which a task is scored, and their windows."""

    examples: Sequence[Any]
    windows: Sequence[list[Features]]


class DevScores:
    """Scores the tasks of a model on the same examples, whenever it is asked."""

    def __init__(
        self,
        model: TaskModel,
        tokenizer: Tokenizer,
        sets: Mapping[str, DevSet],
        *,
        machine: Machine,
        choose_by: str | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.sets = sets  # by the names of their tasks
        self.machine = machine
        self.choose_by = choose_by  # None: the first score

    def score(self, step: int = 0) -> Evaluation:
        """Score the model as it is; those of several tasks bear their names."""
        found = {
            name: evaluate_task(self._answerer(name), dev.examples, dev.windows)
            for name, dev in self.sets.items()
        }
        metrics = _joined(found)
        chosen = next(iter(metrics)) if self.choose_by is None else self.choose_by
        if chosen not in metrics:
            known = ", ".join(metrics)
            raise UsageError(f"--choose-by is {chosen!r}, but the scores on dev are {known}")
        return Evaluation(metrics[chosen], metrics)

    def chosen(self, of_tasks: Mapping[str, Mapping[str, float]]) -> float | None:
        """Return of such scores the one that chooses the best moment, where it is among them."""
        if not all(of_tasks.values()):
            return None
        metrics = _joined({name: Evaluation(None, dict(found)) for name, found in of_tasks.items()})
        return metrics.get(self.choose_by or next(iter(metrics)))

    def tune(self) -> None:
        """Set what tasks answer by, such as a threshold, so that it is best on dev."""
        for name, dev in self.sets.items():
            task = self.model.tasks[name]
            if isinstance(task, Tunable):
                answers = self._answerer(name).answer(dev.examples, dev.windows)
                self.model.tasks[name] = task.tuned(dev.examples, answers)

    def _answerer(self, name: str) -> Answerer:
        return Answerer(self.model, self.model.tasks[name], self.tokenizer, self.machine)


def _joined(found: Mapping[str, Evaluation]) -> dict[str, float]:
    """Return the scores of all tasks; of several, the mean of their first ones before them."""
    if len(found) == 1:
        return next(iter(found.values())).metrics
    firsts = [next(iter(one.metrics.values())) for one in found.values()]
    named = {
        f"{name}_{metric}": value
        for name, one in found.items()
        for metric, value in one.metrics.items()
    }
    return {MEAN: fmean(firsts), **named}
