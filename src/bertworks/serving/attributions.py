"""Which pieces of an input an answer comes from, by the gradients of its score.

`gradient-x-input` is one backward pass: how the score would change if a piece's vector grew.
`integrated-gradients` (arXiv 1703.01365) adds up gradients on the way from a baseline, the same
input with the mask in place of every piece, so that what the pieces get sums to the change.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from threading import get_ident
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from bertworks.core.device import Machine
from bertworks.core.errors import UsageError
from bertworks.data.packing import Features, flatten
from bertworks.model.encoder import Encoder
from bertworks.serving.text_pieces import TextPiece, read_input
from bertworks.tasks.answering import at_rest
from bertworks.tasks.task import Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer

Method = Literal["gradient-x-input", "integrated-gradients"]
# The kinds that make one row of logits of a whole input.
OF_WHOLE_INPUTS = (
    "classify",
    "match",
    "multilabel",
    "score",
    "aspect",
    "next_sentence",
    "sentence_order",
)


@dataclass(frozen=True)
class Share:
    """What a piece or a word adds to the score; those below 0 speak against it."""

    piece: str  # or the characters of the word
    text: int | None  # 0 or 1, which of a pair; None: a special piece
    start: int
    end: int
    score: float


@dataclass(frozen=True)
class Attribution:
    """A score and where it comes from."""

    task: str
    label: str | None  # None: the task has no labels
    method: Method
    score: float  # the label's logit, or the number itself
    baseline: float | None  # the same of the input with every piece masked; None: not compared
    pieces: tuple[Share, ...]
    words: tuple[Share, ...] = field(default=())

    @property
    def gap(self) -> float | None:
        """How far the shares are from summing to what the score is above the baseline."""
        if self.baseline is None:
            return None
        return self.score - self.baseline - sum(share.score for share in self.pieces)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Attributor:
    """A model, one of its tasks, and how its scores are explained."""

    model: TaskModel
    task: Task
    tokenizer: Tokenizer
    machine: Machine
    method: Method
    steps: int
    longest: int  # the pieces of one window, from which the task answers

    def __post_init__(self) -> None:
        if self.task.kind not in OF_WHOLE_INPUTS:
            raise UsageError(
                f"the answers of {self.task.kind} are not explained; those of "
                f"{', '.join(OF_WHOLE_INPUTS)} are"
            )
        if self.method not in get_args(Method):
            known = " or ".join(get_args(Method))
            raise UsageError(f"method {self.method!r} is not known; use {known}")
        if not isinstance(self.steps, int) or self.steps < 1:
            raise UsageError(f"steps is {self.steps!r}; it is a whole number, and the least is 1")
        if not isinstance(self.model.encoder, Encoder):
            raise UsageError(
                "this backend has no gradients; load the model with the backend torch to explain"
            )

    def attribute(self, example: Any, label: str | None = None) -> Attribution:
        """Return what each piece and word adds to a label's score; the input fits one window."""
        texts = (example.text, example.text_b)
        _, _, pieces = read_input(texts, self.tokenizer, longest=self.longest)
        (window,) = self.task.features(example, self.tokenizer, longest=self.longest)
        here = self._vectors(window.tokens)
        is_special = np.array([piece.text is None for piece in pieces])
        masked = np.where(is_special, window.tokens, self.tokenizer.specials.mask)
        away = self._vectors(masked)
        before, now = self._scores(window, torch.stack([away, here])).detach()
        column = self._column(label, now)
        if self.method == "gradient-x-input":
            (slopes,) = self._slopes(window, here[None], column)
            shares, baseline = slopes * here, None
        else:
            shares = self._integral(window, away, here, column) * (here - away)
            baseline = float(before[column])
        scored = _shares(pieces, shares.sum(-1).tolist())
        return Attribution(
            task=self.task.name,
            label=self.task.labels[column] if self.task.labels else None,
            method=self.method,
            score=float(now[column]),
            baseline=baseline,
            pieces=scored,
            words=_words(pieces, scored, texts),
        )

    def _column(self, label: str | None, scores: Tensor) -> int:
        if label is None:
            return int(scores.argmax())
        if label not in self.task.labels:
            known = ", ".join(self.task.labels) or "none"
            raise UsageError(f"there is no label {label!r} to explain; the labels are: {known}")
        return self.task.labels.index(label)

    @torch.no_grad()
    def _vectors(self, tokens: np.ndarray) -> Tensor:
        """Return the vectors of pieces before anything is added to them, [L, E]."""
        ids = torch.from_numpy(tokens.astype(np.int64)).to(self.machine.device)
        return self.model.encoder.embeddings.pieces(ids)

    def _integral(self, window: Features, away: Tensor, here: Tensor, column: int) -> Tensor:
        """Return the mean slope on the straight way between two inputs, by Gauss's rule, [L, E]."""
        places, weights = np.polynomial.legendre.leggauss(self.steps)
        count = max(1, self.machine.batch_tokens // len(here))
        mean = torch.zeros_like(here)
        for first in range(0, self.steps, count):
            part = slice(first, first + count)
            at, weight = (
                torch.tensor(values[part], dtype=here.dtype, device=here.device)[:, None, None]
                for values in ((places + 1) / 2, weights / 2)
            )
            slopes = self._slopes(window, away + at * (here - away), column)
            mean = mean + (weight * slopes).sum(0)
        return mean

    def _slopes(self, window: Features, vectors: Tensor, column: int) -> Tensor:
        """Return the gradients of a score at inputs of like shape, [S, L, E]."""
        asked = vectors.detach().requires_grad_()
        with torch.enable_grad():
            total = self._scores(window, asked)[:, column].sum()
        return torch.autograd.grad(total, asked)[0]

    def _scores(self, window: Features, vectors: Tensor) -> Tensor:
        """Return the scores of inputs whose pieces have these vectors, [S, L, E] -> [S, labels]."""
        batch = flatten([window] * len(vectors)).to(self.machine.device)
        table = self.model.encoder.embeddings.pieces
        own = get_ident()  # what other threads read meanwhile stays as it is

        def replace(module: nn.Module, given: Any, found: Tensor) -> Tensor:
            return vectors.flatten(0, 1) if get_ident() == own else found

        hook = table.register_forward_hook(replace)
        try:
            with at_rest(self.model):
                logits = self.model.logits(batch, self.task.name).float()
        finally:
            hook.remove()
        options = self.task.options
        if "prior" in options:
            return logits + logits.new_tensor(options["prior"])
        return logits if self.task.labels else logits * options["deviation"] + options["mean"]


def _shares(pieces: Sequence[TextPiece], scores: Sequence[float]) -> tuple[Share, ...]:
    return tuple(
        Share(piece.piece, piece.text, piece.start, piece.end, score)
        for piece, score in zip(pieces, scores, strict=True)
    )


def _words(
    pieces: Sequence[TextPiece], scored: Sequence[Share], texts: tuple[str, str | None]
) -> tuple[Share, ...]:
    """Add up the shares of each word's pieces; special pieces are of none."""
    words = []
    pairs = zip(pieces, scored, strict=True)
    for (number, word), group in groupby(pairs, key=lambda pair: (pair[0].text, pair[0].word)):
        own = [share for _, share in group]
        if number is None or word is None:
            continue
        start, end = min(share.start for share in own), max(share.end for share in own)
        shown = (texts[number] or "")[start:end]
        words.append(Share(shown, number, start, end, sum(share.score for share in own)))
    return tuple(words)
