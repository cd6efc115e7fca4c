"""Scores of answers against the gold, from counts and few numbers an answer."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Self

import numpy as np

from bertworks.core.errors import MissingPackageError
from bertworks.core.optional import import_optional
from bertworks.core.progress import say


def scikit_learn(module: str) -> ModuleType:
    """Import a module of scikit-learn, or say how to get it."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise MissingPackageError("scoring needs: pip install 'bertworks[eval]'") from error


class LabelScores:
    """The scores of one label each: how often each was given for each, and how likely each was."""

    def __init__(self, num_labels: int) -> None:
        self.counts = np.zeros((num_labels, num_labels), np.int64)  # by gold and by answer
        self._gold = array("i")
        self._probabilities = array("d")

    def add(self, gold: int, probabilities: Sequence[float]) -> int:
        """Count an answer and return the likeliest label."""
        given = int(np.argmax(probabilities))
        self.counts[gold, given] += 1
        self._gold.append(gold)
        self._probabilities.extend(probabilities)
        return given

    def metrics(self) -> dict[str, float]:
        """Return accuracy, F1 of the second label or of all, MCC, AUC, precision and recall.

        Of two labels, F1, precision and recall are those of the second; `macro` is the mean over
        labels, `micro` counts all answers as one. The area under the curve of more labels is the
        mean over labels of each against the others, and of labels that do not occur there is none.
        """
        metrics = scikit_learn("metrics")
        gold, given = np.nonzero(self.counts)
        told = {"sample_weight": self.counts[gold, given]}
        num_labels = len(self.counts)
        counted = {**told, "labels": range(num_labels), "zero_division": 0}
        is_mixed = len({*gold, *given}) > 1  # else there is no correlation to speak of
        usual = "binary" if num_labels == 2 else "macro"
        scores = {
            "accuracy": metrics.accuracy_score(gold, given, **told),
            "f1": metrics.f1_score(gold, given, average=usual, **counted),
            "mcc": metrics.matthews_corrcoef(gold, given, **told) if is_mixed else 0.0,
        }
        if (auc := self._auc(metrics)) is not None:
            scores["auc"] = auc
        names = ("precision", "recall", "f1")
        for average in dict.fromkeys((usual, "macro", "micro")):
            found = metrics.precision_recall_fscore_support(gold, given, average=average, **counted)
            prefix = "" if average == usual else f"{average}_"
            scores |= {f"{prefix}{name}": value for name, value in zip(names, found, strict=False)}
        scores.setdefault("macro_f1", scores["f1"])  # by this name for any number of labels
        return {name: float(score) for name, score in scores.items()}

    def by_label(self) -> list[dict[str, float]]:
        """Return precision, recall, F1 and the number of examples of each label."""
        return _by_label(_Cells.of_counts(self.counts))

    def _auc(self, metrics: ModuleType) -> float | None:
        gold = np.array(self._gold)
        rows = np.array(self._probabilities).reshape(len(gold), -1)
        kept = [1] if rows.shape[1] == 2 else np.arange(rows.shape[1])
        return _mean_area(metrics, gold[:, None] == kept, rows[:, kept])


class LabelSetScores:
    """The scores of several labels each: which were right, and how likely each was."""

    def __init__(self, num_labels: int) -> None:
        self._cells = _Cells(*np.zeros((3, num_labels), np.int64))
        self._num_same = 0
        self._gold = array("b")
        self._probabilities = array("d")

    def add(self, gold: np.ndarray, given: np.ndarray, probabilities: Sequence[float]) -> None:
        """Count an answer: for each label whether it is right, whether it was given, how likely."""
        self._cells = self._cells.plus(gold & given, ~gold & given, gold & ~given)
        self._num_same += bool((gold == given).all())
        self._gold.extend(gold.astype(np.int8))
        self._probabilities.extend(probabilities)

    def metrics(self) -> dict[str, float]:
        """Return micro and macro F1, precision and recall, the share of whole sets, and the AUC."""
        rows = np.array(self._probabilities).reshape(-1, len(self._cells.hits))
        gold = np.array(self._gold, bool).reshape(rows.shape)
        means = {"micro": self._cells.sums(), "macro": self._cells}
        found = {
            f"{mean}_{name}": float(values.mean())
            for name in ("f1", "precision", "recall")
            for mean, cells in means.items()
            for values in [cells.rates()[name]]
        }
        found["subset_accuracy"] = self._num_same / len(rows)
        area = _mean_area(scikit_learn("metrics"), gold, rows)
        return found if area is None else found | {"auc": area}

    def by_label(self) -> list[dict[str, float]]:
        """Return precision, recall, F1 and the number of examples of each label."""
        return _by_label(self._cells)


class NumberScores:
    """The scores of numbers: how they rise and fall with the gold, and how far off they are."""

    def __init__(self) -> None:
        self._gold, self._given = array("d"), array("d")

    def add(self, gold: float, given: float) -> None:
        """Take one number."""
        self._gold.append(gold)
        self._given.append(given)

    def metrics(self) -> dict[str, float]:
        """Return both correlations, 0 where one side never changes, and the mean distance."""
        gold, given = np.array(self._gold), np.array(self._given)
        ranks = import_optional("scipy.stats", extra="eval", purpose="scoring").rankdata
        for name, side in (("gold", gold), ("given", given)):
            if np.ptp(side) == 0:
                say(
                    f"warning: all scores that are {name} are {side[0]:g}, so there is nothing to "
                    "correlate; pearson and spearman are 0"
                )
        return {
            "pearson": _correlation(gold, given),
            "spearman": _correlation(ranks(gold), ranks(given)),
            "mean_absolute_error": float(np.abs(gold - given).mean()),
        }


@dataclass(frozen=True)
class _Cells:
    """For each label how often it was rightly given, wrongly given, and missed."""

    hits: np.ndarray
    false: np.ndarray
    missed: np.ndarray

    @classmethod
    def of_counts(cls, counts: np.ndarray) -> Self:
        """Make them of how often each label was given for each."""
        hits = counts.diagonal()
        return cls(hits, counts.sum(0) - hits, counts.sum(1) - hits)

    def plus(self, hits: np.ndarray, false: np.ndarray, missed: np.ndarray) -> Self:
        return replace(
            self, hits=self.hits + hits, false=self.false + false, missed=self.missed + missed
        )

    def sums(self) -> Self:
        """Count all labels as one."""
        return replace(self, hits=self.hits.sum(), false=self.false.sum(), missed=self.missed.sum())

    def rates(self) -> dict[str, np.ndarray]:
        """Return precision, recall and F1; a rate of nothing is 0."""
        hits, false, missed = self.hits, self.false, self.missed
        return {
            "precision": hits / np.maximum(hits + false, 1),
            "recall": hits / np.maximum(hits + missed, 1),
            "f1": 2 * hits / np.maximum(2 * hits + false + missed, 1),
        }


def _by_label(cells: _Cells) -> list[dict[str, float]]:
    columns = {**cells.rates(), "support": cells.hits + cells.missed}
    return [
        {name: value.item() for name, value in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]


def _mean_area(metrics: ModuleType, gold: np.ndarray, chances: np.ndarray) -> float | None:
    """Return the mean area under the curve over the columns that have both kinds of gold."""
    areas = [
        metrics.roc_auc_score(gold[:, label], chances[:, label])
        for label in range(gold.shape[1])
        if 0 < gold[:, label].sum() < len(gold)
    ]
    return float(np.mean(areas)) if areas else None


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return Pearson's correlation; what never changes goes with nothing."""
    sides = [side - side.mean() for side in (first, second)]
    lengths = [float(np.linalg.norm(side)) for side in sides]
    if 0.0 in (*lengths, np.ptp(first), np.ptp(second)):
        return 0.0
    return float(np.dot(sides[0] / lengths[0], sides[1] / lengths[1]))
