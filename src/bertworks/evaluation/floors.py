"""The score of one and the same answer for all: at or below it a run has collapsed.

So has one that writes, if nearly all of its texts are one and the same.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from statistics import fmean, stdev
from typing import Any, Self

import numpy as np

from bertworks.core.pieces import IGNORE
from bertworks.data.packing import Features
from bertworks.evaluation.dev_scores import DevScores, DevSet
from bertworks.evaluation.scoring import Judge, tuned_on
from bertworks.tasks.task import Task
from bertworks.tokenizer.tokenizer import Tokenizer

OF_ONE_LABEL = {"classify", "match", "aspect", "relate"}
OF_WORDS = {"tag", "intent_slots"}
WITH_FLOOR = OF_ONE_LABEL | OF_WORDS | {"multilabel", "score"}
MOST_TRIED = 5  # labels, the most frequent ones
FLOOR_WORDS = "one and the same answer for all scores"
ALIKE_WORDS = "nearly all texts that are written are one and the same"
ONE_TEXT = "one_text_for_all"  # what is saved of a model whose texts on dev are nearly all the same
SURE = 1e4  # the logit of a label that is always given


def majority_metrics(task: Task, dev: DevSet, tokenizer: Tokenizer) -> dict[str, float]:
    """Return the best that one and the same answer for all can score on dev, for each metric.

    Of single labels the most frequent ones are tried; words get their most frequent tag, several
    labels each its general chance, numbers their mean, which correlates with nothing, questions
    of which some have no answer get none. Other tasks whose answers lie in their own texts have no
    such answer, and where all gold is alike it is the right one, so that nothing is told by it. Nor
    have those that write: one text that is well chosen may score more than a weak writer.
    """
    if task.kind == "answer":
        return _unanswered_metrics(task, dev)
    if task.kind not in WITH_FLOOR or _is_alike(task, dev):
        return {}
    if task.kind == "score":
        return {"pearson": 0.0, "spearman": 0.0}
    found = [_metrics(task, row, dev, tokenizer) for row in _constant_rows(task, dev)]
    return {name: max(one[name] for one in found) for name in found[0]}


@dataclass(frozen=True)
class Floors:
    """What one and the same answer for all scores on dev: what chooses, and each task's own."""

    chosen: float | None
    of_tasks: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, scores: DevScores) -> Self:
        """Find them for the tasks that are scored."""
        found = {
            name: majority_metrics(scores.model.tasks[name], dev, scores.tokenizer)
            for name, dev in scores.sets.items()
        }
        return cls(scores.chosen(found), found)

    def fallen(self, scores: DevScores) -> list[str]:
        """Return the tasks whose first score, as it was last found, is not above their own.

        A task that writes is also among them if nearly all of its texts are one and the same.
        """
        found = []
        for name, judge in scores.judges.items():
            metric, score = next(iter(judge.metrics().items()))
            if has_collapsed(score, self.of_tasks[name].get(metric)) or judge.are_alike:
                found.append(name)
        return found

    def warnings(
        self, score: float | None, fallen: Sequence[str], *, are_alike: bool = False
    ) -> Iterator[str]:
        """Name what has collapsed: tasks by themselves, and the run by the score that chooses."""
        for name in fallen:
            yield f"{name} has collapsed: {FLOOR_WORDS} as much on dev"
        if score is not None and has_collapsed(score, self.chosen):
            known = "it is no number"
            if self.chosen is not None:
                known = f"{FLOOR_WORDS} {self.chosen:.4f}"
            yield f"this run has collapsed: its score on dev is {score:.4f}, {known}"
        elif are_alike:
            yield f"this run has collapsed: {ALIKE_WORDS} on dev"


@dataclass(frozen=True)
class SeedScores:
    """One score by seed, and the floor at or below which a run has collapsed, where it is known."""

    scores: Mapping[int, float]
    floor: float | None = None
    alike: Collection[int] = ()  # seeds that write one text for nearly all

    @property
    def collapsed(self) -> list[int]:
        """The seeds that learned nothing, or whose score is no number."""
        return [seed for seed in self.scores if self._has_collapsed(seed)]

    @property
    def best(self) -> int:
        """The seed with the highest score, of those that have not collapsed if there are such."""
        return max(
            self.scores,
            key=lambda seed: (not self._has_collapsed(seed), _comparable(self.scores[seed])),
        )

    @property
    def mean(self) -> float:
        """The mean of all seeds, collapsed ones too."""
        return fmean(self.scores.values())

    @property
    def deviation(self) -> float:
        """The standard deviation of the seeds."""
        if isnan(self.mean):
            return self.mean
        return stdev(self.scores.values()) if len(self.scores) > 1 else 0.0

    def _has_collapsed(self, seed: int) -> bool:
        return seed in self.alike or has_collapsed(self.scores[seed], self.floor)


def has_collapsed(score: float, floor: float | None) -> bool:
    """Tell whether a score is not above that of one and the same answer for all."""
    return isnan(score) or (floor is not None and score <= floor)


def is_told_collapsed(told: Mapping[str, Any], score: float) -> bool:
    """Tell whether a model with a score has collapsed, by what was saved of its training."""
    return has_collapsed(score, told.get("dev_floor")) or bool(told.get(ONE_TEXT))


def _comparable(score: float) -> float:
    return float("-inf") if isnan(score) else score


def _metrics(task: Task, row: np.ndarray, dev: DevSet, tokenizer: Tokenizer) -> dict[str, float]:
    """Return the scores on dev of a network that says the same of everything."""
    answers = [
        task.decode(example, windows, [_repeated(task, row, w) for w in windows], tokenizer)
        for example, windows in zip(dev.examples, dev.windows, strict=True)
    ]
    judge = Judge(tuned_on(task, dev.examples, answers))
    for example, answer in zip(dev.examples, answers, strict=True):
        judge.add(example, answer)
    return judge.metrics()


def _unanswered_metrics(task: Task, dev: DevSet) -> dict[str, float]:
    """Return what it scores to answer no question, where that is right for some and not for all."""
    if len({bool(example.answers) for example in dev.examples}) < 2:
        return {}
    scorer = task.scorer()
    for example in dev.examples:
        scorer.add(example, {"answer": "", "probability": 1.0})
    return scorer.metrics()


def _is_alike(task: Task, dev: DevSet) -> bool:
    """Tell whether dev asks for one and the same label, tag, set of labels or number."""
    goals = [window.goals[task.name].values for windows in dev.windows for window in windows]
    known = {tuple(np.ravel(row)) for goal in goals for row in np.asarray(goal)} - {(IGNORE,)}
    return len(known) == 1


def _constant_rows(task: Task, dev: DevSet) -> list[np.ndarray]:
    """Return what such networks may say, [L] each."""
    if task.kind == "multilabel":
        return [np.zeros(len(task.labels))]  # beside the prior, which the task adds itself
    goals = [window.goals[task.name].values for windows in dev.windows for window in windows]
    values = np.concatenate([np.asarray(goal) for goal in goals])
    counts = np.bincount(values[values != IGNORE], minlength=len(task.labels))
    if task.kind in OF_ONE_LABEL:
        frequent = np.argsort(-counts, kind="stable")[:MOST_TRIED]
        return [SURE * (np.arange(len(counts)) == label) for label in frequent]
    row = np.where(counts > 0, np.log(np.maximum(counts, 1)), -SURE)
    return [np.tile(row, len(row)) if task.options.get("crf") else row]


def _repeated(task: Task, row: np.ndarray, window: Features) -> np.ndarray:
    return np.tile(row, (len(window.goals[task.name].values), 1))
