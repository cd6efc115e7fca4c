"""The running average of a model's weights, which often does better than the last of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bertworks.training.sharding import fitted

COUNT = "count"  # beside the names of parameters


class Average:
    """An exponential average, kept in single precision; the first weights count as much as later.

    After t updates the newest weights have the share (1 - decay) / (1 - decay ** t), so that the
    average is that of the weights seen, whatever their number, and holds nothing of the draw. With
    a decay of 1 all count alike. Only steps after the first `since` count, one of `every`.
    """

    def __init__(
        self, model: nn.Module, *, decay: float = 1.0, since: int = 0, every: int = 1
    ) -> None:
        self.decay = decay
        self.since = since
        self.every = every
        self.count = 0
        self.parameters = dict(model.named_parameters())
        self._means = {
            name: torch.zeros_like(parameter, dtype=torch.float32)
            for name, parameter in self.parameters.items()
        }

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the model's weights after a step that counts."""
        if step <= self.since or step % self.every:
            return
        self.count += 1
        is_even = self.decay == 1
        share = 1 / self.count if is_even else (1 - self.decay) / (1 - self.decay**self.count)
        weights = [parameter.float() for parameter in self.parameters.values()]
        torch._foreach_lerp_(list(self._means.values()), weights, share)

    @torch.no_grad()
    def apply(self) -> None:
        """Give the model the average, if there is one yet."""
        if self.count:
            for name, parameter in self.parameters.items():
                parameter.copy_(self._means[name])

    def tensors(self) -> dict[str, Tensor]:
        """Return the average as named tensors."""
        return {**self._means, COUNT: torch.tensor(self.count)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what was saved."""
        self.count = int(tensors[COUNT])
        for name, mean in self._means.items():
            mean.copy_(fitted(tensors[name], mean))


@contextmanager
def applied(average: Average | None) -> Iterator[None]:
    """Give a model its average for a while, where there is one."""
    if average is None:
        yield
        return
    own = {name: parameter.detach().clone() for name, parameter in average.parameters.items()}
    average.apply()
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter in average.parameters.items():
                parameter.copy_(own[name])
