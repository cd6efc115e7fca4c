"""Rows that are weighed against each other: the softmax over each group of a flat list."""

from torch import Tensor


def grouped_log_softmax(scores: Tensor, groups: Tensor) -> Tensor:
    """Return the log-probability of each row within its group, [M] or [M, L], column by column.

    Groups are numbered from 0 on and may stand in any order.
    """
    rows = groups if scores.dim() == 1 else groups[:, None].expand_as(scores)
    # As many places as rows are enough, and their number is known without waiting for a device.
    highest = scores.new_full(scores.shape, -float("inf"))
    highest = highest.scatter_reduce(0, rows, scores.detach(), "amax")
    shifted = scores - highest.gather(0, rows)
    total = scores.new_zeros(scores.shape).scatter_add(0, rows, shifted.exp())
    return shifted - total.gather(0, rows).log()
