"""The one batch layout: all texts end to end, with the place where each begins.

Shapes, everywhere: T tokens, N texts, D hidden, H attention heads, K head size, V pieces.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Self

import torch
from torch import Tensor

from bertworks.core.pieces import IGNORE

SMALLEST_TILE, LONGEST_TILE = 16, 128  # of tokens that a GPU kernel takes as one


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device, on its way there behind the work that the device has.

    From usual memory of the host a copy would wait until that work is done.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@dataclass(frozen=True)
class Layout:
    """Where the texts of a flat batch begin and end."""

    starts: Tensor  # [N+1] int32, on the batch's device
    lengths: tuple[int, ...]  # on the host, so that no kernel launch waits for the device

    @classmethod
    def of(cls, lengths: tuple[int, ...]) -> Self:
        """Lay texts of these lengths end to end."""
        ends = torch.tensor(lengths, dtype=torch.int32).cumsum(0, dtype=torch.int32)
        return cls(torch.cat([ends.new_zeros(1), ends]), lengths)

    @cached_property
    def longest(self) -> int:
        """The length of the longest text."""
        return max(self.lengths, default=0)

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """Neighbours of equal length as (number of texts, length): rectangles without padding."""
        return tuple((len(list(group)), length) for length, group in groupby(self.lengths))

    @cached_property
    def tiles(self) -> list[tuple[int, Tensor]]:
        """Which texts fit into a tile of each size, from the smallest up."""
        sizes = [max(SMALLEST_TILE, 1 << (length - 1).bit_length()) for length in self.lengths]
        order = sorted(range(len(sizes)), key=sizes.__getitem__)
        texts = sent(torch.tensor(order, dtype=torch.int32), self.starts.device)
        counts = Counter(sizes)
        groups = texts.split([counts[size] for size in sorted(counts)])
        return list(zip(sorted(counts), groups, strict=True))

    def strips(self, size: int) -> Tensor:
        """Return strips of so many tokens that cover each text, [strips, 2]: text and first place.

        Those of long texts come first, so that the last to be done are short.
        """
        if size not in self._strips:
            lengths, order = torch.tensor(self.lengths).sort(descending=True)
            counts = (lengths + size - 1) // size
            before = (counts.cumsum(0) - counts).repeat_interleave(counts)
            places = (torch.arange(len(before)) - before) * size
            pairs = torch.stack([order.repeat_interleave(counts), places], dim=1).int()
            self._strips[size] = sent(pairs, self.starts.device)
        return self._strips[size]

    @cached_property
    def _strips(self) -> dict[int, Tensor]:
        return {}

    def first_tokens(self) -> Tensor:
        """Return the index of each text's first token, [N]."""
        return self.starts[:-1]

    def to(self, device: torch.device) -> Self:
        """Return the layout with its starts on a device."""
        there = replace(self, starts=sent(self.starts, device))
        if device.type == "cuda" and there.longest <= LONGEST_TILE:
            _ = there.tiles  # found here, while the device has other work
        return there


@dataclass(frozen=True)
class Target:
    """What a task should find: one row of values per text, or one per row of tokens in `at`.

    Of texts that are answered by others it is one per token of those.
    """

    values: Tensor  # [M] or [M, L]; IGNORE, or NaN, where there is nothing to find
    at: Tensor | None = None  # token indices, [M], or [M, P] where a row speaks of several
    weights: Tensor | None = None  # [M] the share of each row; None: all count fully
    groups: Tensor | None = None  # [M] which rows are weighed against each other, numbered from 0
    smoothing: float = 0.0  # what a gold label gives to all of them alike, in training

    @cached_property
    def found(self) -> Tensor:
        """Which rows there is something to find for, [M]."""
        known = ~self.values.isnan() if self.values.is_floating_point() else self.values != IGNORE
        return known if known.dim() == 1 else known.all(1)

    @cached_property
    def count(self) -> float:
        """How much there is to find; a loss summed over the target is divided by this."""
        return float(self.shares[self.found].sum())

    @cached_property
    def shares(self) -> Tensor:
        """How much each row counts, [M]; those of a group share what the group counts."""
        even = torch.ones(len(self.values), device=self.values.device)
        shares = even if self.weights is None else self.weights
        return shares if self.groups is None else shares / self.groups.bincount()[self.groups]

    def to(self, device: torch.device) -> Self:
        """Return the target on a device, its count taken before it leaves the host."""
        named = {"at": self.at, "weights": self.weights, "groups": self.groups}
        there: dict[str, Any] = {
            name: sent(part, device) for name, part in named.items() if part is not None
        }
        moved = replace(self, values=sent(self.values, device), **there)
        moved.__dict__["count"] = self.count
        return moved

    def softened(self, chosen: Tensor) -> Tensor:
        """Return which row of each group is the right one, as chances with the smoothing, [M]."""
        if not self.smoothing or self.groups is None:
            return chosen
        even = self.found / self.groups.bincount()[self.groups]
        return chosen + self.smoothing * (even - chosen)

    def smoothed(self, smoothing: float) -> Self:
        """Return the target with labels that give something to all others."""
        softer = replace(self, smoothing=smoothing)
        softer.__dict__["count"] = self.count
        return softer


@dataclass(frozen=True)
class Batch:
    """Texts end to end, and what should be found in them."""

    tokens: Tensor  # [T]
    positions: Tensor  # [T] the place of each token in its text
    segments: Tensor  # [T] 0 in the first text of a pair, in the second 1 where the family has it
    layout: Layout
    targets: dict[str, Target]  # by the name of the task
    ids: tuple[int, ...]  # which example or passage each text is, for messages
    is_causal: bool = False  # whether a token sees only what stands before it
    prefixes: tuple[int, ...] | None = None  # of each text, how many tokens all of them see anyway
    replies: "Batch | None" = None  # what is written in answer to each text

    @property
    def num_texts(self) -> int:
        """The number of texts."""
        return len(self.layout.lengths)

    def beginnings(self) -> Self:
        """Return only those tokens in front of each text that all of its tokens see."""
        assert self.prefixes is not None
        layout = Layout.of(self.prefixes).to(self.tokens.device)
        ends = torch.tensor(self.prefixes).repeat_interleave(torch.tensor(self.layout.lengths))
        is_seen = self.positions < ends.to(self.positions.device)
        parts = {name: getattr(self, name)[is_seen] for name in ("tokens", "positions", "segments")}
        seen: dict[str, Any] = {"layout": layout, "targets": {}, "is_causal": False}
        return replace(self, **parts, **seen, prefixes=None)

    def smoothed(self, smoothing: float) -> Self:
        """Return the batch with gold labels that give something to all others."""
        softer = {name: target.smoothed(smoothing) for name, target in self.targets.items()}
        return replace(self, targets=softer)

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device."""
        return replace(
            self,
            tokens=sent(self.tokens, device),
            positions=sent(self.positions, device),
            segments=sent(self.segments, device),
            layout=self.layout.to(device),
            targets={name: target.to(device) for name, target in self.targets.items()},
            replies=None if self.replies is None else self.replies.to(device),
        )
