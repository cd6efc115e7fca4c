"""The encoder of every family on flat batches, in one scroll.

Legend: T tokens, N texts, D hidden, E piece vector, H attention heads, K head size.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Batch, Layout
from bertworks.core.seeds import derive
from bertworks.model.attention import Sight, attend, look_plainly
from bertworks.model.config import Bucketed, EncoderConfig, Learned, Rotary, Waves
from bertworks.model.fused import Norm, expand_and_bend
from bertworks.model.mixers import Convolution, Recurrence
from bertworks.model.positions import DistanceScores, Turn, turn_at, waves_at
from bertworks.model.recall import Recall

Pooling = Literal["mean", "first", "max"]
DEVIATION = 0.02  # of fresh weights


class Encoder(nn.Module):
    """Texts in, one vector per token out; and, through the pooler, one per text."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.distances = _distances(config)
        self.blocks = nn.ModuleList(Block(config, number) for number in range(config.num_blocks))
        self.norm = make_norm(config) if config.norm_place == "before" else nn.Identity()
        self.pooler = Pooler(config)
        self.keeps_pooler = False  # whether it came with the weights: something may have trained it

    def forward(self, batch: Batch) -> Tensor:
        """Return the last layer's vectors, [T, D]."""
        for passing in self._pass(batch):
            hidden = passing.hidden
        return hidden

    def layers(self, batch: Batch) -> Iterator[Tensor]:
        """Yield the vectors that enter the first layer and those behind each, [T, D] each.

        Where norms come before, only the last ones are normed, as in other libraries.
        """
        for passing in self._pass(batch):
            yield passing.residual if passing.block is not None else passing.hidden

    def attention(self, batch: Batch) -> Iterator[list[Tensor]]:
        """Yield for each layer how much the tokens of each text look at each other, [H, L, L]."""
        for passing in self._pass(batch):
            if passing.block is not None:
                mixer = cast(SelfAttention, passing.block.mixer)
                yield mixer.weights(passing.hidden, cast(Sight, passing.sight))

    def _pass(self, batch: Batch) -> Iterator["Passing"]:
        """Yield what each layer reads, and at last what the network gives."""
        return self.walk(self.embeddings(batch), self.sights(batch))

    def walk(self, residual: Tensor, sights: Sequence[Sight | Recall]) -> Iterator["Passing"]:
        """Yield what each layer reads of vectors that enter the first, and at last the result."""
        blocks = [cast(Block, self.blocks[number]) for number in self.config.block_order]
        hidden = blocks[0].entrance(residual)
        for layer, (block, sight) in enumerate(zip(blocks, sights, strict=True)):
            yield Passing(residual, hidden, sight, block)
            last = norm_after(blocks, layer, last=self.norm)
            residual, hidden = block(residual, hidden, sight, last=last)
        yield Passing(residual, hidden, sights[0], None)

    def pool(self, hidden: Tensor, layout: Layout, pooling: Pooling | None = None) -> Tensor:
        """Return one vector for each text, [T, D] -> [N, D]; by default as its mixer allows."""
        return self.pooler(pool_texts(hidden, layout, pooling or self.config.own_pooling))

    def sights(self, batch: Batch) -> list[Sight]:
        """Return what each layer sees."""
        full, near = self._far_and_near(batch)
        count = len(self.config.block_order)
        return [near if self.config.is_local(layer) else full for layer in range(count)]

    def _far_and_near(self, batch: Batch) -> tuple[Sight, Sight]:
        """Return what a layer sees of the whole text, and of its neighbours."""
        layout, config = batch.layout, self.config
        turn, near_turn = self._turns(batch)
        scores = None if self.distances is None else self.distances(layout.longest)
        full = Sight(
            layout,
            turn=turn,
            scores=scores,
            is_causal=batch.is_causal,
            prefixes=batch.prefixes,
        )
        if config.local is None:
            return full, full
        return full, Sight(layout, window=config.local.window, turn=near_turn)

    def _turns(self, batch: Batch) -> tuple[Turn | None, Turn | None]:
        """Return the angles of rotary positions, in layers that see all and in local ones."""
        kind, places = self.config.positions, (batch.positions, batch.layout.longest)
        full = turn_at(self.config, *places)
        if not isinstance(kind, Rotary) or self.config.local is None:
            return full, full
        is_same = kind.local_base == kind.base
        return full, full if is_same else turn_at(self.config, *places, is_local=True)


@dataclass(frozen=True)
class Passing:
    """A batch between two layers."""

    residual: Tensor  # [T, D]
    hidden: Tensor  # [T, D] the same, normed where norms come before
    sight: Sight | Recall
    block: "Block | None"  # what reads it next; None: it is the end


class Embeddings(nn.Module):
    """The sum of piece, position and segment vectors, normed, and widened where they are narrow."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size = config.piece_size
        self.pieces = _table(config.vocab_size, size)
        has_places = isinstance(config.positions, Learned | Bucketed)
        self.positions = _table(config.max_positions, size) if has_places else None
        self.has_waves = isinstance(config.positions, Waves)
        self.segments = _table(config.num_segments, size) if config.num_segments else None
        self.norm = make_norm(config, size)
        self.dropout = nn.Dropout(config.dropout)
        is_narrow = config.embedding_size is not None
        self.widen = nn.Linear(size, config.hidden_size) if is_narrow else nn.Identity()

    def forward(self, batch: Batch) -> Tensor:
        """Return the vectors that enter the first block, [T, D]."""
        return self.look_up(batch.tokens, batch.positions, batch.segments)

    def look_up(self, tokens: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """Return the vectors of tokens at places of the texts of a pair, [T, D]."""
        hidden = self.pieces(tokens)
        if self.positions is not None:
            hidden = hidden + self.positions(positions)
        if self.has_waves:
            # Scaled, as waves reach from -1 to 1 and fresh vectors hardly leave zero.
            size = hidden.shape[-1]
            hidden = hidden * size**0.5 + waves_at(positions, size).to(hidden.dtype)
        if self.segments is not None:
            last = self.segments.num_embeddings - 1
            hidden = hidden + self.segments(segments.clamp(max=last))
        return self.widen(self.dropout(self.norm(hidden)))


class Block(nn.Module):
    """A mixer between tokens and a feed-forward for each, both added to what they read."""

    def __init__(self, config: EncoderConfig, number: int) -> None:
        super().__init__()
        self.norms_first = config.norm_place == "before"
        self.mixer = MIXERS[config.mixer](config, number) if config.mixer != "mean" else None
        # Where the norm comes before, that of the embeddings serves a block that reads only them.
        is_first = number == 0 and config.sharing is None and config.embedding_size is None
        is_normed = self.mixer is None or (self.norms_first and is_first)
        self.mixer_norm = nn.Identity() if is_normed else make_norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = make_norm(config)
        self.dropout = config.dropout

    @property
    def entrance(self) -> nn.Module:
        """The norm of what the block reads, where norms come before."""
        if not self.norms_first:
            return nn.Identity()
        return self.feed_forward_norm if self.mixer is None else self.mixer_norm

    def forward(
        self,
        residual: Tensor,
        hidden: Tensor,
        sight: Sight | Recall,
        *,
        last: Norm,
        reader: "Reader | None" = None,
    ) -> tuple[Tensor, Tensor]:
        """Add what is learned from `hidden` to the residual; return both after the last norm."""
        dropout = self.dropout if self.training else 0.0
        before_last = self.feed_forward_norm if reader is None else reader.norm
        if self.mixer is not None:
            norm = before_last if self.norms_first else cast(Norm, self.mixer_norm)
            residual, hidden = norm.add(residual, self.mixer(hidden, sight), dropout=dropout)
        if reader is not None:
            norm = self.feed_forward_norm if self.norms_first else reader.norm
            residual, hidden = norm.add(residual, reader.read(hidden), dropout=dropout)
        return last.add(residual, self.feed_forward(hidden), dropout=dropout)


class Reader(Protocol):
    """What looks at another text between the mixer and the feed-forward of a block."""

    norm: Norm

    def read(self, hidden: Tensor) -> Tensor:
        """Return what each token gathered from the other text, [T, D] -> [T, D]."""


def norm_after(blocks: Sequence[Block], layer: int, *, last: nn.Module) -> Norm:
    """Return the norm that ends a layer: where norms come before, that of the next one."""
    if not blocks[layer].norms_first:
        return blocks[layer].feed_forward_norm
    return cast(Norm, last if layer + 1 == len(blocks) else blocks[layer + 1].entrance)


class SelfAttention(nn.Module):
    """Multi-head attention of each text to itself."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.num_heads = config.num_heads
        self.dropout = config.attention_dropout
        self.qkv = nn.Linear(size, 3 * size, bias=config.biases)
        self.output = nn.Linear(size, size, bias=config.biases)

    def forward(self, hidden: Tensor, sight: Sight | Recall) -> Tensor:
        """Return what each token gathered from its text, [T, D] -> [T, D]."""
        qkv = self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1))  # [T, 3, H, K]
        gathered = attend(qkv, sight, dropout=self.dropout if self.training else 0.0)
        return self.output(gathered.flatten(1))  # [T, H, K] -> [T, D]

    def weights(self, hidden: Tensor, sight: Sight) -> list[Tensor]:
        """Return how much each token looks at each other one of its text, [H, L, L] for each."""
        return look_plainly(self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1)), sight)


class FeedForward(nn.Module):
    """Two linear layers with a bend between them; gated, half of the first scales the other."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size, inner = config.hidden_size, config.feed_forward_size
        self.gated = config.gated
        self.activation = config.activation
        self.expand = nn.Linear(size, 2 * inner if config.gated else inner, bias=config.biases)
        self.contract = nn.Linear(inner, size, bias=config.biases)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return each token's vector rethought, [T, D] -> [T, D]."""
        bent = expand_and_bend(hidden, self.expand, self.activation, gated=self.gated)
        return self.contract(bent)


class Pooler(nn.Module):
    """What a family makes of the vector of a text before a task head reads it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.biases)
        self.activation = POOLER_BENDS[config.pooler_bend]
        self.norm = make_norm(config) if config.family == "modernbert" else nn.Identity()

    def forward(self, pooled: Tensor) -> Tensor:
        """Return the vector of each text, [N, D] -> [N, D]."""
        return self.norm(self.activation(self.dense(pooled)))


MIXERS: dict[str, Callable[[EncoderConfig, int], nn.Module]] = {
    "attention": SelfAttention,
    "recurrent": Recurrence,
    "convolution": Convolution,
}
POOLER_BENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "gelu": functional.gelu,
}


def pool_texts(hidden: Tensor, layout: Layout, pooling: Pooling) -> Tensor:
    """Make one vector of each text's tokens, [T, D] -> [N, D]."""
    if pooling == "first":
        return hidden.index_select(0, layout.first_tokens())
    lengths = torch.tensor(layout.lengths, device=hidden.device)
    return torch.segment_reduce(hidden, pooling, lengths=lengths, axis=0)


def _table(num_rows: int, size: int) -> nn.Embedding:
    """Make an embedding without drawing its weights, which is done later or never."""
    return nn.Embedding.from_pretrained(torch.empty(num_rows, size), freeze=False)


def make_norm(config: EncoderConfig, size: int | None = None) -> Norm:
    """Make a norm as the family has them."""
    return Norm(
        size or config.hidden_size,
        eps=config.norm_epsilon,
        bias=config.biases,
        keeps_total=config.norm_place == "before",
    )


def _distances(config: EncoderConfig) -> DistanceScores | None:
    if not isinstance(config.positions, Bucketed):
        return None
    return DistanceScores(config.positions.num_buckets, config.num_heads)


@torch.no_grad()
def initialize(
    model: nn.Module,
    *,
    seed: int,
    deviation: float = DEVIATION,
    only: Collection[str] | None = None,
) -> None:
    """Give fresh weights: matrices from a normal cut at two deviations, biases 0, norms 1.

    Each parameter draws from a seed of its own, so that adding a task head changes nothing else;
    `only` names those that are drawn.
    """
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if only is not None and name not in only:
                continue
            if isinstance(module, nn.LayerNorm):
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
            elif parameter.dim() < 2:
                parameter.zero_()
            else:
                parameter.copy_(_draw(parameter.shape, deviation, derive(seed, name)))


def _draw(shape: torch.Size, deviation: float, seed: int) -> Tensor:
    random, bound = torch.Generator().manual_seed(seed), 2 * deviation
    drawn = torch.empty(shape)
    return nn.init.trunc_normal_(drawn, 0.0, deviation, -bound, bound, generator=random)
