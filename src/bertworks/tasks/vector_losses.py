"""Losses on the vectors of texts: what belongs together lies close, what does not lies apart.

Legend: M windows, P pairs, D hidden.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Target
from bertworks.model.embedding import EmbeddingRecipe

FIRST, SECOND = 0, 1  # the sides of a pair


@dataclass(frozen=True)
class Pairs:
    """The two texts of each pair as vectors one long, and what is known of them."""

    vectors: Tensor  # [P, 2, D]
    gold: Tensor  # [P] the score; of a label 1 for the same and 0 for different
    keys: Tensor  # [P, 2] equal where texts are equal

    @property
    def cosines(self) -> Tensor:
        """The cosine of each pair, [P]."""
        return (self.vectors[:, FIRST] * self.vectors[:, SECOND]).sum(-1)


def pair_vectors(rows: Tensor, target: Target, recipe: EmbeddingRecipe) -> Pairs:
    """Make windows, which may stand in any order, the vectors of the texts of their pairs.

    The columns of the target's values are the side of the pair, its gold, the text's key, and what
    only the head asks for.
    """
    assert target.groups is not None
    sides, gold, keys = target.values[:, :3].unbind(1)
    num_pairs = int(target.groups.max()) + 1
    texts = 2 * target.groups + sides.long()
    size = (2 * num_pairs, rows.shape[1])
    if recipe.pooling == "max":
        lowest = rows.new_full(size, -torch.inf, dtype=torch.float32)
        places = texts[:, None].expand_as(rows)
        merged = lowest.scatter_reduce(0, places, rows.float(), "amax")
    else:
        shares = torch.ones_like(gold) if target.weights is None else target.weights
        zeros = rows.new_zeros(size, dtype=torch.float32)
        merged = zeros.index_add(0, texts, rows.float() * shares[:, None])
    with torch.autocast(rows.device.type, enabled=False):
        vectors = functional.normalize(recipe.dense(merged), dim=-1)
    return Pairs(
        vectors.unflatten(0, (num_pairs, 2)),
        gold.new_zeros(num_pairs).index_copy(0, target.groups, gold),
        keys.new_zeros(2 * num_pairs).index_copy(0, texts, keys).unflatten(0, (num_pairs, 2)),
    )


def contrast(pairs: Pairs, *, temperature: float, is_symmetric: bool = False) -> Tensor:
    """Return the mean cross-entropy of finding a text's own partner among all second texts.

    Only pairs that are the same are looked for; the second texts of all others are there to be told
    apart. Symmetric, second texts look for their first ones too.
    """
    is_same = pairs.gold > 0
    if not is_same.any():
        return pairs.vectors.sum() * 0.0
    forth = _find_partners(pairs, is_same, FIRST, temperature)
    if not is_symmetric:
        return forth
    return (forth + _find_partners(pairs, is_same, SECOND, temperature)) / 2


def rank_cosines(pairs: Pairs, *, temperature: float) -> Tensor:
    """Return log(1 + sum exp((cos_j - cos_i) / t)) over pairs i that should lie closer than j."""
    scaled = pairs.cosines / temperature
    gaps = scaled[None, :] - scaled[:, None]  # of j over i
    is_wrong = pairs.gold[:, None] > pairs.gold[None, :]
    masked = gaps.masked_fill(~is_wrong, -torch.inf).flatten()
    return torch.cat([masked.new_zeros(1), masked]).logsumexp(0)


def _find_partners(pairs: Pairs, is_same: Tensor, side: int, temperature: float) -> Tensor:
    """Return how badly the texts of one side find their partners on the other."""
    seeking, found = pairs.vectors[:, side], pairs.vectors[:, 1 - side]
    with torch.autocast(seeking.device.type, enabled=False):  # cosines need all their digits
        scores = seeking @ found.T / temperature  # [P, P]
    own, others = pairs.keys[:, side], pairs.keys[:, 1 - side]
    is_equal = (others[None] == others[:, None]) | (others[None] == own[:, None])
    is_partner = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    scores = scores.masked_fill(is_equal & ~is_partner, -torch.inf)
    return -scores.log_softmax(1).diagonal()[is_same].mean()
