"""Task heads: small networks from the encoder's vectors to logits.

Every task head is called as `head(hidden, batch, encoder)` and returns one logit row per target.
"""

import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import Encoder, Pooling
from bertworks.model.fused import ACTIVATIONS, decode

# In these families the heads bend by gelu, whatever the blocks do.
GELU_HEADS = {"roberta", "electra", "mpnet", "modernbert"}


class PieceHead(nn.Module):
    """Which piece stands at a hidden place: BERT's MLM head, by default tied to the embeddings."""

    def __init__(self, config: EncoderConfig, *, target: str, tied: bool = True) -> None:
        super().__init__()
        size = config.piece_size
        self.target = target
        self.transform = nn.Linear(config.hidden_size, size, bias=config.biases)
        self.activation = ACTIVATIONS["gelu" if config.family in GELU_HEADS else config.activation]
        self.norm = nn.LayerNorm(size, eps=config.norm_epsilon, bias=config.biases)
        self.decoder = None if tied else nn.Parameter(torch.zeros(config.vocab_size, size))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return logits over the vocabulary at the target's places only, [M, V]."""
        transformed = self.norm(self.activation(self.transform(_at(hidden, batch, self.target))))
        pieces = encoder.embeddings.pieces.weight if self.decoder is None else self.decoder
        return decode(transformed, pieces, self.bias)


class TokenHead(nn.Module):
    """Which label a token has: a transformed vector and a linear layer, as in ELECTRA."""

    def __init__(self, config: EncoderConfig, *, target: str, num_labels: int) -> None:
        super().__init__()
        self.target = target
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.activation]
        self.output = nn.Linear(config.hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return one row of logits for each of the target's places, [M, labels]."""
        return self.output(self.activation(self.transform(_at(hidden, batch, self.target))))


class PlaceHead(nn.Module):
    """Which label each place that is asked for has: a linear layer on its vector."""

    def __init__(
        self, config: EncoderConfig, *, target: str, num_labels: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.target = target
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(config.hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return one row of logits for each of the target's places, [M, labels]."""
        return self.output(self.dropout(_at(hidden, batch, self.target)))


class TextHead(nn.Module):
    """Which label a whole text or pair has: a linear layer on the pooled vector."""

    def __init__(
        self,
        config: EncoderConfig,
        *,
        num_labels: int,
        pooling: Pooling | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(config.hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return one row of logits per text, [N, labels]."""
        return self.output(self.dropout(encoder.pool(hidden, batch.layout, self.pooling)))


def _at(hidden: Tensor, batch: Batch, target: str) -> Tensor:
    at = batch.targets[target].at
    return hidden if at is None else hidden.index_select(0, at)
