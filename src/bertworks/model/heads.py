"""Task heads: small networks from the encoder's vectors to logits.

Every task head is called as `head(hidden, batch, encoder)` and returns one logit row per target.
"""

from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Batch
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import ACTIVATIONS, Encoder


class PieceHead(nn.Module):
    """Which piece stands at a hidden place: BERT's MLM head, tied to the piece embeddings."""

    def __init__(self, config: EncoderConfig, *, target: str) -> None:
        super().__init__()
        self.target = target
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_epsilon)
        self.bias = nn.Parameter(Tensor(config.vocab_size).zero_())

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return logits over the vocabulary at the target's places only, [M, V]."""
        at = batch.targets[self.target].at
        chosen = hidden if at is None else hidden.index_select(0, at)
        transformed = self.norm(self.activation(self.transform(chosen)))
        return functional.linear(transformed, encoder.embeddings.pieces.weight, self.bias)


class TextHead(nn.Module):
    """Which label a whole text or pair has: a linear layer on BERT's pooled vector."""

    def __init__(self, config: EncoderConfig, *, num_labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(config.hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return one row of logits per text, [N, labels]."""
        return self.output(self.dropout(encoder.pool(hidden, batch.layout)))
