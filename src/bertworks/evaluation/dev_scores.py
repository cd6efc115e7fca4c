"""Scores on dev: what tells the best moment of a fine-tuning, of one task or of several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bertworks.core.device import Machine
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import say
from bertworks.data.packing import Features
from bertworks.evaluation.answer_views import Gallery
from bertworks.evaluation.calibration import fit_temperature
from bertworks.evaluation.scoring import LEAST_TUNED, Judge, judge_task, tuned_on
from bertworks.evaluation.statistics import Interval
from bertworks.tasks.answering import Answerer
from bertworks.tasks.metrics import ERRORS
from bertworks.tasks.task import Task, TaskModel, Tempered, Tunable
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
        self.judges: dict[str, Judge] = {}  # of the last answers, by the names of their tasks

    def refuse_alike(self) -> None:
        """Fail where all vectors should be as near to each other, so that no score is told."""
        for name in (name for name in self.sets if self.model.tasks[name].kind == "embed"):
            pairs = self.sets[name].examples
            gold = {pair.label if pair.score is None else pair.score for pair in pairs}
            if len(gold) < 2:
                told = "1 pair has" if len(pairs) == 1 else f"{len(pairs)} pairs all have"
                kind = "label" if pairs[0].score is None else "score"
                raise DataError(
                    f"dev tells no score of {name}: its {told} the {kind} {gold.pop()}; add pairs "
                    "of another"
                )

    def score(self, step: int = 0, *, galleries: Mapping[str, Gallery] | None = None) -> Evaluation:
        """Score the model as it is; those of several tasks bear their names."""
        shown = galleries or {}
        self.judges = {
            name: judge_task(
                self._answerer(name), dev.examples, dev.windows, gallery=shown.get(name)
            )
            for name, dev in self.sets.items()
        }
        found = {name: judge.metrics() for name, judge in self.judges.items()}
        for name in (name for name, one in found.items() if not one):
            why = "; ".join(self.judges[name].lacking())
            raise DataError(f"dev tells no score of {name}: {why}; add other rows to it")
        metrics = _joined(found)
        chosen = next(iter(metrics)) if self.choose_by is None else self.choose_by
        if chosen not in metrics:
            known = ", ".join(metrics)
            raise UsageError(f"--choose-by is {chosen!r}, but the scores on dev are {known}")
        if chosen.endswith(tuple(ERRORS)):
            raise UsageError(f"--choose-by {chosen} would choose the largest error; take another")
        return Evaluation(metrics[chosen], metrics)

    def chosen(self, of_tasks: Mapping[str, Mapping[str, float]]) -> float | None:
        """Return of such scores the one that chooses the best moment, where it is among them."""
        if self.choose_by in (None, MEAN) and not all(of_tasks.values()):
            return None
        metrics = _joined(of_tasks) if any(of_tasks.values()) else {}
        return metrics.get(self.choose_by or next(iter(metrics)))

    def intervals(self) -> dict[str, Interval]:
        """Return the range of each score as it was last found; a mean of tasks has none."""
        found = {name: judge.intervals() for name, judge in self.judges.items()}
        if len(found) == 1:
            return next(iter(found.values()))
        return {f"{name}_{score}": one for name, own in found.items() for score, one in own.items()}

    def tune(self) -> None:
        """Set what tasks answer by, a temperature and a threshold, so that it is best on dev."""
        for name, dev in self.sets.items():
            if isinstance(task := self.model.tasks[name], Tempered):
                self.model.tasks[name] = self._tempered(task, dev)
            if isinstance(task := self.model.tasks[name], Tunable):
                answers = self._answerer(name).answer(dev.examples, dev.windows)
                self.model.tasks[name] = tuned_on(task, dev.examples, answers)
                if len(dev.examples) < LEAST_TUNED:
                    count = len(dev.examples)
                    told = "1 example is" if count == 1 else f"{count} examples are"
                    say(
                        f"the threshold of {name} stays as it was: {told} too few to tell it; "
                        f"{LEAST_TUNED} may do"
                    )

    def _tempered(self, task: Tempered, dev: DevSet) -> Task:
        """Return a task whose chances are as sure as its answers on dev are right."""
        plain = task.with_temperature(1.0)
        answers = self._answerer(plain.name, plain).answer(dev.examples, dev.windows)
        scorer = plain.scorer()
        verdicts = map(scorer.add, dev.examples, answers)
        temperature, refusal = fit_temperature([v.claims for v in verdicts if v.claims])
        if refusal:
            say(f"the temperature of {plain.name} stays 1: {refusal}")
        return task.with_temperature(temperature)

    def _answerer(self, name: str, task: Task | None = None) -> Answerer:
        asked = task or self.model.tasks[name]
        return Answerer(self.model, asked, self.tokenizer, self.machine)


def _joined(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the scores of all tasks; of several, the mean of their first ones before them."""
    if len(found) == 1:
        return dict(next(iter(found.values())))
    firsts = [next(iter(one.values())) for one in found.values() if one]
    named = {
        f"{name}_{metric}": value for name, one in found.items() for metric, value in one.items()
    }
    return {MEAN: fmean(firsts), **named}
