"""Fine-tuning batches: each a pure function of (examples, seed, step)."""

from collections.abc import Sequence

import numpy as np

from bertworks.core.batch import Batch
from bertworks.core.seeds import random_at
from bertworks.data.packing import Features, flatten, flatten_parts, group_by_budget


class ExampleBatches:
    """The batches of a fine-tuning run: every example once an epoch, its windows together."""

    def __init__(
        self,
        windows: Sequence[Sequence[Features]],
        *,
        batch_size: int,
        accumulate: int = 1,
        seed: int = 0,
    ) -> None:
        self.windows = windows
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.seed = seed
        self.steps_per_epoch = -(-len(windows) // batch_size)

    def at(self, step: int, parts: Sequence[int] | None = None) -> list[Batch]:
        """Return the parts of one step's batch (the first step is 0), or only those asked for."""
        epoch, index = divmod(step, self.steps_per_epoch)
        order = random_at(self.seed, "epoch", epoch).permutation(len(self.windows))
        chosen = order[index * self.batch_size : (index + 1) * self.batch_size]
        examples = [self.windows[example] for example in chosen]
        examples.sort(key=lambda windows: max(len(window.tokens) for window in windows))
        return flatten_parts(examples, count=self.accumulate, wanted=parts)


def length_sorted_batches(
    windows: Sequence[Features], *, budget: int
) -> list[tuple[np.ndarray, Batch]]:
    """Return batches of texts of like length with the places they came from, for inference."""
    lengths = np.array([len(window.tokens) for window in windows])
    order = np.argsort(lengths, kind="stable")
    groups = group_by_budget(lengths[order], budget=lambda _: budget)
    return [(order[group], flatten([windows[i] for i in order[group]])) for group in groups]
