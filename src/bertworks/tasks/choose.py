"""Choose: a question, perhaps about a passage, and choices -> one of them."""

from array import array
from collections.abc import Sequence
from copy import copy

import numpy as np
from torch import Tensor, nn

from bertworks.core.batch import Target
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import ChoiceExample
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import View, cut_beside
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Pooling
from bertworks.model.groups import grouped_log_softmax
from bertworks.tasks.chances import softmax
from bertworks.tasks.claims import Claims
from bertworks.tasks.classify import text_head
from bertworks.tasks.statistic import Statistic, mean_of
from bertworks.tasks.task import Answer, Options, Parts, Rows, Verdict
from bertworks.tokenizer.tokenizer import Tokenizer

CUT_CHOICE = "no window shows the whole choice and what stands before it; raise --longest"


class Choose:
    """Question and choices -> one of the choices, with the probability of each."""

    kind = "choose"
    labels: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        name: str = kind,
        pooling: Pooling | None = None,
        dropout: float | None = None,
        stride: int | None = None,
    ) -> None:
        self.name = name
        self.options: Options = {
            "pooling": pooling,
            "dropout": dropout,
            "stride": stride,
            "temperature": 1.0,
        }

    def features(
        self, example: ChoiceExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Make a text of each choice in each window; those of a window are weighed together.

        Windows slide over the passage, with question and choice behind each; or over the question.
        """
        long, texts = example.question, list(example.choices)
        if example.passage is not None:
            long, texts = example.passage, [f"{example.question} {choice}" for choice in texts]
        pieces, *kept = (np.array(ids, dtype=np.int64) for ids in tokenizer.ids_of([long, *texts]))
        room = longest - tokenizer.specials.num_added(pair=True)
        shown, spans = cut_beside(kept, len(pieces), room=room, step=self.options["stride"])
        is_cut = any(len(a) < len(b) for a, b in zip(shown, kept, strict=True))
        losses = (CUT_CHOICE,) * is_cut
        windows = []
        for number, (start, end) in enumerate(spans):
            for index, choice in enumerate(shown):
                value = IGNORE if example.label is None else int(index == example.label)
                goal = Goal((value,), weight=1 / len(spans), group=number)
                joined = join_pieces(pieces[start:end], choice, tokenizer.specials)
                view = View(start, losses)
                windows.append(Features(*joined, {self.name: goal}, example.line, view))
        return windows

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer that says how well a choice fits."""
        return text_head(config, self.options, num_labels=1)

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy of the right choice among those of its window."""
        assert target.groups is not None  # our features have them
        chances = grouped_log_softmax(logits.float().squeeze(-1), target.groups)
        wanted = chances * target.softened(target.values.clamp(min=0))
        return -(wanted if target.weights is None else wanted * target.weights).sum()

    def decode(
        self,
        example: ChoiceExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Average what the windows say of each choice and name the likeliest."""
        rows = np.concatenate(logits).astype(np.float64).reshape(-1, len(example.choices))
        probabilities = softmax(rows.mean(axis=0), temperature=self.options["temperature"])
        best = int(probabilities.argmax())
        return {
            "choice": best,
            "text": example.choices[best],
            "probability": float(probabilities[best]),
            "probabilities": [float(probability) for probability in probabilities],
        }

    def scorer(self) -> "ChoiceScorer":
        """Return what counts right choices."""
        return ChoiceScorer()

    def with_temperature(self, temperature: float) -> "Choose":
        """Return the task whose logits are divided by a temperature."""
        changed = copy(self)
        changed.options = self.options | {"temperature": temperature}
        return changed


class ChoiceScorer:
    """Counts choices that are right."""

    def __init__(self) -> None:
        self._is_right = array("b")

    def add(self, example: ChoiceExample, answer: Answer) -> Verdict:
        """Count one choice; of two that are the same, both are right."""
        assert example.label is not None  # examples without a label are not scored
        gold = example.choices[example.label]
        is_right = answer["text"] == gold
        parts = {"right": is_right}
        self.take(parts)
        sought = answer["choice"] if is_right else example.label
        claims = Claims.choice(answer["probabilities"], sought)
        return Verdict(gold, answer["text"], float(is_right), answer["probability"], parts, claims)

    def take(self, parts: Parts) -> None:
        """Count one choice by its parts."""
        self._is_right.append(parts["right"])

    def metrics(self) -> dict[str, float]:
        """Return the share of right choices."""
        return {"accuracy": self._is_right.count(1) / len(self._is_right)}

    def statistics(self) -> dict[str, Statistic]:
        """Return the share with what each example adds."""
        return {"accuracy": mean_of(np.array(self._is_right))}


def learn_choices(examples: Sequence[ChoiceExample]) -> Options:
    """Return nothing: the examples have nothing to tell, for their choices differ."""
    return {}
