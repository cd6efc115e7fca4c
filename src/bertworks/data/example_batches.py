"""Fine-tuning batches: each a pure function of (examples, seed, step)."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from bertworks.core.batch import Batch
from bertworks.core.seeds import random_at
from bertworks.data.packing import Features, flatten, flatten_parts, group_by_budget

Recut = Callable[[int, int], Sequence[Features]]  # the windows of an epoch's example


class ExampleBatches:
    """The batches of a fine-tuning run: every example once an epoch, its windows together.

    These are the same in every epoch, unless examples are cut again for each.
    """

    def __init__(
        self,
        windows: Sequence[Sequence[Features]],
        *,
        batch_size: int,
        accumulate: int = 1,
        seed: int = 0,
        recut: Recut | None = None,
    ) -> None:
        self.windows = windows
        self.recut = recut
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.seed = seed
        self.steps_per_epoch = -(-len(windows) // batch_size)

    def at(self, step: int, parts: Sequence[int] | None = None) -> list[Batch]:
        """Return the parts of one step's batch (the first step is 0), or only those asked for."""
        epoch, index = divmod(step, self.steps_per_epoch)
        order = _order(self.seed, epoch, len(self.windows))
        chosen = order[index * self.batch_size : (index + 1) * self.batch_size]
        examples = [self._windows(epoch, int(example)) for example in chosen]
        examples.sort(key=lambda windows: max(len(window.tokens) for window in windows))
        return flatten_parts(examples, count=self.accumulate, wanted=parts)

    def num_seen(self, steps: int) -> int:
        """Return how many examples so many steps show; the last of an epoch may show fewer."""
        epochs, index = divmod(steps, self.steps_per_epoch)
        return epochs * len(self.windows) + index * self.batch_size

    def _windows(self, epoch: int, example: int) -> Sequence[Features]:
        return self.windows[example] if self.recut is None else self.recut(epoch, example)


class MixedBatches:
    """The batches of several tasks: each step is one task's, which has its share of an epoch.

    Every example of a task comes before any of its examples comes again.
    """

    def __init__(
        self, tasks: Sequence[ExampleBatches], *, temperature: float = 1.0, seed: int = 0
    ) -> None:
        self.tasks = tasks
        self.seed = seed
        self.steps_per_epoch = sum(task.steps_per_epoch for task in tasks)
        self.steps_of_task = share_steps(
            [task.steps_per_epoch for task in tasks], temperature=temperature
        )

    def at(self, step: int, parts: Sequence[int] | None = None) -> list[Batch]:
        """Return the parts of one step's batch (the first step is 0), or only those asked for."""
        epoch, index = divmod(step, self.steps_per_epoch)
        chosen = self._turns(epoch)[index]
        return self.tasks[chosen].at(self._steps_before(step)[chosen], parts)

    def num_seen(self, steps: int) -> int:
        """Return how many examples of all tasks so many steps show."""
        before = self._steps_before(steps)
        return sum(task.num_seen(own) for task, own in zip(self.tasks, before, strict=True))

    def _turns(self, epoch: int) -> np.ndarray:
        """Return whose turn each step of an epoch is."""
        return _turns(self.seed, epoch, tuple(self.steps_of_task))

    def _steps_before(self, step: int) -> list[int]:
        """Return how many steps before one were each task's."""
        epoch, index = divmod(step, self.steps_per_epoch)
        begun = np.bincount(self._turns(epoch)[:index], minlength=len(self.tasks))
        return (epoch * np.array(self.steps_of_task) + begun).tolist()


def share_steps(sizes: Sequence[int], *, temperature: float) -> list[int]:
    """Share as many steps as the sizes add up to: by size, or more evenly the hotter it is.

    Each gets one at least.
    """
    shares = (np.array(sizes) / max(sizes)) ** (1 / temperature)
    wanted = (shares / shares.sum() * sum(sizes)).round(6)  # whole ones are whole
    steps = np.floor(wanted).astype(int)
    left = sum(sizes) - int(steps.sum())
    steps[np.argsort(steps - wanted, kind="stable")[:left]] += 1
    while not steps.all():
        steps[steps.argmin()] += 1
        steps[steps.argmax()] -= 1
    return steps.tolist()


def length_sorted_batches(
    windows: Sequence[Features], *, budget: int, least: int = 0
) -> list[tuple[np.ndarray, Batch]]:
    """Return batches of texts of like length with the places they came from, for inference.

    A text takes of the budget of tokens what it has, but so many at least.
    """
    lengths = np.array([len(window.tokens) for window in windows])
    order = np.argsort(lengths, kind="stable")
    groups = group_by_budget(np.maximum(lengths[order], least), budget=lambda _: budget)
    return [(order[group], flatten([windows[i] for i in order[group]])) for group in groups]


@lru_cache(maxsize=8)  # drawn once an epoch, not at each of its steps
def _turns(seed: int, epoch: int, steps_of_task: tuple[int, ...]) -> np.ndarray:
    turns = np.repeat(np.arange(len(steps_of_task)), steps_of_task)
    return random_at(seed, "tasks", epoch).permutation(turns)


@lru_cache(maxsize=8)
def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    return random_at(seed, "epoch", epoch).permutation(count)
