"""Pre-training batches: each a pure function of (shards, seed, step)."""

from dataclasses import dataclass

import numpy as np

from bertworks.core.batch import Batch
from bertworks.core.seeds import random_at
from bertworks.data.masking import Masking
from bertworks.data.packing import Features, Goal, flatten, group_by_budget, join_pieces
from bertworks.data.passages import Pairs, Passages
from bertworks.data.shards import Shards


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """How pre-training batches are made."""

    tokens: int  # per step
    longest: int  # pieces of a text, special ones counted
    accumulate: int = 1  # parts that a step is computed in
    pairs: bool = True  # with next-sentence prediction
    seed: int = 0


class CorpusBatches:
    """The batches of a pre-training run."""

    def __init__(
        self, shards: Shards, masking: Masking, plan: BatchPlan, *, held_out: bool = False
    ) -> None:
        self.shards = shards
        self.masking = masking
        self.plan = plan
        self.num_added = masking.specials.num_added(pair=True)
        self.passages = Passages(shards, room=plan.longest - self.num_added, held_out=held_out)
        self._epochs: dict[int, _Epoch] = {}
        self._first_steps = [0]  # of each epoch planned so far

    def at(self, step: int) -> list[Batch]:
        """Return the parts of one step's batch (the first step is 0)."""
        epoch = self.epoch_of(step)
        plan = self._epoch(epoch)
        texts = plan.groups[step - self._first_steps[epoch]]
        order = texts[np.argsort(plan.sizes[texts], kind="stable")]
        features = self._features(plan.pairs, order, step)
        parts = min(self.plan.accumulate, len(features))
        return [flatten(features[part::parts]) for part in range(parts)]

    def steps_in_epoch(self, epoch: int) -> int:
        """Return how many steps one pass over the corpus takes."""
        return len(self._epoch(epoch).groups)

    def epoch_of(self, step: int) -> int:
        """Return which pass over the corpus a step belongs to."""
        while self._first_steps[-1] <= step:
            epoch = len(self._first_steps) - 1
            self._first_steps.append(self._first_steps[-1] + len(self._epoch(epoch).groups))
        return int(np.searchsorted(self._first_steps, step, side="right")) - 1

    def _epoch(self, epoch: int) -> "_Epoch":
        if epoch not in self._epochs:
            self._epochs = {epoch: self._plan_epoch(epoch)}  # one at a time is enough
        return self._epochs[epoch]

    def _plan_epoch(self, epoch: int) -> "_Epoch":
        random = random_at(self.plan.seed, "epoch", epoch)
        pairs = self.passages.pairs(random) if self.plan.pairs else self.passages.singles()
        order = random.permutation(len(self.passages))
        sizes = pairs.sizes() + self.num_added
        groups = group_by_budget(sizes[order], budget=self.plan.tokens)
        return _Epoch(pairs, sizes, [order[group] for group in groups])

    def _features(self, pairs: Pairs, order: np.ndarray, step: int) -> list[Features]:
        texts = [self._text(pairs, index) for index in order]
        lengths = np.array([len(tokens) for tokens, _ in texts])
        tokens = np.concatenate([tokens for tokens, _ in texts])
        random = random_at(self.plan.seed, "mask", step)
        hidden, at = self.masking.hide(tokens, lengths, random)
        ends = np.cumsum(lengths)
        places = np.split(at, np.searchsorted(at, ends)[:-1])
        features = []
        for row, index in enumerate(order):
            start = ends[row] - lengths[row]
            goals = {"fill_mask": Goal(tokens[places[row]], places[row] - start)}
            if self.plan.pairs:
                goals["next_sentence"] = Goal((int(pairs.label[index]),))
            text = hidden[start : ends[row]]
            features.append(Features(text, texts[row][1], goals, int(index)))
        return features

    def _text(self, pairs: Pairs, index: int) -> tuple[np.ndarray, np.ndarray]:
        first = self.shards.tokens(*pairs.first[index])
        second = self.shards.tokens(*pairs.second[index]) if pairs.label[index] >= 0 else None
        return join_pieces(first, second, self.masking.specials)


@dataclass(frozen=True)
class _Epoch:
    pairs: Pairs
    sizes: np.ndarray  # tokens of each text
    groups: list[np.ndarray]
