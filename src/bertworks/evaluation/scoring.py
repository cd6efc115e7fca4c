"""Scores of a task's answers against the gold."""

import hashlib
from array import array
from collections.abc import Sequence

import numpy as np

from bertworks.data.example_rows import subject_of
from bertworks.data.examples import Example
from bertworks.data.packing import Features
from bertworks.evaluation.answer_views import Gallery
from bertworks.evaluation.bootstrap import intervals
from bertworks.evaluation.calibration import Calibration, Reliability
from bertworks.evaluation.statistics import Interval
from bertworks.tasks.answering import Answerer
from bertworks.tasks.statistic import distinct, mean_of
from bertworks.tasks.task import (
    Alike,
    Answer,
    LabelTable,
    Noted,
    Partial,
    Scored,
    Task,
    Tunable,
    Verdict,
)

LEAST_OF_LABEL = 5  # examples, below which drawn samples tell nothing of its F1
LEAST_TUNED = 10  # examples, below which a threshold is best by chance
MOST_NAMED = 5  # labels in a sentence
UNIT_BYTES = 6  # of a hash that JSON of any language reads as a whole number


class Judge:
    """Judges the answers of a task one by one; what it keeps of each is a few numbers."""

    def __init__(self, task: Scored) -> None:
        self._scorer = task.scorer()
        self._reliability = Reliability()
        self._units = array("q")

    @property
    def count(self) -> int:
        """How many answers were judged."""
        return len(self._units)

    @property
    def num_texts(self) -> int:
        """How many different texts the examples are about."""
        return len(np.unique(np.array(self._units)))

    @property
    def unit(self) -> int:
        """The number of the text that the last example is about: a hash, so that none is kept."""
        return self._units[-1]

    def add(self, example: Example, answer: Answer) -> Verdict:
        """Judge one answer."""
        verdict = self._scorer.add(example, answer)
        told = hashlib.blake2b(subject_of(example).encode(), digest_size=UNIT_BYTES).digest()
        self._units.append(int.from_bytes(told))
        if verdict.claims is not None:
            self._reliability.add(verdict.claims)
        return verdict

    def metrics(self) -> dict[str, float]:
        """Return the scores of all answers; the first is the one to improve."""
        return self._scorer.metrics()

    def lacking(self) -> list[str]:
        """Return sentences of what these examples do not tell, and why."""
        said = [self._scorer.lacking] if isinstance(self._scorer, Partial) else []
        if self.num_texts < 2:
            said.append("all examples are about one text, so the scores have no intervals")
        if self._reliability.is_too_few:
            told = "1 answer is" if self.count == 1 else f"{self.count} answers are"
            said.append(f"{told} too few to tell whether chances can be believed")
        return [sentence for sentence in said if sentence]

    def notes(self) -> list[str]:
        """Return sentences of how the scores are to be read, which are no reason to worry."""
        said = [self._scorer.note] if isinstance(self._scorer, Noted) else []
        return [sentence for sentence in said if sentence]

    @property
    def are_alike(self) -> bool:
        """Whether nearly all answers are one and the same text, though the gold is not."""
        return isinstance(self._scorer, Alike) and self._scorer.are_alike

    def absent(self) -> list[str]:
        """Return a sentence about labels that no example has, if there are some."""
        found = [label for label, row in self.by_label().items() if not row["support"]]
        named = ", ".join(found[:MOST_NAMED]) + ", ..." * (len(found) > MOST_NAMED)
        said = f"no example has the label {named}; it has no scores, and no part in a mean"
        return [said] if found else []

    def by_label(self) -> dict[str, dict[str, float]]:
        """Return the scores of each label, where there are labels."""
        return self._scorer.by_label() if isinstance(self._scorer, LabelTable) else {}

    def intervals(self) -> dict[str, Interval]:
        """Return the scores with their ranges; one that is undefined, or of one text, has none."""
        return intervals(self._scorer.statistics(), self._texts())

    def label_intervals(self) -> dict[str, Interval]:
        """Return the F1 of each label of which there are some examples, with its range."""
        if not isinstance(self._scorer, LabelTable):
            return {}
        support = {label: row["support"] for label, row in self._scorer.by_label().items()}
        found = self._scorer.label_statistics()
        occurring = {label: one for label, one in found.items() if support[label] >= LEAST_OF_LABEL}
        return intervals(occurring, self._texts())

    def label_rows(self) -> dict[str, dict[str, float | None]]:
        """Return the scores of each label with the range of its F1; one that is absent has none."""
        found, ranges = self.by_label(), self.label_intervals()
        rows: dict[str, dict[str, float | None]] = {}
        for label, row in found.items():
            interval = ranges.get(label)
            rows[label] = {
                **{name: value if row["support"] else None for name, value in row.items()},
                "support": row["support"],
                "f1_low": interval.low if interval else None,
                "f1_high": interval.high if interval else None,
            }
        return rows

    def brier_interval(self) -> Interval | None:
        """Return the Brier score with its range; None where an answer has no chances."""
        squares = self._reliability.squares
        if len(squares) < self.count or self._reliability.is_too_few:
            return None
        return intervals({"brier": mean_of(squares)}, self._texts()).get("brier")

    def calibration(self) -> Calibration | None:
        """Return how far the chances of answers can be believed; None of few, or without any."""
        return self._reliability.calibration()

    def _texts(self) -> np.ndarray:
        """Return for each example which text it is about, numbered from 0 on."""
        return distinct(np.array(self._units))[1]


def tuned_on(task: Task, examples: Sequence[Example], answers: Sequence[Answer]) -> Task:
    """Return a task with its threshold as these answers are best, if they are not too few."""
    if isinstance(task, Tunable) and len(examples) >= LEAST_TUNED:
        return task.tuned(examples, answers)
    return task


def judge_task(
    answerer: Answerer,
    examples: Sequence[Example],
    windows: Sequence[list[Features]],
    *,
    gallery: Gallery | None = None,
) -> Judge:
    """Judge a model's answers to the examples that it is tuned on, and perhaps keep the worst.

    A scorer that has a threshold takes the best one: a network may be good long before its answers
    reach the usual one.
    """
    answers = answerer.answer(examples, windows)
    judge = Judge(tuned_on(answerer.task, examples, answers))
    for example, given in zip(examples, answers, strict=True):
        verdict = judge.add(example, given)
        if gallery is not None:
            gallery.add(example, given, verdict)
    return judge
