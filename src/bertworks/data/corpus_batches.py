"""Pre-training batches: each a pure function of (shards, seed, step)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bertworks.core.batch import Batch
from bertworks.core.seeds import random_at
from bertworks.core.settings import Ramp
from bertworks.data.masking import Masking
from bertworks.data.packing import (
    Features,
    Goal,
    flatten_parts,
    group_by_budget,
    join_pieces,
)
from bertworks.data.passages import LABELS, Pairs, Passages
from bertworks.data.shards import Shards


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """How pre-training batches are made."""

    tokens: Ramp  # per step
    longest: int  # pieces of a text, special ones counted
    objectives: tuple[str, ...] = ("fill_mask", "next_sentence")
    accumulate: int = 1  # parts that a step is computed in
    seed: int = 0
    mask_rate: Ramp | None = None  # None: the masking's own
    split_share: float = 0.0  # of the texts: those in two parts, where no objective asks of pairs
    repeat_share: float = 0.0  # of the texts: those whose two parts are the same
    causal_share: Ramp = Ramp(0, 0)  # of the steps: those that ask for the next piece instead
    first_step: int = 0  # with which the first pass over the corpus begins
    num_steps: int = 1  # of the run, over which ramps move

    @property
    def pair_objectives(self) -> tuple[str, ...]:
        """The objectives that ask of pairs."""
        return tuple(name for name in self.objectives if name in LABELS)

    @property
    def has_pairs(self) -> bool:
        """Whether there are texts of two parts."""
        return bool(self.pair_objectives) or self.split_share + self.repeat_share > 0

    def share(self, step: int) -> float:
        """Return how much of the run is over with a step."""
        return min((step + 1) / self.num_steps, 1.0)

    def is_causal(self, step: int) -> bool:
        """Tell whether a step asks for the next piece instead of all else."""
        chance = self.causal_share.at(self.share(step))
        return bool(random_at(self.seed, "causal", step).random() < chance)


class CorpusBatches:
    """The batches of a pre-training run."""

    def __init__(
        self, shards: Shards, masking: Masking, plan: BatchPlan, *, held_out: bool = False
    ) -> None:
        self.shards = shards
        self.masking = masking
        self.plan = plan
        self.num_added = masking.specials.num_added(pair=plan.has_pairs)
        self.passages = Passages(shards, room=plan.longest - self.num_added, held_out=held_out)
        self._epochs: dict[int, _Epoch] = {}
        self._first_steps = [plan.first_step]  # of each epoch planned so far

    def at(self, step: int, parts: Sequence[int] | None = None) -> list[Batch]:
        """Return the parts of one step's batch (the first step is 0), or only those asked for.

        What is hidden is drawn for the whole step, so that it does not depend on the parts.
        """
        epoch = self.epoch_of(step)
        plan = self._epoch(epoch)
        texts = plan.groups[step - self._first_steps[epoch]]
        order = texts[np.argsort(plan.sizes[texts], kind="stable")]
        is_causal = self.plan.is_causal(step)
        asked = self._next_pieces if is_causal else self._features
        features = asked(plan.pairs, order, step)
        bundles = [[text] for text in features]
        batches = flatten_parts(bundles, count=self.plan.accumulate, wanted=parts)
        return [replace(batch, is_causal=is_causal) for batch in batches]

    def steps_in_epoch(self, epoch: int) -> int:
        """Return how many steps one pass over the corpus takes."""
        return len(self._epoch(epoch).groups)

    def epoch_of(self, step: int) -> int:
        """Return which pass over the corpus a step belongs to."""
        while self._first_steps[-1] <= step:
            self._first_step(len(self._first_steps))
        return int(np.searchsorted(self._first_steps, step, side="right")) - 1

    def _first_step(self, epoch: int) -> int:
        """Return the step with which an epoch begins; those before it are planned for that."""
        while len(self._first_steps) <= epoch:
            last = len(self._first_steps) - 1
            self._first_steps.append(self._first_steps[-1] + len(self._epoch(last).groups))
        return self._first_steps[epoch]

    def _epoch(self, epoch: int) -> "_Epoch":
        if epoch not in self._epochs:
            self._epochs = {epoch: self._plan_epoch(epoch)}  # one at a time is enough
        return self._epochs[epoch]

    def _plan_epoch(self, epoch: int) -> "_Epoch":
        random = random_at(self.plan.seed, "epoch", epoch)
        pairs = self._pairs(random)
        order = random.permutation(len(self.passages))
        sizes = pairs.sizes() + self.num_added
        groups = group_by_budget(sizes[order], budget=self._budget(epoch))
        return _Epoch(pairs, sizes, [order[group] for group in groups])

    def _pairs(self, random: np.random.Generator) -> Pairs:
        if kinds := self.plan.pair_objectives:
            return self.passages.pairs(random, kinds)
        if self.plan.has_pairs:
            shares = {"share": self.plan.split_share, "repeated": self.plan.repeat_share}
            return self.passages.halves(random, **shares)
        return self.passages.singles()

    def _budget(self, epoch: int) -> Callable[[int], float]:
        """Return how many tokens each step of an epoch may have."""
        tokens = self.plan.tokens
        first = 0 if tokens.is_constant else self._first_step(epoch)
        return lambda number: tokens.at(self.plan.share(first + number))

    def _features(self, pairs: Pairs, order: np.ndarray, step: int) -> list[Features]:
        texts = [self._text(pairs, index) for index in order]
        lengths = np.array([len(tokens) for tokens, _ in texts])
        tokens = np.concatenate([tokens for tokens, _ in texts])
        random = random_at(self.plan.seed, "mask", step)
        ramp = self.plan.mask_rate
        rate = None if ramp is None else ramp.at(self.plan.share(step))
        begins_word = None
        if self.masking.needs_words:
            begins_word = self._begins_word(pairs, order, lengths)
        hidden, at = self.masking.hide(tokens, lengths, random, begins_word=begins_word, rate=rate)
        ends = np.cumsum(lengths)
        places = np.split(at, np.searchsorted(at, ends)[:-1])
        features = []
        for row, index in enumerate(order):
            start = ends[row] - lengths[row]
            goals = {"fill_mask": Goal(tokens[places[row]], places[row] - start)}
            for name in self.plan.pair_objectives:
                goals[name] = Goal((pairs.label_for(name, index),))
            if "replaced_token" in self.plan.objectives:
                goals["replaced_token"] = self._all_original(texts[row][0])
            text = hidden[start : ends[row]]
            features.append(Features(text, texts[row][1], goals, int(index)))
        return features

    def _next_pieces(self, pairs: Pairs, order: np.ndarray, step: int) -> list[Features]:
        """Hide nothing and ask of every token which one follows."""
        features = []
        for index in order:
            tokens, segments = self._text(pairs, index)
            goals = {"next_piece": Goal(tokens[1:], np.arange(len(tokens) - 1))}
            features.append(Features(tokens, segments, goals, int(index)))
        return features

    def _all_original(self, tokens: np.ndarray) -> Goal:
        """Ask of every ordinary token whether it was replaced; only the model will know."""
        at = np.flatnonzero(~np.isin(tokens, self.masking.specials.as_tuple()))
        return Goal(np.zeros(len(at), dtype=np.int64), at)

    def _begins_word(self, pairs: Pairs, order: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Tell for every token of the texts whether it begins a word; special pieces do."""
        spans = np.concatenate([pairs.first[order], pairs.second[order]])
        sizes = spans[:, 1] - spans[:, 0]
        first = np.cumsum(lengths) - lengths + 1
        second = first + sizes[: len(order)] + self.masking.specials.num_between
        begins = np.ones(lengths.sum(), dtype=bool)
        places = _count_from(np.concatenate([first, second]), sizes)
        begins[places] = self.shards.begins_word(_count_from(spans[:, 0], sizes))
        return begins

    def _text(self, pairs: Pairs, index: int) -> tuple[np.ndarray, np.ndarray]:
        first = self.shards.tokens(*pairs.first[index])
        second = self.shards.tokens(*pairs.second[index]) if pairs.label[index] >= 0 else None
        return join_pieces(first, second, self.masking.specials)


def _count_from(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Count on from each start, so many steps as its size says."""
    return np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


@dataclass(frozen=True)
class _Epoch:
    pairs: Pairs
    sizes: np.ndarray  # tokens of each text
    groups: list[np.ndarray]
