"""Which linear layers can do with eight bits: each is tried by itself on some texts."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Batch
from bertworks.data.example_batches import length_sorted_batches
from bertworks.data.packing import Features, join_pieces
from bertworks.interop.onnx_network import linear_layers
from bertworks.interop.quantize import round_columns, round_vectors
from bertworks.model.encoder import Encoder, pool_texts
from bertworks.tokenizer.tokenizer import Tokenizer

MOST_ALONE = 0.002  # damage of one layer; damage is one minus the mean cosine of texts' vectors
MOST_TOGETHER = 0.0075  # of all that are chosen
BATCH_TOKENS = 1024


@dataclass(frozen=True)
class Int8Choice:
    """What was measured, and what follows from it."""

    damage: dict[str, float]  # of each layer by itself
    chosen: frozenset[str]  # the layers that become whole numbers
    together: float  # the damage of all that are chosen

    @property
    def kept(self) -> list[str]:
        """The layers that stay in fp32."""
        return [name for name in self.damage if name not in self.chosen]


@torch.inference_mode()
def choose_int8(encoder: Encoder, batches: Sequence[Batch]) -> Int8Choice:
    """Choose the layers that suffer little, alone and together; the worst stay in fp32."""
    names = linear_layers(encoder.config)
    exact = _vectors(encoder, batches)
    damage = {name: _damage(encoder, batches, exact, [name]) for name in names}
    chosen = sorted((n for n in names if damage[n] <= MOST_ALONE), key=damage.__getitem__)
    together = _damage(encoder, batches, exact, chosen)
    while chosen and together > MOST_TOGETHER:
        chosen.pop()
        together = _damage(encoder, batches, exact, chosen)
    return Int8Choice(damage, frozenset(chosen), together)


def calibration_batches(texts: Sequence[str], tokenizer: Tokenizer, *, longest: int) -> list[Batch]:
    """Return batches of texts, cut to what the network reads at once."""
    room = longest - tokenizer.specials.num_added(pair=False)
    pieces = [np.array(ids[:room], dtype=np.int64) for ids in tokenizer.ids_of(list(texts))]
    windows = [Features(*join_pieces(ids, None, tokenizer.specials)) for ids in pieces]
    return [batch for _, batch in length_sorted_batches(windows, budget=BATCH_TOKENS)]


def _damage(
    encoder: Encoder, batches: Sequence[Batch], exact: Tensor, names: Sequence[str]
) -> float:
    with ExitStack() as rounding:
        for name in names:
            rounding.enter_context(_rounded(cast(nn.Linear, encoder.get_submodule(name))))
        found = _vectors(encoder, batches)
    cosines = functional.cosine_similarity(found.double(), exact.double())
    return max(0.0, 1.0 - float(cosines.mean()))


def _vectors(encoder: Encoder, batches: Sequence[Batch]) -> Tensor:
    return torch.cat([pool_texts(encoder(batch), batch.layout, "mean") for batch in batches])


@contextmanager
def _rounded(layer: nn.Linear) -> Iterator[None]:
    """Let a layer compute as its whole numbers will."""
    hook = layer.register_forward_pre_hook(lambda _, given: (round_vectors(given[0]),))
    exact = layer.weight.data
    layer.weight.data = round_columns(exact)
    try:
        yield
    finally:
        layer.weight.data = exact
        hook.remove()
