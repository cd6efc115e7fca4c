"""Classify: a text or a pair of texts -> one label. Text matching is the pair with two labels."""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import cut_pair, cut_text
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Pooling
from bertworks.model.heads import TextHead
from bertworks.tasks.chances import likeliest_label
from bertworks.tasks.claims import Claims
from bertworks.tasks.metrics import LabelScores
from bertworks.tasks.statistic import Statistic
from bertworks.tasks.task import Answer, Options, Parts, Rows, Verdict
from bertworks.tokenizer.tokenizer import Tokenizer

# The kinds that need a second text.
OF_PAIRS = {"match", "next_sentence", "sentence_order", "aspect"}
# The metrics that come before all others; by default accuracy.
FIRST_METRICS = {"aspect": ("accuracy", "macro_f1"), "relate": ("macro_f1", "accuracy")}

LEAST_WRONG = 1e-12  # of a label that is right


@dataclass(frozen=True)
class Emphasis:
    """What counts more in training."""

    weights: tuple[float, ...] = ()  # of the labels; by default all count alike
    focal: float = 0.0  # how much less an example counts that is right already

    def of(self, label: int) -> float:
        """Return how much an example of a label counts."""
        return self.weights[label] if self.weights and label != IGNORE else 1.0


class Classify:
    """Text or pair -> one of the labels, with the probability of each."""

    def __init__(
        self,
        labels: Sequence[str],
        *,
        kind: str = "classify",
        name: str | None = None,
        pooling: Pooling | None = None,
        dropout: float | None = None,
        emphasis: "Emphasis | None" = None,
    ) -> None:
        self.kind = kind
        self.name = name or kind
        self.labels = tuple(labels)
        self.options: Options = {
            "pooling": pooling,  # None: the encoder's own
            "dropout": dropout,
            "temperature": 1.0,
        }
        self.emphasis = emphasis or Emphasis()  # of training, so not saved with the model
        self._ids = {label: index for index, label in enumerate(self.labels)}

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Cut the text or pair into windows that share the label and its weight."""
        if self.kind in OF_PAIRS and example.text_b is None:
            raise lacks_second(self.name)
        windows = text_windows(example, tokenizer, longest=longest)
        value = IGNORE if example.label is None else self.id_of(example.label)
        goal = Goal((value,), weight=self.emphasis.of(value) / len(windows))
        return [Features(*window, {self.name: goal}, example.line) for window in windows]

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer on the vector of the text."""
        return text_head(config, self.options, num_labels=len(self.labels))

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy, each window at its weight; sure ones may count less."""
        each = functional.cross_entropy(
            logits.float(),
            target.values,
            ignore_index=IGNORE,
            reduction="none",
            label_smoothing=target.smoothing,
        )
        if self.emphasis.focal and logits.requires_grad:
            each = focused(each, self.emphasis.focal)
        return (each if target.weights is None else each * target.weights).sum()

    def decode(
        self,
        example: Any,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Average the logits of the windows and name the likeliest label."""
        mean = np.concatenate(logits).astype(np.float64).mean(axis=0)
        return likeliest_label(self.labels, mean, temperature=self.options["temperature"])

    def scorer(self) -> "LabelScorer":
        """Return what counts right labels."""
        return LabelScorer(self, first=FIRST_METRICS.get(self.kind, ()))

    def with_temperature(self, temperature: float) -> "Classify":
        """Return the task whose logits are divided by a temperature."""
        changed = copy(self)
        changed.options = self.options | {"temperature": temperature}
        return changed

    def id_of(self, label: str) -> int:
        """Return the number of a label."""
        if label not in self._ids:
            raise unknown_label(label, self.labels)
        return self._ids[label]


class Labelled(Protocol):
    """What has labels and numbers them."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of their numbers."""

    def id_of(self, label: str) -> int:
        """Return the number of a label."""


class LabelScorer:
    """Counts labels that are right."""

    def __init__(self, task: Labelled, *, first: Sequence[str] = ()) -> None:
        self._task = task
        self._first = first  # the metrics that come before all others
        self._scores = LabelScores(len(task.labels))

    def add(self, example: Any, answer: Answer) -> Verdict:
        """Count one label."""
        gold, chances = self._task.id_of(example.label), list(answer["probabilities"].values())
        parts = {"gold": gold, "chances": chances}
        self.take(parts)
        return Verdict(
            str(example.label),
            answer["label"],
            float(answer["label"] == example.label),
            answer["probability"],
            parts,
            Claims.choice(chances, gold),
            str(example.label),
        )

    def take(self, parts: Parts) -> None:
        """Count a label by its parts."""
        self._scores.add(parts["gold"], parts["chances"])

    def metrics(self) -> dict[str, float]:
        """Return the scores of all labels."""
        return {name: one.value for name, one in self.statistics().items()}

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each example adds."""
        found = self._scores.statistics()
        return {name: found[name] for name in self._first if name in found} | found

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


def text_windows(
    example: TextExample, tokenizer: Tokenizer, *, longest: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return tokens and segments of the windows of a text or pair."""
    texts = [example.text] if example.text_b is None else [example.text, example.text_b]
    pieces = [np.array(ids, dtype=np.int64) for ids in tokenizer.ids_of(texts)]
    if len(pieces) == 1:
        cut = cut_text(pieces[0], room=longest - tokenizer.specials.num_added(pair=False))
        return [join_pieces(window, None, tokenizer.specials) for window in cut]
    pairs = cut_pair(pieces[0], pieces[1], room=longest - tokenizer.specials.num_added(pair=True))
    return [join_pieces(first, second, tokenizer.specials) for first, second in pairs]


def text_head(config: EncoderConfig, options: Options, *, num_labels: int) -> TextHead:
    """Make a linear layer on the vector of a text, as the options say."""
    return TextHead(
        config,
        num_labels=num_labels,
        pooling=options["pooling"],
        dropout=options["dropout"],
    )


def unknown_label(label: str, known: Sequence[str]) -> DataError:
    """Return the error of a label that was not learned."""
    return DataError(
        f"the label {label!r} is not among those of the training data "
        f"({', '.join(known[:10])}); correct it or remove the row"
    )


def lacks_second(task: str) -> DataError:
    """Return the error of a single text where a pair is needed."""
    return DataError(f"the task {task} needs a second text; add a column text_b")


def focused(losses: Tensor, focal: float) -> Tensor:
    """Return losses of which those count less that are small already."""
    # At zero the root of a number is infinitely steep.
    wrong = (-torch.expm1(-losses)).clamp(min=LEAST_WRONG)
    return losses * wrong**focal


def learn_labels(
    examples: Sequence[Any],
    *,
    order: Sequence[str] = (),
    class_weights: str | None = None,
    focal: float = 0.0,
) -> Options:
    """Return the labels in use, numbers in their order and names in theirs.

    Balanced class weights let every label count as much as any other in all.
    """
    labels = in_order({example.label for example in examples if example.label is not None}, order)
    if len(labels) < 2:
        raise DataError(
            f"has one label only ({labels[0]!r}), so there is nothing to tell apart; add examples "
            "of another"
        )
    weights: tuple[float, ...] = ()
    if class_weights == "balanced":
        counts = Counter(example.label for example in examples)
        weights = tuple(len(examples) / len(labels) / counts[name] for name in labels)
    return {"labels": labels, "emphasis": Emphasis(weights, focal)}


def in_order(labels: set[str], order: Sequence[str] = ()) -> tuple[str, ...]:
    """Return labels in an order of the same ones, or numbers in theirs and before names."""
    if labels == {*order}:
        return tuple(order)
    return tuple(sorted(labels, key=lambda name: (not _is_number(name), _number(name), name)))


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


def _number(name: str) -> int:
    return int(name) if _is_number(name) else 0
