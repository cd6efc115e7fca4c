"""A model on its way down: the optimizer moves its weights, and their average follows."""

import torch
from torch import Tensor, nn

from bertworks.training.average import Average
from bertworks.training.layers import Ladder
from bertworks.training.optimizer import make_optimizer, set_rate, share_rate
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Counters, Run, state_of


class Descent:
    """A model with all that a checkpoint keeps of its learning."""

    def __init__(self, model: nn.Module, plan: TrainingPlan) -> None:
        self.model = model
        self.optimizer: torch.optim.Optimizer = make_optimizer(
            model,
            name=plan.optimizer,
            lr=plan.lr,
            weight_decay=plan.weight_decay,
            adam=plan.adam,
        )
        self.average = Average(model, decay=plan.average) if plan.average else None
        self.ladder = Ladder(model, plan.layers)
        if plan.layers.decay != 1.0:
            share_rate(self.optimizer, self.ladder.shares())

    def freeze(self, step: int) -> None:
        """Let only those layers learn whose time has come."""
        self.ladder.freeze(step)

    def step(self, rate: float) -> None:
        """Move the weights along their gradients."""
        set_rate(self.optimizer, rate)
        self.optimizer.step()
        if self.average:
            self.average.update()

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
