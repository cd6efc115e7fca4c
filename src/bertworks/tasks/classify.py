"""Classify: a text or a pair of texts -> one label. Text matching is the pair with two labels."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import Example
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import cut_pair, cut_text
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Pooling
from bertworks.model.heads import TextHead
from bertworks.tasks.metrics import classification_metrics
from bertworks.tasks.task import Answer, Options
from bertworks.tokenizer.tokenizer import Tokenizer


class Classify:
    """Text or pair -> one of the labels, with the probability of each."""

    def __init__(
        self,
        labels: Sequence[str],
        *,
        name: str = "classify",
        needs_pair: bool = False,
        pooling: Pooling | None = None,
        dropout: float | None = None,
    ) -> None:
        self.name = name
        self.labels = tuple(labels)
        self.needs_pair = needs_pair
        self.options: Options = {"pooling": pooling, "dropout": dropout}  # None: the encoder's own
        self._id_of = {label: index for index, label in enumerate(self.labels)}

    def features(self, example: Example, tokenizer: Tokenizer, *, longest: int) -> list[Features]:
        """Cut the text or pair into windows that share the label and its weight."""
        if self.needs_pair and example.text_b is None:
            raise DataError(f"the task {self.name} needs a second text; add a column text_b")
        windows = _windows(example, tokenizer, longest)
        value = IGNORE if example.label is None else self._id(example)
        goal = Goal((value,), weight=1 / len(windows))
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
        """Return the summed cross-entropy, each window at its weight."""
        each = functional.cross_entropy(
            logits.float(), target.values, ignore_index=IGNORE, reduction="none"
        )
        return (each if target.weights is None else each * target.weights).sum()

    def decode(self, logits: np.ndarray, tokenizer: Tokenizer) -> Answer:
        """Average the logits of the windows and name the likeliest label."""
        mean = logits.astype(np.float64).mean(axis=0)
        shifted = np.exp(mean - mean.max())
        probabilities = shifted / shifted.sum()
        best = int(probabilities.argmax())
        return {
            "label": self.labels[best],
            "probability": float(probabilities[best]),
            "probabilities": dict(zip(self.labels, map(float, probabilities), strict=True)),
        }

    def metrics(self, answers: Sequence[Answer], examples: Sequence[Example]) -> dict[str, float]:
        """Return accuracy, F1 and MCC, and for two labels the area under the curve."""
        return classification_metrics(
            gold=[self._id(example) for example in examples],
            probabilities=np.array([list(answer["probabilities"].values()) for answer in answers]),
        )

    def _id(self, example: Example) -> int:
        if example.label not in self._id_of:
            raise DataError(
                f"the label {example.label!r} is not among those of the training data "
                f"({', '.join(self.labels[:10])}); correct it or remove the row"
            )
        return self._id_of[example.label]


def _windows(
    example: Example, tokenizer: Tokenizer, longest: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    texts = [example.text] if example.text_b is None else [example.text, example.text_b]
    pieces = [np.array(ids, dtype=np.int64) for ids in tokenizer.ids_of(texts)]
    if len(pieces) == 1:
        cut = cut_text(pieces[0], room=longest - tokenizer.specials.num_added(pair=False))
        return [join_pieces(window, None, tokenizer.specials) for window in cut]
    pairs = cut_pair(pieces[0], pieces[1], room=longest - tokenizer.specials.num_added(pair=True))
    return [join_pieces(first, second, tokenizer.specials) for first, second in pairs]
