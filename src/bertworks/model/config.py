"""What a network is: the description that is saved with its weights."""

from dataclasses import dataclass, replace
from typing import Literal, Self

from bertworks.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The shape of an encoder; how it is run is chosen elsewhere."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    feed_forward_size: int = 3072
    max_positions: int = 512
    num_segments: int = 2
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    norm_epsilon: float = 1e-12
    init_deviation: float = 0.02
    pad_id: int = 0

    def __post_init__(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("dropout", "attention_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise UsageError(f"{name} is {getattr(self, name)}; it must lie from 0 to below 1")
        if self.hidden_size % self.num_heads:
            raise UsageError(
                f"hidden_size {self.hidden_size} cannot be shared by {self.num_heads} heads; "
                "choose a multiple"
            )

    @property
    def head_size(self) -> int:
        """The width of one attention head."""
        return self.hidden_size // self.num_heads

    @classmethod
    def named(cls, name: str) -> Self:
        """Return one of the published BERT sizes."""
        if name not in SIZES:
            raise UsageError(f"there is no size {name!r}; the sizes are {', '.join(SIZES)}")
        num_layers, hidden_size = SIZES[name]
        return cls.of_shape(num_layers, hidden_size)

    @classmethod
    def of_shape(cls, num_layers: int, hidden_size: int) -> Self:
        """Return BERT of any depth and width: heads of 64, a feed-forward four times as wide."""
        return cls(
            num_layers=num_layers,
            hidden_size=hidden_size,
            num_heads=max(hidden_size // 64, 1),
            feed_forward_size=4 * hidden_size,
        )

    def with_dropout(self, rate: float | None) -> Self:
        """Return the same network with another dropout rate everywhere, or itself for None."""
        return self if rate is None else replace(self, dropout=rate, attention_dropout=rate)


# The fields that count something.
COUNTS = (
    "vocab_size",
    "hidden_size",
    "num_layers",
    "num_heads",
    "feed_forward_size",
    "max_positions",
    "num_segments",
)
# Name -> number of layers, hidden size.
SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
