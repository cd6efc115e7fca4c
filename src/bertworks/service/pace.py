"""How fast tokens are computed, and how many of them fit into some time."""


class Pace:
    """How fast tokens are computed; the latest batches count most."""

    def __init__(self) -> None:
        self.tokens_per_second: float | None = None  # None: not known yet
        self._tokens = 0.0
        self._seconds = 0.0

    def add(self, num_tokens: int, seconds: float) -> None:
        """Count what took some seconds."""
        if num_tokens == 0:
            return
        self._tokens = 0.8 * self._tokens + num_tokens
        self._seconds = 0.8 * self._seconds + seconds
        self.tokens_per_second = self._tokens / max(self._seconds, 1e-6)

    def seconds(self, num_tokens: int) -> float | None:
        """Return how long some tokens will take."""
        rate = self.tokens_per_second
        return None if rate is None else num_tokens / rate


class Portion:
    """As many tokens as take about some seconds together, by the pace of such portions."""

    def __init__(self, seconds: float, *, least: int, most: int, at_first: int) -> None:
        self.pace = Pace()
        self._seconds = seconds
        self._least = least
        self._most = most
        self._at_first = at_first

    @property
    def num_tokens(self) -> int:
        """How many it has now."""
        rate = self.pace.tokens_per_second
        wanted = self._at_first if rate is None else int(min(rate * self._seconds, self._most))
        return min(max(wanted, self._least), self._most)

    def add(self, num_tokens: int, seconds: float) -> None:
        """Count what took some seconds, if it was half a portion: few tokens take long for each.

        Fewer count where they took less than was known, or one mishap would be remembered for long.
        """
        rate = self.pace.tokens_per_second
        is_quick = rate is not None and num_tokens > rate * seconds
        if 2 * num_tokens >= self.num_tokens or is_quick:
            self.pace.add(num_tokens, seconds)
