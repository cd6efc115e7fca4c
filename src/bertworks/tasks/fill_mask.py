"""Fill-mask: which piece is hidden behind a mask; pre-training's first objective."""

from array import array
from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import cut_places
from bertworks.model.config import EncoderConfig
from bertworks.model.fused import cross_entropy
from bertworks.model.heads import PieceHead
from bertworks.tasks.chances import softmax
from bertworks.tasks.statistic import Statistic, mean_of
from bertworks.tasks.task import Answer, Options, Parts, Rows, Scorer, Verdict
from bertworks.tokenizer.tokenizer import Tokenizer


class FillMask:
    """Text with [MASK] in it -> the likeliest pieces for each mask."""

    kind = "fill_mask"
    labels: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        name: str = kind,
        num_candidates: int = 5,
        tied: bool = True,
        z_loss: float = 0.0,
    ) -> None:
        self.name = name
        self.num_candidates = num_candidates
        self.z_loss = z_loss  # how training is done, so not saved with the model
        self.options: Options = {"tied": tied}

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Mark the places of the masks; one that lies in two windows is asked for in the first."""
        if example.text_b is not None:
            raise DataError("fill-mask reads one text, not a pair; put both into one text")
        text = example.text.replace("[MASK]", tokenizer.mask_piece)
        pieces = np.array(tokenizer.ids_of([text])[0], dtype=np.int64)
        masks = np.flatnonzero(pieces == tokenizer.specials.mask)
        if not len(masks):
            raise DataError(
                f"the text has no {tokenizer.mask_piece}; put one where a word should be filled in"
            )
        windows = []
        room = longest - tokenizer.specials.num_added(pair=False)
        for start, end, at in cut_places(len(pieces), masks, room=room):
            tokens, segments = join_pieces(pieces[start:end], None, tokenizer.specials)
            goal = Goal(np.full(len(at), IGNORE), at + 1)  # the first piece is [CLS]
            windows.append(Features(tokens, segments, {self.name: goal}, example.line))
        return windows

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make BERT's masked-language-model head."""
        return PieceHead(config, target=self.name, tied=self.options["tied"])

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy over the hidden pieces, and in training the z-loss."""
        z_weight = self.z_loss if logits.requires_grad else 0.0  # no part of a score
        return cross_entropy(logits, target.values, z_weight=z_weight)

    def decode(
        self,
        example: TextExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Return the best candidates of every mask, best first."""
        return {"masks": [self._candidates(row, tokenizer) for rows in logits for row in rows]}

    def scorer(self) -> Scorer:
        """Return what counts first masks whose best candidate is the label, a single piece."""
        return _FirstMasks()

    def _candidates(self, logits: np.ndarray, tokenizer: Tokenizer) -> list[dict[str, object]]:
        probabilities = softmax(logits)
        named = tokenizer.named_ids  # a network may have rows to spare
        best = named[np.argsort(-probabilities[named], kind="stable")[: self.num_candidates]]
        return [
            {
                "token": tokenizer.shown(index),
                "id": index,
                "probability": float(probabilities[index]),
            }
            for index in best.tolist()
        ]


class _FirstMasks:
    def __init__(self) -> None:
        self._is_hit = array("b")

    def add(self, example: TextExample, answer: Answer) -> Verdict:
        best = answer["masks"][0][0]
        is_hit = best["token"] == example.label
        parts = {"right": is_hit}
        self.take(parts)
        return Verdict(str(example.label), best["token"], float(is_hit), best["probability"], parts)

    def take(self, parts: Parts) -> None:
        self._is_hit.append(parts["right"])

    def metrics(self) -> dict[str, float]:
        return {name: one.value for name, one in self.statistics().items()}

    def statistics(self) -> dict[str, Statistic]:
        return {"accuracy": mean_of(np.array(self._is_hit))}
