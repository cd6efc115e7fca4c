"""R-Drop: two passes with different dropout should say the same (arXiv 2106.14448)."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from bertworks.core.batch import Batch, Target

Loss = Callable[[Tensor, Target], Tensor]


class Judging(Protocol):
    """A model whose logits can be seen before they become losses."""

    tasks: Mapping[str, Any]

    def judged(self, batch: Batch) -> dict[str, tuple[Tensor, Target]]:
        """Return the logits of each task that the batch asks for, and their target."""


def losses_of_two_passes(model: Judging, batch: Batch, *, weight: float) -> dict[str, Tensor]:
    """Return for each task the mean loss of two passes, and how far they are apart.

    It is half of what the paper writes, with its weight, so that it reads as that of one pass:
    (loss_1 + loss_2) / 2 + weight / 4 * (KL(1 | 2) + KL(2 | 1)).
    """
    first, second = model.judged(batch), model.judged(batch)
    found = {}
    for name, (logits, target) in first.items():
        loss: Loss = model.tasks[name].loss
        passes = [logits.float(), second[name][0].float()]
        losses = [loss(each, target) for each in passes]
        apart = divergence(passes, losses)
        found[name] = (losses[0] + losses[1]) / 2 + weight / 4 * apart
    return found


def divergence(logits: list[Tensor], losses: list[Tensor]) -> Tensor:
    """Return the sum of both Kullback-Leibler divergences of two passes, summed over a target.

    Where a loss is the negative log-likelihood of an exponential family with these logits (one
    label of many, several, a number, a place among candidates, a chain of tags), its slope is the
    mean that the logits expect less the gold. So the divergences add up to the product of the
    differences of the logits and of the slopes, and every row counts as much as in the loss.
    """
    slopes = [
        torch.autograd.grad(loss, each, create_graph=True)[0]
        for each, loss in zip(logits, losses, strict=True)
    ]
    return ((logits[0] - logits[1]) * (slopes[0] - slopes[1])).sum()
