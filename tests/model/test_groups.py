"""The softmax over groups is that of each group alone, with its gradient."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from bertworks.model.groups import grouped_log_softmax

sizes = st.lists(st.integers(1, 6), min_size=1, max_size=7)


@given(sizes, st.integers(0, 2**31), st.sampled_from([1.0, 1e4]))
def test_each_group_sums_to_one_by_itself(counts: list[int], seed: int, scale: float) -> None:
    random = torch.Generator().manual_seed(seed)
    groups = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    groups = groups[torch.randperm(len(groups), generator=random)]
    scores = (torch.randn(len(groups), 2, generator=random) * scale).requires_grad_()
    weights = torch.randn(len(groups), 2, generator=random)
    (grouped_log_softmax(scores, groups) * weights).sum().backward()
    found, gradient = grouped_log_softmax(scores, groups), scores.grad.clone()
    scores.grad = None
    for number in range(len(counts)):
        own = groups == number
        expected = scores[own].log_softmax(0)
        torch.testing.assert_close(found[own], expected)
        torch.testing.assert_close(grouped_log_softmax(scores[:, 0], groups)[own], expected[:, 0])
        (expected * weights[own]).sum().backward()
    torch.testing.assert_close(gradient, scores.grad, rtol=1e-4, atol=1e-5)
