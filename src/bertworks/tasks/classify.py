"""Classify: a text or a pair of texts -> one label. Text matching is the pair with two labels."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
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
from bertworks.tasks.metrics import LabelScores
from bertworks.tasks.task import Answer, Options, Rows, Verdict
from bertworks.tokenizer.tokenizer import Tokenizer

OF_PAIRS = {"match", "next_sentence", "sentence_order"}  # the kinds that need a second text


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
        self.options: Options = {"pooling": pooling, "dropout": dropout}  # None: the encoder's own
        self.emphasis = emphasis or Emphasis()  # of training, so not saved with the model
        self._id_of = {label: index for index, label in enumerate(self.labels)}

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Cut the text or pair into windows that share the label and its weight."""
        if self.kind in OF_PAIRS and example.text_b is None:
            raise DataError(f"the task {self.name} needs a second text; add a column text_b")
        windows = _windows(example, tokenizer, longest)
        value = IGNORE if example.label is None else self._id(example)
        goal = Goal((value,), weight=self.emphasis.of(value) / len(windows))
        return [Features(*window, {self.name: goal}, example.line) for window in windows]

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer on the vector of the text."""
        pooling, dropout = self.options["pooling"], self.options["dropout"]
        return TextHead(
            config,
            num_labels=len(self.labels),
            pooling=pooling,
            dropout=config.dropout if dropout is None else dropout,
        )

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy, each window at its weight; sure ones may count less."""
        each = functional.cross_entropy(
            logits.float(), target.values, ignore_index=IGNORE, reduction="none"
        )
        if self.emphasis.focal and logits.requires_grad:
            each = each * (1 - (-each).exp()) ** self.emphasis.focal
        return (each if target.weights is None else each * target.weights).sum()

    def decode(
        self,
        example: TextExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Average the logits of the windows and name the likeliest label."""
        mean = np.concatenate(logits).astype(np.float64).mean(axis=0)
        shifted = np.exp(mean - mean.max())
        probabilities = shifted / shifted.sum()
        best = int(probabilities.argmax())
        return {
            "label": self.labels[best],
            "probability": float(probabilities[best]),
            "probabilities": dict(zip(self.labels, map(float, probabilities), strict=True)),
        }

    def scorer(self) -> "LabelScorer":
        """Return what counts right labels."""
        return LabelScorer(self._id, len(self.labels))

    def _id(self, example: TextExample) -> int:
        if example.label not in self._id_of:
            raise DataError(
                f"the label {example.label!r} is not among those of the training data "
                f"({', '.join(self.labels[:10])}); correct it or remove the row"
            )
        return self._id_of[example.label]


class LabelScorer:
    """Counts labels that are right."""

    def __init__(self, id_of: Callable[[TextExample], int], num_labels: int) -> None:
        self._id_of = id_of
        self._scores = LabelScores(num_labels)

    def add(self, example: TextExample, answer: Answer) -> Verdict:
        """Count one label."""
        gold = self._id_of(example)
        given = self._scores.add(gold, list(answer["probabilities"].values()))
        return Verdict(
            str(example.label), answer["label"], float(given == gold), answer["probability"]
        )

    def metrics(self) -> dict[str, float]:
        """Return the scores of all labels."""
        return self._scores.metrics()


def _windows(
    example: TextExample, tokenizer: Tokenizer, longest: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    texts = [example.text] if example.text_b is None else [example.text, example.text_b]
    pieces = [np.array(ids, dtype=np.int64) for ids in tokenizer.ids_of(texts)]
    if len(pieces) == 1:
        cut = cut_text(pieces[0], room=longest - tokenizer.specials.num_added(pair=False))
        return [join_pieces(window, None, tokenizer.specials) for window in cut]
    pairs = cut_pair(pieces[0], pieces[1], room=longest - tokenizer.specials.num_added(pair=True))
    return [join_pieces(first, second, tokenizer.specials) for first, second in pairs]


def learn_labels(
    examples: Sequence[TextExample], *, class_weights: str | None = None, focal: float = 0.0
) -> Options:
    """Return the labels in use, numbers in their order and names in theirs.

    Balanced class weights let every label count as much as any other in all.
    """
    found = {example.label for example in examples if example.label is not None}
    labels = sorted(found, key=lambda name: (not name.isdecimal(), _number(name), name))
    if len(labels) < 2:
        raise DataError(
            f"has one label only ({labels[0]!r}), so there is nothing to tell apart; add examples "
            "of another"
        )
    weights: tuple[float, ...] = ()
    if class_weights == "balanced":
        counts = Counter(example.label for example in examples)
        weights = tuple(len(examples) / len(labels) / counts[name] for name in labels)
    return {"labels": tuple(labels), "emphasis": Emphasis(weights, focal)}


def _number(name: str) -> int:
    return int(name) if name.isdecimal() else 0
