"""Task heads: small networks from the encoder's vectors to logits.

Every task head is called as `head(hidden, batch, encoder)` and returns one logit row per target.
"""

import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch
from bertworks.model.config import EncoderConfig
from bertworks.model.embedding import VectorPooling, pool_vectors
from bertworks.model.encoder import Encoder, Pooling
from bertworks.model.fused import ACTIVATIONS, decode

# In these families the heads bend by gelu, whatever the blocks do.
GELU_HEADS = {"roberta", "electra", "mpnet", "modernbert"}
# In these families the pooler stands before the labels of single places too.
POOLED_PLACES = {"modernbert"}
# Each score between labels is one number, which the rates of fine-tuning alone would hardly move.
CHAIN_PACE = 100.0


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
        return self.logits(_at(hidden, batch, self.target), encoder.embeddings.pieces.weight)

    def logits(self, vectors: Tensor, pieces: Tensor) -> Tensor:
        """Return logits over the vocabulary, [M, D] -> [M, V], by the vectors of pieces."""
        transformed = self.norm(self.activation(self.transform(vectors)))
        return decode(transformed, pieces if self.decoder is None else self.decoder, self.bias)


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
        self, config: EncoderConfig, *, target: str, num_labels: int, dropout: float | None = 0.0
    ) -> None:
        super().__init__()
        self.target = target
        self.dropout = _dropout(config, dropout)
        self.output = nn.Linear(config.hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return one row of logits for each of the target's places, [M, labels]."""
        return self.output(self.dropout(_vectors_at(hidden, batch, encoder, self.target)))


class ChainHead(nn.Module):
    """Which label each place has after each label before it: a conditional random field.

    The first place that a window asks for has the same scores after every label: so rows tell by
    themselves where windows begin, and windows end to end are one chain that scores as they do.
    """

    def __init__(
        self, config: EncoderConfig, *, target: str, num_labels: int, dropout: float | None = 0.0
    ) -> None:
        super().__init__()
        self.target = target
        self.dropout = _dropout(config, dropout)
        self.output = nn.Linear(config.hidden_size, num_labels)
        self.beginnings = nn.Parameter(torch.zeros(num_labels))
        self.transitions = nn.Parameter(torch.zeros(num_labels * num_labels))  # row by row

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return the scores of each place's labels after each label before, [M, L * L]."""
        at = batch.targets[self.target].at
        assert at is not None  # the task names the places
        vectors = _vectors_at(hidden, batch, encoder, self.target)
        alone = self.output(self.dropout(vectors)).float()  # [M, L]
        texts = torch.searchsorted(batch.layout.starts, at.int(), right=True)
        is_first = texts != torch.cat([texts.new_full((1,), -1), texts])[:-1]
        between = self.transitions.unflatten(0, (len(self.beginnings), -1))  # [L * L] -> [L, L]
        # A window from the middle of a text asks for none of its first pieces.
        begins = (batch.positions[at] == 1)[:, None] * self.beginnings
        before = torch.where(is_first[:, None, None], begins[:, None], between)
        return (alone[:, None] + CHAIN_PACE * before).flatten(1)


class PlacesHead(nn.Module):
    """Which label several places have together: a linear layer on their vectors side by side."""

    def __init__(
        self,
        config: EncoderConfig,
        *,
        target: str,
        num_places: int,
        num_labels: int,
        dropout: float | None = 0.0,
    ) -> None:
        super().__init__()
        self.target = target
        self.dropout = _dropout(config, dropout)
        self.output = nn.Linear(num_places * config.hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return one row of logits for each row of the target's places, [M, labels]."""
        at = batch.targets[self.target].at
        assert at is not None  # the task names the places
        vectors = hidden.index_select(0, at.flatten()).view(len(at), -1)  # [M * P, D] -> [M, P * D]
        return self.output(self.dropout(vectors))


class TextHead(nn.Module):
    """Which label a whole text or pair has: a linear layer on the pooled vector."""

    def __init__(
        self,
        config: EncoderConfig,
        *,
        num_labels: int,
        pooling: Pooling | None = None,
        dropout: float | None = 0.0,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.dropout = _dropout(config, dropout)
        self.output = nn.Linear(config.hidden_size, num_labels)

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return one row of logits per text, [N, labels]."""
        return self.output(self.dropout(encoder.pool(hidden, batch.layout, self.pooling)))


class VectorHead(nn.Module):
    """What the vector of a text is: that of its tokens pooled, and nothing to learn."""

    def __init__(self, *, pooling: VectorPooling, target: str | None = None) -> None:
        super().__init__()
        self.pooling: VectorPooling = pooling
        # Its last two values are how many tokens stand before a window, and how many of its first
        # ones are not pooled; None: it does not matter.
        self.target = target

    def forward(self, hidden: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return one vector per text, [N, D]."""
        if self.target is None:
            return pool_vectors(hidden.float(), batch.layout, self.pooling)
        # Where nothing is asked for there is no number.
        places = batch.targets[self.target].values[:, -2:].nan_to_num().int()
        before, skipped = places.T.tolist()
        return pool_vectors(
            hidden.float(), batch.layout, self.pooling, skipped=skipped, before=before
        )


def _dropout(config: EncoderConfig, rate: float | None) -> nn.Dropout:
    """Make the dropout before a head's linear layer; None stands for the encoder's own rate."""
    return nn.Dropout(config.dropout if rate is None else rate)


def _at(hidden: Tensor, batch: Batch, target: str) -> Tensor:
    at = batch.targets[target].at
    return hidden if at is None else hidden.index_select(0, at)


def _vectors_at(hidden: Tensor, batch: Batch, encoder: Encoder, target: str) -> Tensor:
    """Return the vectors of the places that a target asks for, as the family labels them."""
    vectors = _at(hidden, batch, target)
    return encoder.pooler(vectors) if encoder.config.family in POOLED_PLACES else vectors
