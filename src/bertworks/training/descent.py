"""A model on its way down: the optimizer moves its weights, and their average follows."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from bertworks.training.average import Average
from bertworks.training.layers import Ladder
from bertworks.training.lora import Lora, projections
from bertworks.training.mixout import Mixout, linear_weights
from bertworks.training.optimizer import make_optimizer, set_rate, share_rate
from bertworks.training.plan import TrainingPlan
from bertworks.training.pretrained import Pretrained
from bertworks.training.run import Counters, Run, state_of


class Descent:
    """A model with all that a checkpoint keeps of its learning."""

    def __init__(
        self,
        model: nn.Module,
        plan: TrainingPlan,
        *,
        moves_first: bool = False,
        in_half: bool = False,  # whether the forward pass computes so
    ) -> None:
        self.model = model
        self.moves_first = moves_first  # where it can: before what a step measured is known
        asked = plan.regularize
        pretrained = _pretrained(model, plan) if asked.needs_pretrained else None
        self.mixout = _mixout(model, plan, pretrained)
        self.lora = _lora(model, plan, pretrained)
        self.pull = pretrained if asked.decay_toward == "pretrained" else None
        self.weight_decay = plan.weight_decay
        self.optimizer: torch.optim.Optimizer = make_optimizer(
            model,
            name=plan.optimizer,
            lr=plan.lr,
            weight_decay=0.0 if self.pull else plan.weight_decay,
            adam=plan.adam,
            in_half=in_half,
        )
        self.average = _average(model, plan)
        self.ladder = Ladder(model, plan.layers)
        if plan.layers.decay != 1.0:
            shares = self.ladder.shares()
            thin = self.lora.shares(shares) if self.lora else {}
            share_rate(self.optimizer, shares | thin)

    def freeze(self, step: int) -> None:
        """Let only those layers learn whose time has come."""
        self.ladder.freeze(step)
        if self.lora:
            self.lora.ask_for_gradients()

    @contextmanager
    def lent(self, step: int) -> Iterator[None]:
        """Give the model the weights that a step is to see; afterwards gradients are of its own."""
        with self.mixout.lent(step) if self.mixout else nullcontext():
            yield
        if self.lora:
            self.lora.pull_back()

    def step_unless(self, is_bad: Tensor, rate: float, *, number: int) -> bool:
        """Move the weights unless the device finds that they must stay; tell if it can be told so.

        Nobody waits for its answer, so that it has work until what it measured is known.
        """
        heeds = getattr(self.optimizer, "_step_supports_amp_scaling", False)
        if not (heeds and self.moves_first) or self.pull or self.lora or self.average:
            return False
        optimizer: Any = self.optimizer
        optimizer.found_inf = is_bad.float()  # as torch's own scaler of gradients tells it
        self.step(rate, number=number)
        optimizer.found_inf = None
        return True

    def step(self, rate: float, *, number: int) -> None:
        """Move the weights along their gradients, for the step of this number."""
        set_rate(self.optimizer, rate)
        if self.pull:
            self.pull.draw_back(self.optimizer, decay=self.weight_decay)
        self.optimizer.step()
        if self.lora:
            self.lora.merge()
        if self.average:
            self.average.update(number)

    def forget_gradients(self) -> None:
        """Make room for those of the next step."""
        self.optimizer.zero_grad()

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors of a checkpoint by the name of their file."""
        return state_of(self.model, self.optimizer, self.average)

    def restore(self, run: Run) -> Counters:
        """Continue from the newest whole checkpoint of a run, or from the beginning."""
        return run.restore(self.model, self.optimizer, self.average)

    def go_back(self, run: Run, *, before: int) -> Counters:
        """Return to the newest whole checkpoint from before a step."""
        return run.go_back(self.model, self.optimizer, self.average, before=before)

    def finish(self, run: Run, at: Counters) -> None:
        """End with the best weights, or with the average where none were chosen."""
        if at.best_step:
            run.load_best(self.model, at.best_step)
        elif self.average:
            self.average.apply()
        if self.lora:
            self.lora.take_off()


def _pretrained(model: nn.Module, plan: TrainingPlan) -> Pretrained:
    """Keep the values of those matrices that some ingredient will ask for."""
    asked, wanted = plan.regularize, set[str]()
    if asked.decay_toward == "pretrained":
        wanted |= {name for name, parameter in model.named_parameters() if parameter.dim() >= 2}
    if asked.mixout:
        wanted |= linear_weights(model).keys()
    if asked.lora:
        wanted |= projections(model, asked.lora.on).keys()
    return Pretrained(model, fresh=plan.layers.fresh, only=wanted)


def _mixout(model: nn.Module, plan: TrainingPlan, pretrained: Pretrained | None) -> Mixout | None:
    asked = plan.regularize
    rate = asked.mixout or asked.parameter_dropout
    if not rate:
        return None
    return Mixout(model, rate=rate, seed=plan.seed, toward=pretrained if asked.mixout else None)


def _lora(model: nn.Module, plan: TrainingPlan, pretrained: Pretrained | None) -> Lora | None:
    if plan.regularize.lora is None or pretrained is None:
        return None
    return Lora(model, plan.regularize.lora, pretrained=pretrained, seed=plan.seed)


def _average(model: nn.Module, plan: TrainingPlan) -> Average | None:
    """Return the average of all steps, or that of the last evaluations, where one is wanted."""
    if plan.average:
        return Average(model, decay=plan.average)
    if not plan.regularize.average_last:
        return None
    return Average(model, since=plan.average_since, every=plan.evaluate_every)
