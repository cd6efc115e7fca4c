"""Scores of answers against the gold, by scikit-learn, from counts and few numbers an answer."""

from array import array
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

import numpy as np

from bertworks.core.errors import MissingPackageError


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
        return {name: float(score) for name, score in scores.items()}

    def _auc(self, metrics: ModuleType) -> float | None:
        gold = np.array(self._gold)
        rows = np.array(self._probabilities).reshape(len(gold), -1)
        areas = [
            metrics.roc_auc_score(gold == label, rows[:, label])
            for label in ([1] if rows.shape[1] == 2 else range(rows.shape[1]))
            if 0 < (gold == label).sum() < len(gold)
        ]
        return float(np.mean(areas)) if areas else None
