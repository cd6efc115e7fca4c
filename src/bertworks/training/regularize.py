"""What keeps fine-tuning from collapsing or learning by heart, beside the optimizer."""

from dataclasses import dataclass
from typing import Literal

from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp
from bertworks.training.adversary import Adversary
from bertworks.training.lora import LoraPlan

DecayTarget = Literal["zero", "pretrained"]
NO_SMOOTHING = Ramp(0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Regularize:
    """Which ingredients a run has; by default none."""

    decay_toward: DecayTarget = "zero"  # what weights decay toward
    mixout: float = 0.0  # share of the weights that are put back to what they were
    parameter_dropout: float = 0.0  # share of the weights that are put to zero
    r_drop: float = 0.0  # weight of how far two passes are apart
    smoothing: Ramp = NO_SMOOTHING  # what labels give to all others, over the run
    average_last: int = 0  # evaluations whose weights are averaged, those at the end
    adversary: Adversary | None = None
    lora: LoraPlan | None = None

    def __post_init__(self) -> None:
        if self.mixout and self.parameter_dropout:
            raise UsageError(
                "--mixout and --parameter-dropout put the same weights to different values; "
                "leave one out"
            )

    @property
    def needs_pretrained(self) -> bool:
        """Whether the values are wanted that weights had before."""
        return bool(self.mixout or self.lora) or self.decay_toward == "pretrained"
