"""The gradient of a step: forward, backward, added up over its parts and processes, clipped."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch
from bertworks.core.crew import Crew
from bertworks.core.device import Machine
from bertworks.core.seeds import derive
from bertworks.training.passes import Losses, Passes
from bertworks.training.plan import TrainingPlan
from bertworks.training.sharding import is_sharded


class Measured:
    """The mean losses of a step and the length of its gradient, on their way from the device."""

    def __init__(self, norm: Tensor, parts: Sequence[Losses], crew: Crew) -> None:
        self._crew = crew
        self._names = list(parts[0]) if parts else []
        means = [reduce(add, (part[name].double() for part in parts)) for name in self._names]
        self._numbers = torch.stack([norm.double(), *means])
        # Whoever reads them need not wait for what the device is given after this.
        self._here = self._numbers.to("cpu", non_blocking=True)
        self._are_here = torch.cuda.Event() if norm.is_cuda else None
        if self._are_here:
            self._are_here.record()

    def is_bad(self, limits: Mapping[str, float]) -> Tensor:
        """Tell on the device whether one is not finite, or a loss is above its limit."""
        found = ~self._numbers.isfinite().all()
        for place, name in enumerate(self._names, start=1):
            if name in limits:
                found = found | (self._numbers[place] > limits[name])
        return found

    def read(self) -> tuple[dict[str, float], float]:
        """Wait for them; return the losses, those of all processes, and the length."""
        with self._crew.in_time():
            if self._are_here:
                self._are_here.synchronize()
            length, *means = self._here.tolist()
            return dict(zip(self._names, self._crew.sum(means), strict=True)), length


class Gradients:
    """How the steps of a run move a model, before anything is moved."""

    def __init__(self, model: nn.Module, plan: TrainingPlan, machine: Machine, crew: Crew) -> None:
        self._model = model
        self._plan = plan
        self._machine = machine
        self._crew = crew

    def compute(
        self,
        parts: list[Batch],
        step: int,
        *,
        share: float,
        weights: AbstractContextManager[None],
    ) -> Measured:
        """Leave a step's gradient in the model; return its mean losses, and its length unclipped.

        The parts are seen with `weights`, which are lent for that time. Nothing waits for the
        device here: its work is on the way, and what it measures can be read later.
        """
        with self._crew.in_time():
            passes = Passes(self._model, self._plan, self._machine, share=share)
            found = self._backward(passes, parts, step, weights) if parts else []
            norm: Any = nn.utils.clip_grad_norm_(self._model.parameters(), self._plan.clip)
            norm = norm.full_tensor() if is_sharded(norm) else norm
            return Measured(norm, found, self._crew)

    def _backward(
        self,
        passes: Passes,
        parts: list[Batch],
        step: int,
        weights: AbstractContextManager[None],
    ) -> list[Losses]:
        """Add up the gradients of the parts; return what each adds to the step's mean losses.

        A task that the step asks nothing of has no loss.
        """
        names = list(parts[0].targets)
        counts = [sum(part.targets[name].count for part in parts) for name in names]
        totals = dict(zip(names, self._crew.sum(counts), strict=True))
        places = self._crew.own(len(parts))
        with weights:
            found = [
                passes.learn(part, seed=derive(self._plan.seed, "dropout", step, at), totals=totals)
                for at, part in zip(places, parts, strict=True)
            ]
        own = [p.grad for p in self._model.parameters() if p.grad is not None]
        self._crew.add_up([gradient for gradient in own if not is_sharded(gradient)])
        return [{name: loss for name, loss in one.items() if totals[name]} for one in found]
