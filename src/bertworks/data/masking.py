"""Hiding pieces for masked-language modelling."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bertworks.core.pieces import SpecialIds


@dataclass(frozen=True)
class Masking:
    """How much is hidden, and behind what: the mask, a random piece, or itself."""

    specials: SpecialIds
    vocab_size: int
    rate: float = 0.15
    masked_share: float = 0.8
    random_share: float = 0.1

    @cached_property
    def ordinary(self) -> np.ndarray:
        """The pieces that are not special."""
        return np.setdiff1d(np.arange(self.vocab_size), self.specials.as_tuple())

    def hide(
        self, tokens: np.ndarray, lengths: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts with pieces hidden, and the places (ascending) of what was hidden.

        Every text with an ordinary piece loses at least one, and its share to the nearest whole.
        """
        at = self._choose(tokens, lengths, random.random(len(tokens)))
        fate = random.random(len(at))
        pieces = self.ordinary[random.integers(len(self.ordinary), size=len(at))]
        hidden = tokens.copy()
        is_masked = fate < self.masked_share
        is_random = ~is_masked & (fate < self.masked_share + self.random_share)
        hidden[at[is_masked]] = self.specials.mask
        hidden[at[is_random]] = pieces[is_random]
        return hidden, at

    def _choose(self, tokens: np.ndarray, lengths: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Pick the places with the least noise in each text, special pieces left out."""
        text = np.repeat(np.arange(len(lengths)), lengths)
        can_hide = ~np.isin(tokens, self.specials.as_tuple())
        num_ordinary = np.bincount(text[can_hide], minlength=len(lengths))
        wanted = np.maximum(np.rint(self.rate * num_ordinary), 1).astype(np.int64)
        order = np.lexsort((np.where(can_hide, noise, np.inf), text))
        starts = np.cumsum(lengths) - lengths
        rank = np.arange(len(tokens)) - starts[text[order]]
        chosen = order[(rank < wanted[text[order]]) & can_hide[order]]
        return np.sort(chosen)
