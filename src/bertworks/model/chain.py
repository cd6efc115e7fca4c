"""Labels in a row, each scored beside the one before it: how likely a whole row is.

Shapes: M words of a batch, L labels, W windows.
"""

import math

import torch
from torch import Tensor

from bertworks.core.batch import Target
from bertworks.core.pieces import IGNORE


def chain_loss(rows: Tensor, target: Target) -> Tensor:
    """Return the negative log-likelihood of the labels of each window, summed.

    A window of which a label is not known tells nothing.
    """
    num_labels = math.isqrt(rows.shape[1])
    scores = rows.float().unflatten(1, (num_labels, num_labels))  # [M, L * L] -> [M, L, L]
    assert target.groups is not None  # the task tells which words are of one window
    _, windows, counts = target.groups.unique_consecutive(return_inverse=True, return_counts=True)
    labels = target.values.clamp(min=0)
    # What stands before the first place of a window is of no consequence.
    picked = scores[torch.arange(len(labels), device=labels.device), labels.roll(1), labels]
    path = picked.new_zeros(len(counts)).index_add(0, windows, picked)
    unknown = path.new_zeros(len(counts)).index_add(
        0, windows, (target.values == IGNORE).to(path.dtype)
    )
    return torch.where(unknown == 0, log_partition(scores, counts.tolist()) - path, 0.0).sum()


def log_partition(scores: Tensor, counts: list[int]) -> Tensor:
    """Return the log of the summed scores of all paths through each window, [M, L, L] -> [W]."""
    if not counts:
        return scores.new_zeros(0)
    lengths = torch.tensor(counts)
    order = lengths.argsort(descending=True, stable=True)  # long ones first: they go on to the end
    starts = (lengths.cumsum(0) - lengths)[order].to(scores.device)
    reached = scores[starts, 0]  # [W, L]
    for step in range(1, int(lengths.max())):
        going = int((lengths > step).sum())
        on = torch.logsumexp(reached[:going, :, None] + scores[starts[:going] + step], dim=1)
        reached = torch.cat([on, reached[going:]])
    return torch.logsumexp(reached, dim=1)[order.argsort().to(scores.device)]
