"""The gradient of a step: forward, backward, added up over its parts and processes, clipped."""

from collections.abc import Callable
from contextlib import AbstractContextManager
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
        meanwhile: Callable[[], None],
    ) -> tuple[dict[str, float], float]:
        """Leave a step's gradient in the model; return its mean losses, and its length unclipped.

        The parts are seen with `weights`, which are lent for that time. The device is asked once,
        when all its work is on the way, and `meanwhile` is done while it computes.
        """
        with self._crew.in_time():
            passes = Passes(self._model, self._plan, self._machine, share=share)
            found = self._backward(passes, parts, step, weights) if parts else []
            return self._clip_and_measure(found, meanwhile)

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

    def _clip_and_measure(
        self, found: list[Losses], meanwhile: Callable[[], None]
    ) -> tuple[dict[str, float], float]:
        norm: Any = nn.utils.clip_grad_norm_(self._model.parameters(), self._plan.clip)
        norm = norm.full_tensor() if is_sharded(norm) else norm
        known: list[Tensor] = [norm, *(loss for part in found for loss in part.values())]
        on_the_way = torch.stack([one.double() for one in known])
        meanwhile()
        length, *numbers = on_the_way.tolist()
        names = list(found[0]) if found else []
        means = [sum(numbers[place :: len(names)]) for place in range(len(names))]
        return dict(zip(names, self._crew.sum(means), strict=True)), length
