"""What a task is, and the model that carries an encoder and its task heads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch, Target
from bertworks.data.packing import Features
from bertworks.model.config import EncoderConfig
from bertworks.model.encoder import DEVIATION, Encoder, initialize
from bertworks.tasks.claims import Claims
from bertworks.tasks.statistic import Statistic
from bertworks.tokenizer.tokenizer import Tokenizer

Answer = dict[str, Any]  # JSON data, as it is written and served
Options = dict[str, Any]  # JSON data, saved with the model
Parts = dict[str, Any]  # JSON data, saved with a report
Rows = np.ndarray  # the logits of one window, a row for each of its targets
Judged = dict[str, tuple[Tensor, Target]]  # by task: logits, and what they should be


class Scorer(Protocol):
    """Judges answers one by one and keeps only what their scores are made of."""

    def add(self, example: Any, answer: Answer) -> "Verdict":
        """Take one answer and judge it by itself."""

    def take(self, parts: "Parts") -> None:
        """Take the parts of a verdict that was given before."""

    def metrics(self) -> dict[str, float]:
        """Return the scores of all answers; the first is the one to improve."""

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores with what each example adds to them; one that is undefined is not."""


@runtime_checkable
class LabelTable(Protocol):
    """A scorer that can also judge each label by itself."""

    def by_label(self) -> dict[str, dict[str, float]]:
        """Return precision, recall, F1 and the number of examples of each label."""

    def label_statistics(self) -> dict[str, Statistic]:
        """Return the F1 of each label with what each example adds to it."""


@dataclass(frozen=True)
class Verdict:
    """One answer beside what it should have been, as a person reads them."""

    gold: str
    given: str
    score: float | None = None  # from 0 to 1; None: an answer alone has none
    certainty: float = 1.0  # of the answer, by the model's own account
    parts: Parts = field(default_factory=dict, compare=False)  # what the scores are made of
    claims: Claims | None = field(default=None, compare=False)  # None: the answer has no chances
    label: str | None = field(default=None, compare=False)  # by which examples are of a kind


class Scored(Protocol):
    """What gives answers that can be judged."""

    def scorer(self) -> Scorer:
        """Return what judges answers by the gold of their examples."""


class Task(Protocol):
    """The five things a task must know."""

    kind: str  # its row in the catalog
    name: str  # among the tasks of its model
    labels: tuple[str, ...]
    options: Options  # how it differs from the usual

    def features(self, example: Any, tokenizer: Tokenizer, *, longest: int) -> list[Features]:
        """Return the windows in which the network reads an example."""

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make the task head: `head(hidden, batch, encoder)` gives one row of logits per target."""

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the loss summed over the target."""

    def decode(
        self,
        example: Any,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Turn the logit rows of an example's windows into its answer."""

    def scorer(self) -> Scorer:
        """Return what judges answers by the gold of their examples."""


@runtime_checkable
class Partial(Protocol):
    """A scorer some of whose scores not every gold tells."""

    @property
    def lacking(self) -> str:
        """Which scores the gold does not tell, and why; empty where it tells all."""


@runtime_checkable
class Noted(Protocol):
    """A scorer whose scores mean different things for different gold."""

    @property
    def note(self) -> str:
        """How the scores are to be read; empty where nothing is to be said of it."""


@runtime_checkable
class Alike(Protocol):
    """A scorer that sees whether nearly all answers are one and the same."""

    @property
    def are_alike(self) -> bool:
        """Whether they are, though the gold is not."""


@runtime_checkable
class Tunable(Protocol):
    """A task with a threshold or the like, which answers on examples that were not learned set."""

    def tuned(self, examples: Sequence[Any], answers: Sequence[Answer]) -> Task:
        """Return the task as its answers are best."""


@runtime_checkable
class Tempered(Protocol):
    """A task whose chances are made more or less sure by a temperature."""

    options: Options

    def with_temperature(self, temperature: float) -> Task:
        """Return the task whose logits are divided by a temperature."""


@runtime_checkable
class Writer(Protocol):
    """A task whose answers are written piece by piece, each after those before it."""

    @property
    def width(self) -> int:
        """How many answers to a text are written at once."""

    @property
    def most(self) -> int:
        """How many pieces an answer may have."""

    def write(self, model: "TaskModel", batch: Batch, tokenizer: Tokenizer) -> list[Answer]:
        """Return the answer to each text of a batch."""


@runtime_checkable
class Blinded(Protocol):
    """A task that reads an example otherwise where it may know the gold."""

    def blinded(self, example: Any) -> Any:
        """Return an example that is read as if nobody knew its gold."""


@runtime_checkable
class Borrower(Protocol):
    """A task whose head begins with weights from elsewhere in a pre-trained model."""

    def source_of(self, parameter: str) -> str | None:
        """Return the weight with which a parameter of the head begins; None: a fresh one."""


class Learner(Protocol):
    """What pre-training trains: one network, or several that learn from each other."""

    tasks: dict[str, Task]
    training: bool

    def train(self, mode: bool = True) -> Any:
        """Begin or end training, as modules do."""

    def judged(self, batch: Batch) -> Judged:
        """Return the logits of each task that the batch asks for, and their target."""


def losses_of(learner: Learner, batch: Batch) -> dict[str, Tensor]:
    """Return the loss of each task, summed over its target."""
    return {
        name: learner.tasks[name].loss(logits, target)
        for name, (logits, target) in learner.judged(batch).items()
    }


class Network(nn.Module):
    """A task head that reads texts by itself, and nothing of the encoder's vectors."""


class TaskModel(nn.Module):
    """One encoder with the heads of one or more tasks."""

    def __init__(
        self,
        config: EncoderConfig,
        tasks: Sequence[Task],
        *,
        seed: int = 0,
        deviation: float = DEVIATION,
    ) -> None:
        super().__init__()
        self.tasks = {task.name: task for task in tasks}
        self.encoder = Encoder(config)
        self.heads = nn.ModuleDict({name: task.head(config) for name, task in self.tasks.items()})
        if self.encoder.embeddings.pieces.weight.device.type != "meta":
            initialize(self, seed=seed, deviation=deviation)

    @classmethod
    def without_weights(cls, config: EncoderConfig, tasks: Sequence[Task]) -> Self:
        """Make the network without memory for its weights: they are loaded next."""
        with torch.device("meta"):
            return cls(config, tasks)

    def add(self, task: Task, head: nn.Module | None = None) -> None:
        """Take on one more task, with this head or one that starts as it was made."""
        made = task.head(self.config) if head is None else head
        self.tasks[task.name] = task
        self.heads[task.name] = made.train(self.training)

    def without(self, *names: str) -> Self:
        """Return the model without some of its tasks; all else is the same, not a copy."""
        made = self.without_weights(self.config, []).train(self.training)
        made.encoder = self.encoder
        for name, task in self.tasks.items():
            if name not in names:
                made.add(task, self.heads[name])
        return made

    @property
    def config(self) -> EncoderConfig:
        """The encoder's description."""
        return self.encoder.config

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return each task's loss, summed over its targets."""
        return losses_of(self, batch)

    def judged(self, batch: Batch) -> Judged:
        """Return the logits of each task that the batch asks for, and their target."""
        hidden = self.encoder(batch)
        return {
            name: (self.heads[name](hidden, batch, self.encoder), batch.targets[name])
            for name in self.tasks
            if name in batch.targets
        }

    def logits(self, batch: Batch, name: str) -> Tensor:
        """Return the logits of one task."""
        head = self.heads[name]
        if isinstance(head, Network):
            return head(None, batch, self.encoder)
        return head(self.encoder(batch), batch, self.encoder)
