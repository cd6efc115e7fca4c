"""Turning requests away by their heads, before anything is read, when too much waits.

What is refused must cost next to nothing beside what is answered, or refusing takes the time from
answering. So no body is read here, no task is made, and what is said is written before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from bertworks.service.admission import Keys
from bertworks.service.failures import Failure
from bertworks.service.metrics import Metrics
from bertworks.service.models import Models
from bertworks.service.waiting import NUM_SIZES, size_of

BYTES_OF_TOKEN = 6  # of a body, about, names and brackets counted
SOONEST, LATEST = 1, 60  # seconds after which to come again
RawHeaders = Sequence[tuple[bytes, bytes]]


@dataclass
class Doorman:
    """Tells by the head of a request whether it could be taken in time."""

    models: Models
    metrics: Metrics
    keys: Keys
    paths: frozenset[str]  # where models are asked
    # Tokens, about, that were let in and do not wait yet, by the size of their request.
    expected: list[int] = field(default_factory=lambda: [0] * NUM_SIZES)

    def refusal(self, method: bytes, path: bytes, headers: RawHeaders) -> "int | Ticket | None":
        """Return after how many seconds a request should come again, or its ticket.

        None: it needs none.
        """
        route = path.decode("latin-1")
        if method != b"POST" or route not in self.paths:
            return None
        num_tokens = _length(headers) // BYTES_OF_TOKEN + 1
        seconds = self._seconds_to_come(num_tokens)
        if seconds is None or not self._may_ask(headers):
            return Ticket(self, num_tokens)
        self.metrics.refuse(route)
        return min(max(SOONEST, ceil(seconds)), LATEST)

    def _seconds_to_come(self, num_tokens: int) -> float | None:
        """Return how soon a model could take the request; only its body tells which it wants."""
        soonest, behind = float(LATEST), sum(self.expected[: size_of(num_tokens) + 1])
        if not self.models.is_loaded:
            return None  # for which there are other words
        for model in self.models:
            seconds = model.batcher.seconds_to_come(num_tokens, behind=behind)
            if seconds is None:
                return None
            soonest = min(soonest, seconds)
        return soonest

    def _may_ask(self, headers: RawHeaders) -> bool:
        """Tell whether the request brings a key; who has none is told that, not this."""
        if not self.keys:
            return True
        given = [value for name, value in headers if name == b"authorization"]
        return len(given) == 1 and self.keys.opens(given[0].decode("latin-1"))


class Ticket:
    """A place for a request that was let in, until it waits in line or is done with."""

    def __init__(self, doorman: Doorman, num_tokens: int) -> None:
        self._expected = doorman.expected
        self._size = size_of(num_tokens)
        self._num_tokens = num_tokens
        self._expected[self._size] += num_tokens

    def give_back(self) -> None:
        """Let another have the place."""
        self._expected[self._size] -= self._num_tokens
        self._num_tokens = 0


def refused(seconds: int) -> Failure:
    """Return what a request that is turned away is told."""
    message = f"too much waits already; send this again in {seconds} s"
    return Failure("overloaded", message, retry_after=seconds)


def _length(headers: RawHeaders) -> int:
    """Return the length that a request says its body has; 0 where it does not say."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value[:15])
    return 0
