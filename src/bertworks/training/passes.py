"""How a part of a step passes through a model: once, or as often as its regularizers ask."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.training.adversary import word_table
from bertworks.training.plan import TrainingPlan
from bertworks.training.r_drop import Judging, losses_of_two_passes

Losses = dict[str, Tensor]
LEAST_COUNT = 1e-9


class Passes:
    """A model as it learns from the parts of a step, after a share of the run."""

    def __init__(
        self, model: nn.Module, plan: TrainingPlan, machine: Machine, *, share: float
    ) -> None:
        self.model = model
        self.machine = machine
        self.regularize = plan.regularize
        self.smoothing = plan.regularize.smoothing.at(share)
        self.weights = plan.weights_at(share)

    def learn(self, part: Batch, *, seed: int, totals: Mapping[str, float]) -> Losses:
        """Add the gradients of a part; return what it adds to the step's mean losses.

        `totals` are the counts of the whole step by task. Weights scale what is learned from; the
        losses come back without them.
        """
        there = part.smoothed(self.smoothing) if self.smoothing else part

        def look() -> tuple[Tensor, Losses]:
            torch.manual_seed(seed)
            with self.machine.autocast():
                sums = self._losses(there)
            shares = {name: loss / max(totals[name], LEAST_COUNT) for name, loss in sums.items()}
            weighted = [self.weights.get(name, 1.0) * share for name, share in shares.items()]
            return torch.stack(weighted).sum(), shares

        if adversary := self.regularize.adversary:
            return adversary.learn(look, word_table(self.model), there, seed=seed)
        total, shares = look()
        total.backward()
        return {name: share.detach() for name, share in shares.items()}

    def _losses(self, batch: Batch) -> Losses:
        if self.regularize.r_drop:
            judging = cast(Judging, self.model)
            return losses_of_two_passes(judging, batch, weight=self.regularize.r_drop)
        return self.model(batch)
