"""Scores of answers against the gold, from counts and few numbers an answer."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from bertworks.core.progress import say
from bertworks.tasks.statistic import (
    Sample,
    Statistic,
    area_of,
    correlation_of,
    distinct,
    mean_of,
    rank_correlation_of,
)

ERRORS = {"mean_absolute_error"}  # scores of which the lower is the better
Mean = Literal["macro", "micro"] | int  # over labels, over answers, or of one label


class LabelScores:
    """The scores of one label each: how often each was given for each, and how likely each was."""

    def __init__(self, num_labels: int) -> None:
        self._num_labels = num_labels
        self._gold, self._given = array("i"), array("i")
        self._probabilities = array("d")

    def add(self, gold: int, probabilities: Sequence[float]) -> int:
        """Count an answer and return the likeliest label."""
        given = int(np.argmax(probabilities))
        self._gold.append(gold)
        self._given.append(given)
        self._probabilities.extend(probabilities)
        return given

    def statistics(self) -> dict[str, Statistic]:
        """Return accuracy, F1 of the second label or of all, MCC, AUC, precision and recall.

        Of two labels, F1, precision and recall are those of the second; `macro` is the mean over
        labels that occur, `micro` counts all answers as one. The area under the curve of more
        labels is the mean over those that occur of each against the others. Gold of one label
        tells the accuracy alone.
        """
        found = {"accuracy": mean_of(np.array(self._gold) == np.array(self._given))}
        if self.lacking:
            return found
        sample, is_binary = self._sample(), self._num_labels == 2
        usual: Mean = 1 if is_binary else "macro"
        found |= {"f1": rate_of(sample, "f1", over=usual), "mcc": Statistic(sample, _mcc)}
        if (area := self._area()) is not None:
            found["auc"] = area
        for name in ("precision", "recall"):
            found[name] = rate_of(sample, name, over=usual)
        means: tuple[Mean, ...] = ("macro", "micro") if is_binary else ("micro",)
        for mean in means:
            for name in ("precision", "recall", "f1"):
                found[f"{mean}_{name}"] = rate_of(sample, name, over=mean)
        found.setdefault("macro_f1", found["f1"])  # by this name for any number of labels
        return found

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why; empty where it tells all."""
        is_one = len(self._gold) > 0 and min(self._gold) == max(self._gold)
        return "all examples have the same label, so accuracy alone is told" if is_one else ""

    def metrics(self) -> dict[str, float]:
        """Return the value of each score."""
        return {name: one.value for name, one in self.statistics().items()}

    def by_label(self) -> list[dict[str, float]]:
        """Return precision, recall, F1 and the number of examples of each label."""
        return _by_label(_Cells.of_sums(self._sample().sums))

    def label_statistics(self) -> list[Statistic]:
        """Return the F1 of each label."""
        return _label_f1(self._sample())

    def _sample(self) -> Sample:
        cells, which = distinct(np.array(self._gold) * self._num_labels + np.array(self._given))
        gold, given = (
            np.eye(self._num_labels)[side] for side in np.divmod(cells, self._num_labels)
        )
        return Sample(np.concatenate([gold * given, given, gold], axis=1), which)

    def _area(self) -> Statistic | None:
        gold = np.array(self._gold)
        rows = np.array(self._probabilities).reshape(len(gold), -1)
        first = int(rows.shape[1] == 2)  # of two labels the second tells all
        kept = np.arange(first, rows.shape[1])
        return area_of(gold[:, None] == kept, rows[:, first:])


class LabelSetScores:
    """The scores of several labels each: which were right, and how likely each was."""

    def __init__(self, num_labels: int) -> None:
        self._num_labels = num_labels
        self._gold, self._given = array("b"), array("b")
        self._probabilities = array("d")

    def add(self, gold: np.ndarray, given: np.ndarray, probabilities: Sequence[float]) -> None:
        """Count an answer: for each label whether it is right, whether it was given, how likely."""
        self._gold.extend(gold.astype(np.int8))
        self._given.extend(given.astype(np.int8))
        self._probabilities.extend(probabilities)

    def statistics(self) -> dict[str, Statistic]:
        """Return micro and macro F1, precision and recall, the share of whole sets, and the AUC.

        Gold without any label tells the share of whole sets alone.
        """
        gold, given = self._sides()
        subsets = {"subset_accuracy": mean_of((gold == given).all(axis=1))}
        if self.lacking:
            return subsets
        sample = self._sample()
        means: tuple[Mean, ...] = ("micro", "macro")
        found = {
            f"{mean}_{name}": rate_of(sample, name, over=mean)
            for name in ("f1", "precision", "recall")
            for mean in means
        } | subsets
        area = area_of(gold, np.array(self._probabilities).reshape(gold.shape))
        return found if area is None else found | {"auc": area}

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why; empty where it tells all."""
        is_bare = not any(self._gold)
        return "no example has a label, so subset accuracy alone is told" if is_bare else ""

    def metrics(self) -> dict[str, float]:
        """Return the value of each score."""
        return {name: one.value for name, one in self.statistics().items()}

    def by_label(self) -> list[dict[str, float]]:
        """Return precision, recall, F1 and the number of examples of each label."""
        return _by_label(_Cells.of_sums(self._sample().sums))

    def label_statistics(self) -> list[Statistic]:
        """Return the F1 of each label."""
        return _label_f1(self._sample())

    def _sides(self) -> list[np.ndarray]:
        sides = (self._gold, self._given)
        return [np.array(side, bool).reshape(-1, self._num_labels) for side in sides]

    def _sample(self) -> Sample:
        gold, given = self._sides()
        return Sample.of(np.concatenate([gold & given, given, gold], axis=1).astype(np.float64))


class NumberScores:
    """The scores of numbers: how they rise and fall with the gold, and how far off they are."""

    def __init__(self) -> None:
        self._gold, self._given = array("d"), array("d")

    def add(self, gold: float, given: float) -> None:
        """Take one number."""
        self._gold.append(gold)
        self._given.append(given)

    def statistics(self) -> dict[str, Statistic]:
        """Return both correlations where both sides change, and the mean distance."""
        gold, given = np.array(self._gold), np.array(self._given)
        found = {"mean_absolute_error": mean_of(np.abs(gold - given))}
        if 0 in (np.ptp(gold), np.ptp(given), gold.std(), given.std()):
            return found
        return {
            "pearson": correlation_of(gold, given),
            "spearman": rank_correlation_of(gold, given),
            **found,
        }

    def metrics(self) -> dict[str, float]:
        """Return both correlations and the mean distance; numbers all alike correlate by 0.

        Gold that is all alike tells the distance alone.
        """
        found = {name: one.value for name, one in self.statistics().items()}
        if self.lacking:
            return found
        if min(self._given) == max(self._given):
            say(
                f"warning: all scores that are given are {self._given[0]:g}, so there is nothing "
                "to correlate; pearson and spearman are 0"
            )
        return {"pearson": 0.0, "spearman": 0.0} | found

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why; empty where it tells all."""
        if not self._gold or min(self._gold) < max(self._gold):
            return ""
        return f"all gold scores are {self._gold[0]:g}, so pearson and spearman cannot be told"


@dataclass(frozen=True)
class _Cells:
    """For each label how often it was rightly given, given, and sought."""

    hits: np.ndarray
    given: np.ndarray
    gold: np.ndarray

    @classmethod
    def of_sums(cls, sums: np.ndarray) -> Self:
        """Make them of sums that stand side by side."""
        return cls(*np.split(sums, 3, axis=-1))

    def rates(self) -> dict[str, np.ndarray]:
        """Return precision, recall and F1; a rate of nothing is 0."""
        return {
            "precision": self.hits / np.maximum(self.given, 1),
            "recall": self.hits / np.maximum(self.gold, 1),
            "f1": 2 * self.hits / np.maximum(self.given + self.gold, 1),
        }


def rate_of(sample: Sample, name: str, *, over: Mean) -> Statistic:
    """Return precision, recall or F1: of a label, the mean of all, or of all counted as one.

    What an example adds is, for each label, whether it was rightly given, given, and sought.
    """
    if over == "macro":
        return _mean_rate(sample, name)

    def score(sums: np.ndarray) -> np.ndarray:
        cells = _Cells.of_sums(sums)
        if over == "micro":
            cells = _Cells(cells.hits.sum(-1), cells.given.sum(-1), cells.gold.sum(-1))
            return cells.rates()[name]
        return cells.rates()[name][..., over]

    return Statistic(sample, score)


def _mean_rate(sample: Sample, name: str) -> Statistic:
    """Return the mean of a rate over labels; one that no example has does not count."""

    def score(sums: np.ndarray) -> np.ndarray:
        cells = _Cells.of_sums(sums)
        is_counted = cells.gold > 0
        return (cells.rates()[name] * is_counted).sum(-1) / np.maximum(is_counted.sum(-1), 1)

    return Statistic(sample, score)


def _mcc(sums: np.ndarray) -> np.ndarray:
    """Return the correlation of labels given and sought; where one never changes there is none."""
    cells = _Cells.of_sums(sums)
    count, hits = cells.gold.sum(-1), cells.hits.sum(-1)
    shared = hits * count - (cells.given * cells.gold).sum(-1)
    spreads = [count**2 - (side**2).sum(-1) for side in (cells.given, cells.gold)]
    return shared / np.sqrt(np.maximum(spreads[0] * spreads[1], 1))


def _label_f1(sample: Sample) -> list[Statistic]:
    num_labels = sample.rows.shape[1] // 3
    return [rate_of(sample, "f1", over=label) for label in range(num_labels)]


def _by_label(cells: _Cells) -> list[dict[str, float]]:
    columns = {**cells.rates(), "support": cells.gold.astype(np.int64)}
    return [
        {name: value.item() for name, value in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]
