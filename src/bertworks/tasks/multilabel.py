"""Multilabel: a text or a pair of texts -> all labels that fit it, which may be none."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, Goal
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Pooling
from bertworks.tasks.claims import Claims
from bertworks.tasks.classify import (
    focused,
    in_order,
    text_head,
    text_windows,
    unknown_label,
)
from bertworks.tasks.metrics import LabelSetScores
from bertworks.tasks.statistic import Statistic
from bertworks.tasks.task import Answer, Options, Parts, Rows, Verdict
from bertworks.tokenizer.tokenizer import Tokenizer

SIDES = ("gold", "given")


@dataclass(frozen=True)
class LabelEmphasis:
    """What counts more in training."""

    weights: tuple[tuple[float, float], ...] = ()  # of each label where it is not, and where it is
    focal: float = 0.0  # how much less a label counts that is right already


class MultiLabel:
    """Text or pair -> the labels at or above a threshold, with the probability of each.

    The network itself learns how much likelier a label is than it is in general: rare labels would
    else take most of a short training only to become rare.
    """

    kind = "multilabel"

    def __init__(
        self,
        labels: Sequence[str],
        *,
        name: str = kind,
        pooling: Pooling | None = None,
        dropout: float | None = None,
        threshold: float = 0.5,
        prior: Sequence[float] = (),
    ) -> None:
        self.name = name
        self.labels = tuple(labels)
        self.options: Options = {
            "pooling": pooling,
            "dropout": dropout,
            "threshold": threshold,
            "prior": list(prior) or [0.0] * len(self.labels),  # log-odds of the labels in general
            "temperature": 1.0,
        }
        self.emphasis = LabelEmphasis()  # of training, so not saved with the model
        self._id_of = {label: index for index, label in enumerate(self.labels)}

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Cut the text or pair into windows that share the labels."""
        windows = text_windows(example, tokenizer, longest=longest)
        values = np.full((1, len(self.labels)), np.nan, np.float32)
        if example.labels is not None:
            values[0] = self.gold(example)
        goal = Goal(values, weight=1 / len(windows))
        return [Features(*window, {self.name: goal}, example.line) for window in windows]

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer on the vector of the text."""
        return text_head(config, self.options, num_labels=len(self.labels))

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed binary cross-entropy, the mean of the labels for each window."""
        gold = target.values.nan_to_num()
        soft = gold + target.smoothing * (0.5 - gold)
        moved = logits.float() + torch.tensor(self.options["prior"], device=logits.device)
        each = functional.binary_cross_entropy_with_logits(moved, soft, reduction="none")
        if self.emphasis.focal and logits.requires_grad:
            each = focused(each, self.emphasis.focal)
        if self.emphasis.weights and logits.requires_grad:
            absent, present = torch.tensor(self.emphasis.weights, device=each.device).unbind(1)
            each = each * torch.where(gold > 0, present, absent)
        rows = each.mean(1) * target.found
        return (rows if target.weights is None else rows * target.weights).sum()

    def decode(
        self,
        example: TextExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Average the logits of the windows and name every label at or above the threshold."""
        mean = np.concatenate(logits).astype(np.float64).mean(axis=0) + self.options["prior"]
        halves = mean / self.options["temperature"] / 2
        chances = dict(zip(self.labels, map(float, (1 + np.tanh(halves)) / 2), strict=True))
        threshold = self.options["threshold"]
        return {
            "labels": [label for label, chance in chances.items() if chance >= threshold],
            "probabilities": chances,
        }

    def scorer(self) -> "LabelSetScorer":
        """Return what counts labels that are right."""
        return LabelSetScorer(self)

    def tuned(self, examples: Sequence[TextExample], answers: Sequence[Answer]) -> "MultiLabel":
        """Return the task with the threshold at which the micro F1 of these answers is highest."""
        gold = np.concatenate([self.gold(example) for example in examples])
        rows = [list(answer["probabilities"].values()) for answer in answers]
        threshold = best_threshold(gold, np.concatenate(rows), usual=self.options["threshold"])
        return self._changed(threshold=threshold)

    def with_temperature(self, temperature: float) -> "MultiLabel":
        """Return the task whose log-odds are divided by a temperature."""
        return self._changed(temperature=temperature)

    def gold(self, example: TextExample) -> np.ndarray:
        """Tell of each label whether an example has it, [labels] bool."""
        found = np.zeros(len(self.labels), bool)
        for label in example.labels or ():
            if label not in self._id_of:
                raise unknown_label(label, self.labels)
            found[self._id_of[label]] = True
        return found

    def _changed(self, **options: float) -> "MultiLabel":
        changed = copy(self)
        changed.options = self.options | options
        return changed


def make_multilabel(
    labels: Sequence[str], *, emphasis: LabelEmphasis | None = None, **options: Any
) -> MultiLabel:
    """Return the task for labels and options, perhaps with an emphasis of its training."""
    made = MultiLabel(labels, **options)
    made.emphasis = emphasis or made.emphasis
    return made


class LabelSetScorer:
    """Counts labels that are right, label by label and as whole sets."""

    def __init__(self, task: MultiLabel) -> None:
        self._task = task
        self._scores = LabelSetScores(len(task.labels))

    def add(self, example: TextExample, answer: Answer) -> Verdict:
        """Count the labels of one answer."""
        gold, chances = self._task.gold(example), answer["probabilities"]
        given = np.array(list(chances.values())) >= self._task.options["threshold"]
        parts = {
            "gold": np.flatnonzero(gold).tolist(),
            "given": np.flatnonzero(given).tolist(),
            "chances": list(chances.values()),
        }
        self.take(parts)
        of_gold, of_answer = (self._shown(chosen) for chosen in (gold, given))
        least_sure = min(max(chance, 1 - chance) for chance in chances.values())
        claims = Claims.each(parts["chances"], gold)
        is_right = float((gold == given).all())
        return Verdict(of_gold, of_answer, is_right, least_sure, parts, claims, of_gold)

    def take(self, parts: Parts) -> None:
        """Count a set of labels by its parts."""
        gold, given = (np.isin(np.arange(len(self._task.labels)), parts[k]) for k in SIDES)
        self._scores.add(gold, given, parts["chances"])

    def metrics(self) -> dict[str, float]:
        """Return the scores of all labels."""
        return self._scores.metrics()

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each example adds."""
        return self._scores.statistics()

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why."""
        return self._scores.lacking

    def by_label(self) -> dict[str, dict[str, float]]:
        """Return the scores of each label."""
        return dict(zip(self._task.labels, self._scores.by_label(), strict=True))

    def label_statistics(self) -> dict[str, Statistic]:
        """Return the F1 of each label."""
        return dict(zip(self._task.labels, self._scores.label_statistics(), strict=True))

    def _shown(self, chosen: np.ndarray) -> str:
        names = (label for label, is_one in zip(self._task.labels, chosen, strict=True) if is_one)
        return ", ".join(names) or "none"


def best_threshold(gold: np.ndarray, chances: np.ndarray, *, usual: float) -> float:
    """Return the threshold with the highest F1, midway between two chances.

    Where nothing is gold, every threshold is as good as the usual one.
    """
    if not gold.any():
        return usual
    order = np.argsort(-chances, kind="stable")
    ordered, hits = chances[order], gold[order].cumsum()
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + gold.sum())
    is_last = np.append(np.diff(ordered) < 0, True)  # of its equals, which come together
    best = int(np.where(is_last, f1, -1.0).argmax())
    below = ordered[best + 1] if best + 1 < len(ordered) else 0.0
    return float((ordered[best] + below) / 2)


def learn_label_sets(
    examples: Sequence[TextExample],
    *,
    order: Sequence[str] = (),
    class_weights: str | None = None,
    focal: float = 0.0,
) -> Options:
    """Return the labels in use, numbers in their order and names in theirs.

    Balanced class weights let a label count as much where it is as where it is not.
    """
    sets = [example.labels for example in examples if example.labels is not None]
    labels = in_order({label for found in sets for label in found}, order)
    if not labels:
        raise DataError("has no label at all, so there is nothing to find; add examples with some")
    if len({frozenset(found) for found in sets}) == 1:
        shown = ", ".join(labels[:5]) + ", …" * (len(labels) > 5)
        raise DataError(
            f"has the same labels on every row ({shown}), so there is nothing to tell apart; add "
            "examples with others, or with none"
        )
    counts = np.array([sum(label in found for found in sets) for label in labels])
    others = len(sets) - counts
    if class_weights == "balanced":
        halves = len(sets) / 2 / np.stack([np.maximum(others, 1), counts], axis=1)
        emphasis = LabelEmphasis(tuple((no, yes) for no, yes in halves.tolist()), focal)
        return {"labels": labels, "emphasis": emphasis}  # as if labels were as common as not
    prior = np.log((counts + 0.5) / (others + 0.5)).tolist()
    return {"labels": labels, "prior": prior, "emphasis": LabelEmphasis((), focal)}
