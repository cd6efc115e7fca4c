"""The BERT encoder on flat batches, in one scroll.

Legend: T tokens, N texts, D hidden, H attention heads, K head size.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Batch, Layout
from bertworks.core.seeds import derive
from bertworks.model.attention import attend
from bertworks.model.config import EncoderConfig

ACTIVATIONS = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
}


class Encoder(nn.Module):
    """Texts in, one vector per token out; and, through the pooler, one per text."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, batch: Batch) -> Tensor:
        """Return the last layer's vectors, [T, D]."""
        hidden = self.embeddings(batch)
        for block in self.blocks:
            hidden = block(hidden, batch.layout)
        return hidden

    def pool(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Return BERT's vector of each text, made from its first token, [T, D] -> [N, D]."""
        return self.pooler(hidden.index_select(0, layout.first_tokens())).tanh()


class Embeddings(nn.Module):
    """The sum of piece, position and segment vectors, normed."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.pieces = nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = nn.Embedding(config.max_positions, config.hidden_size)
        self.segments = nn.Embedding(config.num_segments, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, batch: Batch) -> Tensor:
        """Return the vectors that enter the first block, [T, D]."""
        hidden = self.pieces(batch.tokens)
        hidden = hidden + self.positions(batch.positions) + self.segments(batch.segments)
        return self.dropout(self.norm(hidden))


class Block(nn.Module):
    """Self-attention and feed-forward, each added to its input and then normed."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_epsilon)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Return the vectors after this layer, [T, D] -> [T, D]."""
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, layout)))
        return self.feed_forward_norm(hidden + self.dropout(self.feed_forward(hidden)))


class SelfAttention(nn.Module):
    """Multi-head attention of each text to itself."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.dropout = config.attention_dropout
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Return what each token gathered from its text, [T, D] -> [T, D]."""
        qkv = self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1))  # [T, 3, H, K]
        gathered = attend(qkv, layout, dropout=self.dropout if self.training else 0.0)
        return self.output(gathered.flatten(1))  # [T, H, K] -> [T, D]


class FeedForward(nn.Module):
    """Two linear layers with a bend between them."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.expand = nn.Linear(config.hidden_size, config.feed_forward_size)
        self.contract = nn.Linear(config.feed_forward_size, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return each token's vector rethought, [T, D] -> [T, D]."""
        return self.contract(self.activation(self.expand(hidden)))


@torch.no_grad()
def initialize(model: nn.Module, *, deviation: float, seed: int) -> None:
    """Give fresh weights: matrices from a normal cut at two deviations, biases 0, norms 1.

    Each parameter draws from a seed of its own, so that adding a task head changes nothing else.
    """
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if isinstance(module, nn.LayerNorm):
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
            elif parameter.dim() < 2:
                parameter.zero_()
            else:
                random = torch.Generator().manual_seed(derive(seed, name))
                drawn = torch.empty(parameter.shape)
                bound = 2 * deviation
                nn.init.trunc_normal_(drawn, 0.0, deviation, -bound, bound, generator=random)
                parameter.copy_(drawn)
