"""Counts of what clients were told, in the text that Prometheus reads."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertworks.core import __version__
from bertworks.service.failures import STATUSES
from bertworks.service.histograms import MEANINGS, SECONDS, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NO_ROUTE = "none"  # every path that is no route counts here, so that the series stay few
MODEL_FACTS = ("revision", "backend", "precision", "device")
READ = {
    "items": "Inputs that were answered.",
    "tokens": "Tokens of the inputs that were answered.",
    "truncated": "Inputs that were cut.",
}
QUEUE = {
    "bertworks_ready": ("gauge", "is_ready", "Whether the model can answer."),
    "bertworks_waiting_items": ("gauge", "num_waiting", "Inputs that wait."),
    "bertworks_waiting_tokens": ("gauge", "waiting_tokens", "Tokens that wait."),
    "bertworks_computing_items": ("gauge", "num_in_hand", "Inputs that are being computed."),
    "bertworks_refused_total": ("counter", "num_refused", "Requests that found too much waiting."),
    "bertworks_submitted_total": ("counter", "num_submitted", "Inputs that were taken to wait."),
    "bertworks_computed_total": ("counter", "num_computed", "Inputs that were computed."),
    "bertworks_expired_total": ("counter", "num_expired", "Inputs that waited too long."),
    "bertworks_skipped_total": ("counter", "num_skipped", "Inputs whose clients had left."),
    "bertworks_failed_total": ("counter", "num_failed", "Inputs that could not be computed."),
    "bertworks_batches_total": ("counter", "num_batches", "Batches that were computed."),
    "bertworks_restarts_total": ("counter", "num_restarts", "Workers that were replaced."),
}


class Metrics:
    """What was answered so far; changed by the event loop alone."""

    def __init__(self) -> None:
        self.answered: Counter[tuple[str, int]] = Counter()  # by route and status
        self.in_flight = 0
        self.items: Counter[str] = Counter()  # by model
        self.tokens: Counter[str] = Counter()
        self.truncated: Counter[str] = Counter()
        self._durations: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self._began = time.time()

    def time(self, route: str, seconds: float) -> None:
        """Take how long a request took."""
        self._durations[route].add(seconds)

    def count_unreadable(self) -> None:
        """Count what was no HTTP."""
        self.answered[NO_ROUTE, STATUSES["bad_request"]] += 1

    def refuse(self, route: str) -> None:
        """Take a request that was turned away by its head."""
        self.answered[route, 429] += 1
        self.time(route, 0.0)

    def read(self, model: str, *, num_tokens: int, num_items: int, num_cut: int) -> None:
        """Take how much of a request a model read."""
        self.items[model] += num_items
        self.tokens[model] += num_tokens
        self.truncated[model] += num_cut

    def text(self, models: Iterable[Any]) -> str:
        """Return all counts as text, those of the models' queues among them."""
        served = list(models)
        lines = [*self._of_requests(), *self._of_models(served), *_of_queues(served)]
        lines += [*_of_batches(served), *_of_process(self._began)]
        return "".join(f"{line}\n" for line in lines)

    def _of_requests(self) -> Iterator[str]:
        yield from _head("bertworks_requests_total", "counter", "Answered requests.")
        for (route, status), count in sorted(self.answered.items()):
            yield f'bertworks_requests_total{{route="{route}",status="{status}"}} {count}'
        yield from _head("bertworks_requests_in_flight", "gauge", "Requests being answered.")
        yield f"bertworks_requests_in_flight {self.in_flight}"
        yield from _head("bertworks_request_seconds", "histogram", "Time until the answer.")
        for route, durations in sorted(self._durations.items()):
            yield from durations.lines("bertworks_request_seconds", _label("route", route))

    def _of_models(self, models: list[Any]) -> Iterator[str]:
        for name, meaning in READ.items():
            yield from _head(f"bertworks_{name}_total", "counter", meaning)
            for model, count in sorted(getattr(self, name).items()):
                yield f"bertworks_{name}_total{{{_label('model', model)}}} {count}"
        yield from _head("bertworks_model_info", "gauge", "What each model is.")
        for served in models:
            told = served.info()
            facts = [_label("model", served.name), *(_label(f, told[f]) for f in MODEL_FACTS)]
            yield f"bertworks_model_info{{{','.join(facts)}}} 1"


def _of_queues(models: list[Any]) -> Iterator[str]:
    for name, (kind, attribute, meaning) in QUEUE.items():
        yield from _head(name, kind, meaning)
        for served in models:
            is_count, batcher = kind == "counter", served.batcher
            value = served.count(attribute) if is_count else int(getattr(batcher, attribute))
            yield f"{name}{{{_label('model', served.name)}}} {value}"


def _of_batches(models: list[Any]) -> Iterator[str]:
    for name, meaning in MEANINGS.items():
        yield from _head(name, "histogram", meaning)
        for served in models:
            yield from served.measures.told[name].lines(name, _label("model", served.name))


def _of_process(began: float) -> Iterator[str]:
    """Tell of the process what Prometheus expects of each, as far as the system tells it."""
    yield from _head("bertworks_build_info", "gauge", "The version that runs.")
    yield f"bertworks_build_info{{{_label('version', __version__)}}} 1"
    yield from _head("process_start_time_seconds", "gauge", "When it began, since 1970.")
    yield f"process_start_time_seconds {began:.3f}"
    yield from _head("process_cpu_seconds_total", "counter", "Time of all processors.")
    yield f"process_cpu_seconds_total {time.process_time():.3f}"
    own = Path("/proc/self")
    if own.is_dir():
        pages = int((own / "statm").read_text().split()[1])
        yield from _head("process_resident_memory_bytes", "gauge", "Memory that it holds.")
        yield f"process_resident_memory_bytes {pages * os.sysconf('SC_PAGE_SIZE')}"
        yield from _head("process_open_fds", "gauge", "Files and connections that are open.")
        yield f"process_open_fds {len(list((own / 'fd').iterdir()))}"


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
        begun = time.monotonic()

        async def counted(message: Message) -> None:
            is_first = message["type"] == "http.response.start"
            if is_first and not scope.get("is_unreadable"):  # its client was told by the parser
                self._metrics.answered[_route_of(scope), message["status"]] += 1
            await send(message)

        self._metrics.in_flight += 1
        try:
            await self._app(scope, receive, counted)
        finally:
            self._metrics.in_flight -= 1
            self._metrics.time(_route_of(scope), time.monotonic() - begun)


def _route_of(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path_format", NO_ROUTE))
