"""The scores of a network as chances, and the likeliest label of several."""

from collections.abc import Sequence

import numpy as np

from bertworks.tasks.task import Answer


def likeliest_label(
    labels: Sequence[str], scores: np.ndarray, *, temperature: float = 1.0
) -> Answer:
    """Name the label with the highest score, with the chance of each."""
    chances = softmax(scores, temperature=temperature)
    best = int(chances.argmax())
    return {
        "label": labels[best],
        "probability": float(chances[best]),
        "probabilities": dict(zip(labels, map(float, chances), strict=True)),
    }


def softmax(scores: np.ndarray, *, temperature: float = 1.0) -> np.ndarray:
    """Return the chances that scores stand for, of things of which one is right."""
    shifted = np.exp((scores - scores.max()) / temperature)
    return shifted / shifted.sum()


def log_softmax(rows: np.ndarray) -> np.ndarray:
    """Return the logarithms of the chances that the scores of each row stand for."""
    shifted = rows - rows.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
