"""What a training run is asked to do."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, Self

from bertworks.core.crew import Crew
from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp
from bertworks.training.layers import Layers
from bertworks.training.optimizer import Adam, OptimizerName
from bertworks.training.pace import Budget, Pace, Spent
from bertworks.training.regularize import Regularize
from bertworks.training.schedule import Schedule

Sharding = Literal["none", "full"]


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How long and how fast a model learns."""

    steps: int | None = None  # None: as many as the budget allows
    budget: Budget | None = None  # with steps as well the run ends with what is over first
    lr: float
    schedule: Schedule = field(
        default_factory=Schedule
    )  # warm-up in steps, or in seconds of the budget
    optimizer: OptimizerName = "adamw"
    adam: Adam = field(default_factory=Adam)
    weight_decay: float = 0.01
    layers: Layers = field(default_factory=Layers)  # which of them learn, and how fast
    average: float = 0.0  # of the weights, over about 1 / (1 - average) steps; 0: none
    clip: float = 1.0  # the largest norm of a gradient
    weights: Mapping[str, Ramp] = field(default_factory=dict)  # of the tasks' losses; others are 1
    spike: float = 0.0  # a loss so many times its average is not learned from; 0: every one is
    seed: int = 0
    regularize: Regularize = field(default_factory=Regularize)
    workers: int = 0
    checkpoint_every: int = 0  # steps; 0: only when interrupted
    evaluate_every: int = 0  # steps; 0: never
    patience: int = 0  # evaluations without a gain after which a run ends; 0: none do
    sharding: Sharding = "none"  # what of a model lies in each of the processes that train it
    is_nested: bool = False  # in another run, which shows its meter and heeds signals

    def __post_init__(self) -> None:
        if self.sharding == "full" and self.optimizer != "adamw":
            raise UsageError(
                f"--optimizer {self.optimizer} looks at whole matrices, but --sharding full leaves "
                "each process some rows; use --optimizer adamw or --sharding none"
            )

        if self.optimizer != "adamw" and not self.adam.corrects:
            raise UsageError(
                f"--no-bias-correction makes adamw that of the original BERT, but the optimizer is "
                f"{self.optimizer}; leave one of both out"
            )
        if self.optimizer != "adamw" and self.regularize.decay_toward != "zero":
            raise UsageError(
                f"--decay-toward {self.regularize.decay_toward} goes with --optimizer adamw, not "
                f"{self.optimizer}"
            )
        if self.average and self.regularize.average_last:
            raise UsageError("--average and --average-last are two averages; leave one out")

    def gives_up(self, step: int, *, best_step: int) -> bool:
        """Tell whether a run that stands at a step has waited too long for a better score."""
        return bool(self.patience) and step - best_step >= self.patience * self.evaluate_every

    @property
    def average_since(self) -> int:
        """The step after which evaluations are among the last that are averaged."""
        return (self.steps or 0) - self.regularize.average_last * self.evaluate_every

    def weights_at(self, share: float) -> dict[str, float]:
        """Return the weights of the tasks' losses after a share of the run."""
        return {name: ramp.at(share) for name, ramp in self.weights.items()}

    def pace(self, before: Spent) -> Pace:
        """Return where a run stands that has taken so much time before."""
        return Pace(steps=self.steps, budget=self.budget, schedule=self.schedule, before=before)


@dataclass(frozen=True)
class Evaluation:
    """A model's scores in the middle of a run; a higher score is better."""

    score: float | None  # None: no moment is better than another, so the last weights stand
    metrics: dict[str, float]

    def agreed(self, crew: Crew) -> Self:
        """Return the scores that the first process has found."""
        return type(self)(**crew.agree(asdict(self)))
