"""How often values are how large: what a page of metrics tells of times and sizes."""

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock

from bertworks.service.waiting import Batch

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
COUNTS = tuple(4**power for power in range(10))  # of inputs or tokens


class Histogram:
    """Counts values by the first of some bounds that they do not exceed; of any thread."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        self._lock = Lock()

    def add(self, *values: float) -> None:
        """Count some values."""
        with self._lock:
            for value in values:
                self._counts[bisect_left(self._bounds, value)] += 1
            self._total += sum(values)

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Yield what Prometheus reads."""
        with self._lock:
            counts, total, below = list(self._counts), self._total, 0
        for bound, count in zip((*self._bounds, "+Inf"), counts, strict=True):
            below += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {below}'
        yield f"{name}_sum{{{labels}}} {total:.6f}"
        yield f"{name}_count{{{labels}}} {below}"


class BatchMeasures:
    """What the batches of a model were like, also while it is exchanged for another."""

    def __init__(self) -> None:
        self.waited, self.computed = Histogram(SECONDS), Histogram(SECONDS)
        self.batch_items, self.batch_tokens = Histogram(COUNTS), Histogram(COUNTS)
        self.input_tokens = Histogram(COUNTS)

    def begin(self, batch: Batch) -> None:
        """Take a batch that is begun."""
        if not batch.jobs:
            return
        now = time.monotonic()
        self.waited.add(*(now - job.came for job in batch.jobs))
        self.input_tokens.add(*(job.item.num_read for job in batch.jobs))
        self.batch_items.add(len(batch.jobs))
        self.batch_tokens.add(batch.num_tokens)

    @property
    def told(self) -> Mapping[str, Histogram]:
        """All of them by the names of MEANINGS."""
        return {
            "bertworks_queue_seconds": self.waited,
            "bertworks_batch_seconds": self.computed,
            "bertworks_batch_items": self.batch_items,
            "bertworks_batch_tokens": self.batch_tokens,
            "bertworks_input_tokens": self.input_tokens,
        }


MEANINGS = {
    "bertworks_queue_seconds": "How long inputs waited until they were begun.",
    "bertworks_batch_seconds": "How long batches were computed.",
    "bertworks_batch_items": "How many inputs were computed together.",
    "bertworks_batch_tokens": "How many tokens were computed together.",
    "bertworks_input_tokens": "How many tokens inputs had.",
}
