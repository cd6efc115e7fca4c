"""Counts of what clients were told, in the text that Prometheus reads."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NO_ROUTE = "none"  # every path that is no route counts here, so that the series stay few


class Metrics:
    """What was answered so far; changed by the event loop alone."""

    def __init__(self) -> None:
        self.answered: Counter[tuple[str, int]] = Counter()  # by route and status
        self.in_flight = 0
        self.items: Counter[str] = Counter()  # by model
        self.tokens: Counter[str] = Counter()
        self.truncated: Counter[str] = Counter()
        self._durations: defaultdict[str, _Durations] = defaultdict(_Durations)

    def time(self, route: str, seconds: float) -> None:
        """Take how long a request took."""
        self._durations[route].add(seconds)

    def read(self, model: str, *, num_tokens: int, num_items: int, num_cut: int) -> None:
        """Take how much of a request a model read."""
        self.items[model] += num_items
        self.tokens[model] += num_tokens
        self.truncated[model] += num_cut

    def text(self, models: Iterable[Any]) -> str:
        """Return all counts as text, those of the models' queues among them."""
        return "".join(f"{line}\n" for line in self._lines(list(models)))

    def _lines(self, models: list[Any]) -> Iterator[str]:
        yield from _head("bertworks_requests_total", "counter", "Answered requests.")
        for (route, status), count in sorted(self.answered.items()):
            yield f'bertworks_requests_total{{route="{route}",status="{status}"}} {count}'
        yield from _head("bertworks_requests_in_flight", "gauge", "Requests being answered.")
        yield f"bertworks_requests_in_flight {self.in_flight}"
        yield from _head("bertworks_request_seconds", "histogram", "Time until the answer.")
        for route, durations in sorted(self._durations.items()):
            yield from durations.lines(route)
        for name, meaning in READ.items():
            yield from _head(f"bertworks_{name}_total", "counter", meaning)
            for model, count in sorted(getattr(self, name).items()):
                yield f"bertworks_{name}_total{{{_label('model', model)}}} {count}"
        for name, (kind, attribute, meaning) in QUEUE.items():
            yield from _head(name, kind, meaning)
            for served in models:
                is_count, batcher = kind == "counter", served.batcher
                value = served.count(attribute) if is_count else int(getattr(batcher, attribute))
                yield f"{name}{{{_label('model', served.name)}}} {value}"


READ = {
    "items": "Inputs that were answered.",
    "tokens": "Tokens of the inputs that were answered.",
    "truncated": "Inputs that were cut.",
}
QUEUE = {
    "bertworks_ready": ("gauge", "is_ready", "Whether the model can answer."),
    "bertworks_waiting_tokens": ("gauge", "waiting_tokens", "Tokens that wait."),
    "bertworks_computed_total": ("counter", "num_computed", "Inputs that were computed."),
    "bertworks_expired_total": ("counter", "num_expired", "Inputs that waited too long."),
    "bertworks_skipped_total": ("counter", "num_skipped", "Inputs whose clients had left."),
    "bertworks_failed_total": ("counter", "num_failed", "Inputs that could not be computed."),
    "bertworks_batches_total": ("counter", "num_batches", "Batches that were computed."),
    "bertworks_restarts_total": ("counter", "num_restarts", "Workers that were replaced."),
}


class _Durations:
    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        self._counts[sum(seconds > bound for bound in BOUNDS)] += 1
        self._total += seconds

    def lines(self, route: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*BOUNDS, "+Inf"), self._counts, strict=True):
            total += count
            yield f'bertworks_request_seconds_bucket{{route="{route}",le="{bound}"}} {total}'
        yield f'bertworks_request_seconds_sum{{route="{route}"}} {self._total:.6f}'
        yield f'bertworks_request_seconds_count{{route="{route}"}} {total}'


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'


class Counting:
    """Counts each answer by the route and status that the client is told."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = monotonic()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.answered[_route_of(scope), message["status"]] += 1
            await send(message)

        self._metrics.in_flight += 1
        try:
            await self._app(scope, receive, counted)
        finally:
            self._metrics.in_flight -= 1
            self._metrics.time(_route_of(scope), monotonic() - begun)


def _route_of(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path_format", NO_ROUTE))
