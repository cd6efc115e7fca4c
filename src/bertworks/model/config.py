"""What a network is: the description that is saved with its weights."""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self, get_args

from bertworks.core.errors import UsageError

Family = Literal[
    "bert", "roberta", "distilbert", "albert", "electra", "modernbert", "mpnet", "bertworks"
]
Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]
NormPlace = Literal["after", "before"]
Mixer = Literal["attention", "recurrent", "convolution", "mean"]


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A vector for each place, added to that of the piece."""


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Queries and keys are turned by angles that grow with the place."""

    base: float = 10_000.0
    local_base: float = 10_000.0  # in layers of local attention

    def __post_init__(self) -> None:
        for base in (self.base, self.local_base):
            if not isinstance(base, float | int) or not 1 <= base < 1e12:
                raise UsageError(f"the base of rotary positions is {base!r}; it must be 1 or more")


@dataclass(frozen=True, kw_only=True)
class Waves:
    """Fixed waves of many lengths, added to the vector of the piece: nothing to learn."""


@dataclass(frozen=True, kw_only=True)
class Bucketed:
    """Learned places, and a learned score for each range of distances."""

    num_buckets: int = 32

    def __post_init__(self) -> None:
        if not 4 <= self.num_buckets < 512:
            raise UsageError(f"num_buckets is {self.num_buckets}; it must lie from 4 to below 512")


@dataclass(frozen=True, kw_only=True)
class Local:
    """A token sees its neighbors only, but in every n-th layer the whole text."""

    window: int  # tokens seen to each side
    full_every: int | None = None  # None: no layer sees the whole text

    def __post_init__(self) -> None:
        _check_counts(self, "window")
        if self.full_every is not None:
            _check_counts(self, "full_every")


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """Neighbouring layers use the same weights; each runs the blocks of its group in turn."""

    num_groups: int = 1
    group_size: int = 1

    def __post_init__(self) -> None:
        _check_counts(self, "num_groups", "group_size")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The shape of an encoder; how it is run is chosen elsewhere."""

    family: Family = "bert"  # whose pooler it has, and in whose words it is saved
    vocab_size: int = 30522
    hidden_size: int = 768
    embedding_size: int | None = None  # None: as wide as hidden_size, with nothing between
    num_layers: int = 12
    num_heads: int = 12
    feed_forward_size: int = 3072
    max_positions: int = 512
    num_segments: int = 2  # 0: the two texts of a pair are not told apart
    positions: Learned | Rotary | Waves | Bucketed | None = (
        Learned()
    )  # None: words without an order
    local: Local | None = None
    sharing: Sharing | None = None
    mixer: Mixer = "attention"  # how a token learns of its neighbors; mean: not at all
    activation: Activation = "gelu"
    gated: bool = False
    biases: bool = True
    norm_place: NormPlace = "after"
    norm_epsilon: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1

    def __post_init__(self) -> None:
        _check_counts(self, *COUNTS)
        _check_counts(self, "num_segments", least=0)
        if self.embedding_size is not None:
            _check_counts(self, "embedding_size")
        if not (_is_number(self.norm_epsilon) and 0 < self.norm_epsilon < 1):
            raise UsageError(f"norm_epsilon is {self.norm_epsilon!r}; it must lie between 0 and 1")
        for name in ("dropout", "attention_dropout"):
            rate = getattr(self, name)
            if not (_is_number(rate) and 0.0 <= rate < 1.0):
                raise UsageError(f"{name} is {rate!r}; it must lie from 0 to below 1")
        self._check_choices()
        self._check_heads()

    def _check_choices(self) -> None:
        for name, kind in CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                raise UsageError(f"{name} is {getattr(self, name)!r}; known are {get_args(kind)}")
        for name in ("gated", "biases"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} is {getattr(self, name)!r}; it must be true or false")

    def _check_heads(self) -> None:
        if self.hidden_size % self.num_heads:
            raise UsageError(
                f"hidden_size {self.hidden_size} cannot be shared by {self.num_heads} heads; "
                f"choose a multiple of {self.num_heads}"
            )
        if isinstance(self.positions, Rotary) and self.head_size % 2:
            raise UsageError(
                f"an attention head of width {self.head_size} cannot be turned in pairs; "
                "rotary positions need an even one"
            )
        if self.mixer == "recurrent" and self.hidden_size % 2:
            raise UsageError(
                f"hidden_size {self.hidden_size} cannot be shared by two directions; "
                "a recurrent network needs an even one"
            )
        if isinstance(self.positions, Bucketed) and self.local is not None:
            raise UsageError("local attention knows no scores by distance; choose one of the two")
        if self.local is not None and self.sharing is not None and self.sharing.group_size > 1:
            raise UsageError("local attention goes by layers, not by groups of blocks; choose one")

    @property
    def head_size(self) -> int:
        """The width of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def piece_size(self) -> int:
        """The width of a piece's vector."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size

    @property
    def num_blocks(self) -> int:
        """How many blocks have weights of their own."""
        sharing = self.sharing
        return self.num_layers if sharing is None else sharing.num_groups * sharing.group_size

    @property
    def block_order(self) -> tuple[int, ...]:
        """The blocks in the order in which a text goes through them."""
        if self.sharing is None:
            return tuple(range(self.num_layers))
        size = self.sharing.group_size
        # Divided as ALBERT's own code does, which rounds.
        groups = (int(n / (self.num_layers / self.sharing.num_groups)) for n in self.layers)
        return tuple(group * size + inner for group in groups for inner in range(size))

    @property
    def own_pooling(self) -> Literal["first", "mean"]:
        """How the vectors of tokens become one where nothing else is said: as its mixer allows."""
        return "first" if self.mixer == "attention" else "mean"

    @property
    def pooler_bend(self) -> Literal["tanh", "relu", "gelu"]:
        """What the family bends the vector of a text by before a task head reads it."""
        if self.family == "distilbert":
            return "relu"
        return "gelu" if self.family in ("electra", "modernbert") else "tanh"

    @property
    def layers(self) -> range:
        """The numbers of the layers."""
        return range(self.num_layers)

    def is_local(self, layer: int) -> bool:
        """Tell whether tokens see only their neighbours in a layer."""
        if self.local is None:
            return False
        return self.local.full_every is None or layer % self.local.full_every != 0

    @classmethod
    def named(cls, name: str) -> Self:
        """Return a network by name: a family and a size, as roberta-base, or a size of BERT.

        A size is one of BERT's (tiny to large) or LAYERSxWIDTH, such as 6x384.
        """
        style, _, size = name.rpartition("-")
        if style not in STYLES:
            raise UsageError(f"there is no family {style!r}; the families are {_listed(STYLES)}")
        return cls(**STYLES[style] | (PUBLISHED.get(name) or _shape(style, size)))

    def with_dropout(self, dropout: float | None, attention_dropout: float | None = None) -> Self:
        """Return the same network with another rate, everywhere unless attention has its own.

        None leaves the rates as they are.
        """
        of_attention = dropout if attention_dropout is None else attention_dropout
        return replace(
            self,
            dropout=self.dropout if dropout is None else dropout,
            attention_dropout=self.attention_dropout if of_attention is None else of_attention,
        )


class Dropout(NamedTuple):
    """Rates in place of a network's own, as `with_dropout` takes them."""

    dropout: float | None = None
    attention_dropout: float | None = None


AS_IT_IS = Dropout()


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _check_counts(description: Any, *names: str, least: int = 1) -> None:
    for name in names:
        value = getattr(description, name)
        most = LARGEST.get(name, 2**31)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"{name} is {value!r}; it must be a whole number from {least} up")
        if value > most:
            raise UsageError(f"{name} is {value}; the most is {most}")


# Beyond these no network has been seen, and a slip of the pen would fill the memory.
LARGEST = {"num_layers": 1024, "hidden_size": 2**17, "feed_forward_size": 2**20}
# The fields that count something, and those that choose among names.
COUNTS = (
    "vocab_size",
    "hidden_size",
    "num_layers",
    "num_heads",
    "feed_forward_size",
    "max_positions",
)
CHOICES = {
    "family": Family,
    "activation": Activation,
    "mixer": Mixer,
    "norm_place": NormPlace,
}

# Name -> number of layers, hidden size.
SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}

MODERN: dict[str, Any] = {
    "family": "modernbert",
    "num_segments": 0,
    "gated": True,
    "biases": False,
    "norm_place": "before",
    "norm_epsilon": 1e-5,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
# What sets each family apart from BERT.
STYLES: dict[str, dict[str, Any]] = {
    "": {},
    "bert": {},
    "roberta": {
        "family": "roberta",
        "vocab_size": 50265,
        "num_segments": 1,
        "norm_epsilon": 1e-5,
    },
    "distilbert": {"family": "distilbert", "num_segments": 0},
    "albert": {
        "family": "albert",
        "vocab_size": 30000,
        "embedding_size": 128,
        "sharing": Sharing(),
        "activation": "gelu_tanh",
        "dropout": 0.0,
        "attention_dropout": 0.0,
    },
    "electra": {"family": "electra"},
    "mpnet": {
        "family": "mpnet",
        "vocab_size": 30527,
        "num_segments": 0,
        "positions": Bucketed(),
        "norm_epsilon": 1e-5,
    },
    "modernbert": {
        **MODERN,
        "vocab_size": 50368,
        "max_positions": 8192,
        "positions": Rotary(base=160_000.0),
        "local": Local(window=64, full_every=3),
    },
    "modern": {**MODERN, "positions": Rotary()},
    "transformer": {
        "family": "bertworks",
        "num_segments": 0,
        "positions": Waves(),
        "activation": "relu",
        "norm_epsilon": 1e-5,
    },
    "recurrent": {"family": "bertworks", "mixer": "recurrent"},
    "convolution": {"family": "bertworks", "mixer": "convolution"},
    "mean": {"family": "bertworks", "mixer": "mean", "positions": None},
}


# How much wider than the blocks a feed-forward is, where it is not four times, so that a block has
# as many parameters as BERT's: a gate adds a matrix, and older mixers are larger or none.
FEED_FORWARD = {"modern": 8 / 3, "modernbert": 8 / 3, "recurrent": 3, "convolution": 3, "mean": 6}


def _shape(style: str, size: str) -> dict[str, Any]:
    by_number = re.fullmatch(r"(\d+)x(\d+)", size)
    if by_number is None and size not in SIZES:
        raise UsageError(f"there is no size {size!r}; use {_listed(SIZES)} or LAYERSxWIDTH")
    num_layers, hidden_size = map(int, by_number.groups()) if by_number else SIZES[size]
    if hidden_size > LARGEST["hidden_size"]:
        raise UsageError(f"hidden_size is {hidden_size}; the most is {LARGEST['hidden_size']}")
    inner = round(FEED_FORWARD.get(style, 4) * hidden_size)
    if style in FEED_FORWARD:
        inner = max(inner // 8 * 8, 8)
    return _of(num_layers, hidden_size, _num_heads(hidden_size), feed_forward_size=inner)


def _num_heads(hidden_size: int) -> int:
    """Return how many heads of 64 share a width, or else fewer and wider ones, even if can be."""
    counts = range(max(hidden_size // 64, 1), 0, -1)
    even = (count for count in counts if hidden_size % (2 * count) == 0)
    return next(even, None) or next((c for c in counts if hidden_size % c == 0), 1)


def _of(num_layers: int, hidden_size: int, num_heads: int, **other: int) -> dict[str, Any]:
    shape = {"num_layers": num_layers, "hidden_size": hidden_size, "num_heads": num_heads}
    return {**shape, "feed_forward_size": 4 * hidden_size, **other}


# Published networks whose shape is not that of the BERT of this size.
PUBLISHED: dict[str, dict[str, Any]] = {
    "distilbert-base": _of(6, 768, 12),
    "albert-xlarge": _of(24, 2048, 16),
    "albert-xxlarge": _of(12, 4096, 64),
    "electra-small": _of(12, 256, 4, embedding_size=128),
    "transformer-tiny": _of(4, 128, 4, feed_forward_size=256),
    "transformer-base": _of(6, 512, 8),
    "transformer-big": _of(6, 1024, 16),
    "modernbert-base": _of(22, 768, 12, feed_forward_size=1152),
    "modernbert-large": _of(28, 1024, 16, feed_forward_size=2624),
}


def _listed(names: dict[str, Any]) -> str:
    return ", ".join(filter(None, names))
