"""Score: a text or a pair of texts -> a number."""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, Goal
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Pooling
from bertworks.tasks.classify import text_head, text_windows
from bertworks.tasks.metrics import NumberScores
from bertworks.tasks.statistic import Statistic
from bertworks.tasks.task import Answer, Options, Parts, Rows, Verdict
from bertworks.tokenizer.tokenizer import Tokenizer


class Score:
    """Text or pair -> a number on the scale of the training data.

    The network itself learns how many deviations a number lies from the mean, so that every scale
    is learned alike.
    """

    kind = "score"
    labels: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        name: str = kind,
        pooling: Pooling | None = None,
        dropout: float | None = None,
        mean: float = 0.0,
        deviation: float = 1.0,
    ) -> None:
        self.name = name
        self.options: Options = {
            "pooling": pooling,
            "dropout": dropout,
            "mean": mean,
            "deviation": deviation,
        }

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Cut the text or pair into windows that share the number."""
        windows = text_windows(example, tokenizer, longest=longest)
        score = math.nan if example.score is None else example.score
        value = (score - self.options["mean"]) / self.options["deviation"]
        goal = Goal(np.array([value], np.float32), weight=1 / len(windows))
        return [Features(*window, {self.name: goal}, example.line) for window in windows]

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer on the vector of the text."""
        return text_head(config, self.options, num_labels=1)

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed squares of the distances, each window at its weight."""
        each = (logits.float().squeeze(-1) - target.values.nan_to_num()).square() * target.found
        return (each if target.weights is None else each * target.weights).sum()

    def decode(
        self,
        example: TextExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Average the numbers of the windows and put the mean on the scale."""
        mean = float(np.concatenate(logits).astype(np.float64).mean())
        return {"score": mean * self.options["deviation"] + self.options["mean"]}

    def scorer(self) -> "NumberScorer":
        """Return what compares numbers."""
        return NumberScorer(self.options["deviation"])


class NumberScorer:
    """Compares numbers with the gold."""

    def __init__(self, deviation: float) -> None:
        self._deviation = deviation
        self._scores = NumberScores()

    def add(self, example: TextExample, answer: Answer) -> Verdict:
        """Take one number; its own score halves with the first deviation that it is off."""
        gold, given = example.score, answer["score"]
        assert gold is not None  # what is scored has gold
        parts = {"gold": gold, "given": given}
        self.take(parts)
        closeness = 1 / (1 + abs(given - gold) / self._deviation)
        return Verdict(f"{gold:g}", f"{given:.4g}", closeness, parts=parts)

    def take(self, parts: Parts) -> None:
        """Take one number by its parts."""
        self._scores.add(parts["gold"], parts["given"])

    def metrics(self) -> dict[str, float]:
        """Return the correlations and the mean distance."""
        return self._scores.metrics()

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each example adds."""
        return self._scores.statistics()

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why."""
        return self._scores.lacking


def learn_scale(examples: Sequence[TextExample]) -> Options:
    """Return the mean and the deviation of the numbers, the latter as a power of two.

    Such a factor changes no digit of a weight, so the head can be saved on its own scale.
    """
    scores = np.array([example.score for example in examples if example.score is not None])
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(scores.mean()), float(scores.std())
    if np.ptp(scores) == 0:
        raise DataError(
            f"has one score only ({scores[0]:g}), so there is nothing to learn; add examples with "
            "others"
        )
    if not 1e-30 < deviation < 1e30 or not abs(mean) < 1e30:
        raise DataError(
            f"has scores from {scores.min():g} to {scores.max():g}, more than a network can "
            "count; write them in another unit"
        )
    return {"mean": mean, "deviation": 2.0 ** round(math.log2(deviation))}
