"""Scores of answers against the gold, by scikit-learn."""

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


def classification_metrics(gold: Sequence[int], probabilities: np.ndarray) -> dict[str, float]:
    """Return accuracy, F1, MCC and (two labels, both present) AUC; F1 is of the second label."""
    metrics = scikit_learn("metrics")
    num_labels = probabilities.shape[1]
    predicted = probabilities.argmax(axis=1)
    is_mixed = len({*gold, *predicted}) > 1  # else there is no correlation to speak of
    average = "binary" if num_labels == 2 else "macro"
    scores = {
        "accuracy": metrics.accuracy_score(gold, predicted),
        "f1": metrics.f1_score(
            gold, predicted, labels=range(num_labels), average=average, zero_division=0
        ),
        "mcc": metrics.matthews_corrcoef(gold, predicted) if is_mixed else 0.0,
    }
    if num_labels == 2 and len(set(gold)) == 2:
        scores["auc"] = metrics.roc_auc_score(gold, probabilities[:, 1])
    return {name: float(score) for name, score in scores.items()}
