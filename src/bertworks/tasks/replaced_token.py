"""Replaced-token detection: which tokens of a text do not belong; ELECTRA's objective."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import TextExample
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import cut_places
from bertworks.model.config import EncoderConfig
from bertworks.model.heads import TokenHead
from bertworks.tasks.task import Answer, Options, Rows, Scorer
from bertworks.tokenizer.tokenizer import Tokenizer


class ReplacedToken:
    """Text -> for each of its pieces, the probability that it was put in the place of another."""

    kind = "replaced_token"
    labels: tuple[str, ...] = ()

    def __init__(self, *, name: str = kind) -> None:
        self.name = name
        self.options: Options = {}

    def features(
        self, example: TextExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Ask for every piece; one that lies in two windows is asked for in the first."""
        if example.text_b is not None:
            raise DataError("replaced_token reads one text, not a pair; put both into one text")
        pieces = np.array(tokenizer.ids_of([example.text])[0], dtype=np.int64)
        windows = []
        room = longest - tokenizer.specials.num_added(pair=False)
        for start, end, at in cut_places(len(pieces), np.arange(len(pieces)), room=room):
            tokens, segments = join_pieces(pieces[start:end], None, tokenizer.specials)
            goal = Goal(np.full(len(at), IGNORE), at + 1)  # the first piece is [CLS]
            windows.append(Features(tokens, segments, {self.name: goal}, example.line))
        return windows

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make ELECTRA's discriminator head."""
        return TokenHead(config, target=self.name, num_labels=1)

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed binary cross-entropy; 1 stands for a piece that was put in."""
        counts = target.values != IGNORE
        gold = target.values.clamp(min=0).float()
        each = functional.binary_cross_entropy_with_logits(
            logits.float().squeeze(-1), gold, reduction="none"
        )
        return (each * counts).sum()

    def decode(
        self,
        example: TextExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Return the probability of each piece, in order."""
        probabilities = (1 + np.tanh(np.concatenate(logits)[:, 0].astype(np.float64) / 2)) / 2
        return {"replaced": [float(probability) for probability in probabilities]}

    def scorer(self) -> Scorer:
        """Say that labelled examples do not tell which pieces were replaced."""
        raise DataError(
            "replaced_token cannot be scored on examples: they do not say which pieces were "
            "replaced; use predict"
        )
