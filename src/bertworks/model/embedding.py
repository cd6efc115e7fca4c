"""How the vectors of a text's tokens become the one vector of the text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Layout
from bertworks.core.errors import UsageError
from bertworks.core.lines import is_unicode
from bertworks.model.encoder import pool_texts

# As the vectors of tokens are pooled: weighted counts later tokens more, last takes the last one,
# sqrt divides their sum by the root of their number.
VectorPooling = Literal["mean", "first", "max", "weighted", "last", "sqrt"]
Bend = Literal["identity", "tanh", "relu", "gelu", "sigmoid"]
BENDS: dict[Bend, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, eq=False)
class DenseLayer:
    """A linear layer that pooled vectors pass through, and its bend."""

    weight: Tensor  # [out, in]
    bias: Tensor | None
    bend: Bend

    def apply(self, vectors: Tensor) -> Tensor:
        """Return the vectors behind this layer, [N, in] -> [N, out]."""
        bias = None if self.bias is None else self.bias.to(vectors)
        return BENDS[self.bend](functional.linear(vectors, self.weight.to(vectors), bias))


@dataclass(frozen=True, kw_only=True)
class EmbeddingRecipe:
    """What is done to make the vector of a text; saved with the weights."""

    pooling: VectorPooling = "mean"
    normalize: bool = True
    max_length: int | None = None  # pieces, special ones counted; None: all of a text, in windows
    layers: tuple[DenseLayer, ...] = ()
    prompts: dict[str, str] = field(default_factory=dict)  # name -> what stands before each text
    default_prompt: str | None = None  # its name
    pools_prompt: bool = True
    lowercase: bool = False
    similarity: str | None = None  # what other libraries compare the vectors by

    def __post_init__(self) -> None:
        if self.pooling not in get_args(VectorPooling):
            *known, last = get_args(VectorPooling)
            raise UsageError(
                f"pooling {self.pooling!r} is not known; use {', '.join(known)} or {last}"
            )

    def changed(self, **given: Any) -> Self:
        """Return the recipe with what is given in place of its own; None leaves it as it is."""
        return replace(self, **{name: v for name, v in given.items() if v is not None})

    def prompt_text(self, prompt: str | None) -> str:
        """Return the text of a prompt given by name or as text, or of the default one for None."""
        if prompt is None:
            return self.prompts[self.default_prompt] if self.default_prompt else ""
        if not isinstance(prompt, str):
            raise UsageError(f"prompt is {prompt!r}; give the name of a prompt, or its text")
        if prompt.isidentifier() and prompt not in self.prompts:
            raise UsageError(
                f"there is no prompt {prompt!r}; the prompts of this model are: "
                f"{', '.join(self.prompts) or 'none'} (a text of your own ends in a space or colon)"
            )
        text = self.prompts.get(prompt, prompt)
        if not is_unicode(text):
            raise UsageError(f"the prompt {text!r} holds half of a surrogate pair; remove it")
        return text

    def dense(self, pooled: Tensor) -> Tensor:
        """Return pooled vectors behind the dense layers, [N, D] -> [N, out]."""
        for layer in self.layers:
            pooled = layer.apply(pooled)
        return pooled

    def finish(self, pooled: np.ndarray, dims: int | None = None) -> np.ndarray:
        """Return pooled vectors behind the dense layers, cut, and normalized if they should be."""
        vectors = self.dense(torch.from_numpy(pooled))
        size = vectors.shape[1]
        if dims is not None and (not isinstance(dims, int) or not 1 <= dims <= size):
            raise UsageError(
                f"dims is {dims!r}; the vectors have {size} numbers, so choose from 1 to {size}"
            )
        vectors = vectors[:, :dims]
        return (functional.normalize(vectors, eps=1e-12) if self.normalize else vectors).numpy()


def pool_vectors(
    hidden: Tensor,
    layout: Layout,
    pooling: VectorPooling,
    *,
    skipped: int | Sequence[int] = 0,
    before: Sequence[int] | None = None,
) -> Tensor:
    """Make one vector of each text's tokens but the first, skipped ones, [T, D] -> [N, D].

    As many are skipped of all texts, or of each as many as is said. Where texts are windows,
    `before` is how many tokens the windows before each have.
    """
    kept, rest = without_first_tokens(hidden, layout, skipped)
    if pooling == "last":
        return kept.index_select(0, rest.starts[1:] - 1)
    if pooling == "sqrt":
        counts = torch.tensor(rest.lengths, device=hidden.device).unsqueeze(-1)
        return pool_texts(kept, rest, "mean") * counts.sqrt()
    if pooling != "weighted":
        return pool_texts(kept, rest, pooling)
    # What is skipped, or stands before, still counts for the places of the rest.
    starts = before or [0] * len(layout.lengths)
    ends = [start + length for start, length in zip(starts, layout.lengths, strict=True)]
    places = torch.cat([torch.arange(a + 1.0, b + 1.0) for a, b in zip(starts, ends, strict=True)])
    weights = places.to(hidden.device).unsqueeze(-1)  # [T, 1]
    weights, _ = without_first_tokens(weights, layout, skipped)
    return pool_texts(kept * weights, rest, "mean") / pool_texts(weights, rest, "mean")


def without_first_tokens(
    hidden: Tensor, layout: Layout, count: int | Sequence[int]
) -> tuple[Tensor, Layout]:
    """Leave out the first tokens of each text, but never its last one."""
    counts = [count] * len(layout.lengths) if isinstance(count, int) else count
    if not any(counts):
        return hidden, layout
    texts = zip(hidden.split(layout.lengths), counts, strict=True)
    parts = [part[min(own, len(part) - 1) :] for part, own in texts]
    return torch.cat(parts), Layout.of(tuple(map(len, parts))).to(hidden.device)
