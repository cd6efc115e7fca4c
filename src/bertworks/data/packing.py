"""From texts of pieces to flat batches: grouping by a token budget, laying end to end."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from bertworks.core.batch import Batch, Layout, Target
from bertworks.core.pieces import IGNORE, SpecialIds


@dataclass(frozen=True)
class Goal:
    """What should be found in one text: values, the places they speak of, and their share."""

    values: tuple[int, ...] | np.ndarray  # whole numbers, or others that are NaN where not known
    at: tuple[int, ...] | np.ndarray | None = (
        None  # token places in the text; None: the text itself
    )
    weight: float = 1.0
    group: int | None = None  # rows of an example's texts that are weighed against each other


@dataclass(frozen=True)
class Features:
    """One text (or one window of a long one) as the network reads it."""

    tokens: np.ndarray
    segments: np.ndarray
    goals: dict[str, Goal] = field(default_factory=dict)
    example: int = 0  # which example or passage it comes from
    note: Any = None  # what a task wants to know of the window when it reads the answer
    reply: np.ndarray | None = None  # what is written in answer, as far as it is read again
    prefix: int | None = None  # how many tokens are seen by all; None: each sees all of them


def flatten(texts: Sequence[Features], owners: Sequence[int] | None = None) -> Batch:
    """Lay texts end to end as one batch; rows are grouped within an owner, or else an example."""
    owners = [text.example for text in texts] if owners is None else owners
    lengths = tuple(len(text.tokens) for text in texts)
    segments = np.concatenate([text.segments for text in texts]).astype(np.int64)
    starts = np.cumsum((0, *lengths[:-1]))
    names = texts[0].goals
    prefixes = tuple(text.prefix for text in texts if text.prefix is not None)
    assert len(prefixes) in (0, len(texts))  # a task has them or has not
    return Batch(
        **_laid([text.tokens for text in texts]),
        segments=torch.from_numpy(segments),
        targets={name: _join(name, texts, starts, owners) for name in names},
        ids=tuple(text.example for text in texts),
        is_causal=bool(prefixes),
        prefixes=prefixes or None,
        replies=_replies(texts),
    )


def _laid(texts: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return pieces end to end, their places, and where each text begins."""
    lengths = tuple(len(text) for text in texts)
    return {
        "tokens": torch.from_numpy(np.concatenate(texts).astype(np.int64)),
        "positions": torch.from_numpy(np.concatenate([np.arange(length) for length in lengths])),
        "layout": Layout.of(lengths),
    }


def _replies(texts: Sequence[Features]) -> Batch | None:
    written = [text.reply for text in texts if text.reply is not None]
    if not written:
        return None
    assert len(written) == len(texts)  # a task writes them or does not
    laid = _laid(written)
    return Batch(
        **laid,
        segments=torch.zeros_like(laid["tokens"]),
        targets={},
        ids=tuple(text.example for text in texts),
        is_causal=True,
    )


def flatten_parts(
    bundles: Sequence[Sequence[Features]], *, count: int, wanted: Iterable[int] | None = None
) -> list[Batch]:
    """Lay bundles of texts end to end as so many parts of one batch, or only those that are wanted.

    The texts of a bundle stay together, short ones before long ones. There are never more parts
    than bundles; those that are wanted nonetheless ask for nothing.
    """
    num_parts = min(count, len(bundles))
    return [
        _flatten_sorted(bundles[part::num_parts]) if part < num_parts else _silent(bundles[0][0])
        for part in (range(num_parts) if wanted is None else wanted)
    ]


def join_pieces(
    first: np.ndarray, second: np.ndarray | None, specials: SpecialIds
) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and segments of `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`.

    Some families have two separators between the texts; the first text's segment ends with them.
    """
    begin, separator = np.array([specials.first]), np.array([specials.separator])
    parts = [begin, first, separator]
    if second is not None:
        parts = [begin, first, *[separator] * specials.num_between, second, separator]
    tokens = np.concatenate(parts).astype(np.int32)  # large sets are held in memory
    segments = np.zeros(len(tokens), dtype=np.int8)
    segments[len(first) + 1 + specials.num_between :] = specials.second_segment
    return tokens, segments


def group_by_budget(lengths: np.ndarray, *, budget: Callable[[int], float]) -> list[slice]:
    """Cut a sequence of texts into neighbours that fill a token budget; none is left out.

    The budget is that of the n-th group.
    """
    ends = np.cumsum(lengths)
    groups: list[slice] = []
    first = 0
    while first < len(lengths):
        used = ends[first - 1] if first else 0
        after = int(np.searchsorted(ends, used + budget(len(groups)), side="right"))
        after = max(after, first + 1)
        groups.append(slice(first, after))
        first = after
    return groups


def _flatten_sorted(bundles: Sequence[Sequence[Features]]) -> Batch:
    owned = [(text, owner) for owner, bundle in enumerate(bundles) for text in bundle]
    owned.sort(key=lambda pair: len(pair[0].tokens))
    return flatten([text for text, _ in owned], [owner for _, owner in owned])


def _silent(text: Features) -> Batch:
    """Make a batch that costs little and from which nothing is learned."""
    batch = flatten([text])
    nothing = {
        name: replace(target, values=torch.full_like(target.values, _nothing(target.values)))
        for name, target in batch.targets.items()
    }
    return replace(batch, targets=nothing, ids=())


def _nothing(values: torch.Tensor) -> float:
    return float("nan") if values.is_floating_point() else IGNORE


def _join(
    name: str, texts: Sequence[Features], starts: np.ndarray, owners: Sequence[int]
) -> Target:
    goals = [text.goals[name] for text in texts]
    values = np.concatenate([np.asarray(goal.values) for goal in goals])
    at = None
    if goals[0].at is not None:
        places = [np.asarray(goal.at) + start for goal, start in zip(goals, starts, strict=True)]
        at = torch.from_numpy(np.concatenate(places).astype(np.int64))
    weights = None
    if any(goal.weight != 1.0 for goal in goals):
        shares = [np.full(len(goal.values), goal.weight, np.float32) for goal in goals]
        weights = torch.from_numpy(np.concatenate(shares))
    groups = None
    if goals[0].group is not None:
        keys = [(owner, goal.group) for owner, goal in zip(owners, goals, strict=True)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        rows = [
            np.full(len(goal.values), numbers[key]) for key, goal in zip(keys, goals, strict=True)
        ]
        groups = torch.from_numpy(np.concatenate(rows))
    kind = np.float32 if values.dtype.kind == "f" else np.int64
    return Target(torch.from_numpy(values.astype(kind)), at, weights, groups)
