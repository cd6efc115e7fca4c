"""What can be asked of the service: one row for each route, read by the router and the docs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bertworks.service.asking import Asker, Exchange

Handle = Callable[[Request, Asker], Awaitable[Response]]
JSON = "application/json"
OF_BODIES = ("bad_request", "too_large", "wrong_content_type", "bad_value", "overloaded", "failed")
OF_MODELS = (
    *OF_BODIES,
    "unknown_model",
    "cannot_do",
    "not_finite",
    "stopping",
    "worker_lost",
    "too_late",
)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One thing that can be asked for: where, with what, and what comes back."""

    path: str
    summary: str
    handle: Handle
    family: str
    method: Literal["GET", "POST"] = "POST"
    request: Any = None  # the type of its body
    answer: Any = None  # the type of what comes back; None: it is no JSON
    media: str = JSON
    codes: tuple[str, ...] = ()  # of failures
    needs_models: bool = True  # whether it waits until they are opened
    tells_model: bool = False  # whether headers say which model answered, and what it read
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what may stand in the path

    @property
    def asks_model(self) -> bool:
        """Whether what it asks for waits for a model."""
        return set(OF_MODELS) <= set(self.codes)


def as_json(value: Any) -> Response:
    """Return what is told as JSON."""
    return Response(msgspec.json.encode(value), media_type=JSON)


def answering(
    path: str, summary: str, exchange: Exchange, *, answer: Any, family: str
) -> Operation:
    """Return the operation in which a model answers."""

    async def handle(request: Request, asker: Asker) -> Response:
        return await asker.answer(request, exchange, model=request.path_params.get("name"))

    return Operation(
        path=path,
        summary=summary,
        handle=handle,
        family=family,
        request=exchange.request,
        answer=answer,
        codes=OF_MODELS,
        tells_model=True,
    )
