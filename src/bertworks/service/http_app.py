"""The application: routes, keys, counts, and every error as JSON."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertworks.core.errors import BertworksError
from bertworks.service import (
    encode_route,
    inference_routes,
    open_ai_routes,
    pipeline_routes,
    probes,
    rerank_routes,
    task_routes,
)
from bertworks.service.admission import Gone, Keys, Limits
from bertworks.service.asking import Asker
from bertworks.service.failures import Failure
from bertworks.service.metrics import Counting, Metrics
from bertworks.service.models import Models
from bertworks.service.openapi import PAGE_POLICY, describe, page_of
from bertworks.service.operations import JSON, Operation
from bertworks.service.page import page_routes
from bertworks.service.schemas import ErrorAnswer, Problem

OPERATIONS = (
    *open_ai_routes.OPERATIONS,
    *inference_routes.OPERATIONS,
    *rerank_routes.OPERATIONS,
    *encode_route.OPERATIONS,
    *task_routes.OPERATIONS,
    *pipeline_routes.OPERATIONS,
    *probes.OPERATIONS,
)
CLIENT_GONE = 499  # nobody reads it; it is counted
SAFE_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
logger = logging.getLogger("bertworks.service")


@dataclass(frozen=True, kw_only=True)
class AppSettings:
    """How the application treats its clients."""

    max_body: int = 4 << 20  # bytes
    max_items: int = 2048
    max_characters: int = 4 << 20  # of all inputs of a request
    deadline: float = 10.0  # seconds
    keys: tuple[str, ...] = ()  # their sha256 digests in hexadecimal; none: no key is asked
    allow_swap: bool = False
    page: bool = True

    @property
    def limits(self) -> Limits:
        """How much one request may bring, and all that are inside together."""
        return Limits(
            max_body=self.max_body,
            max_items=self.max_items,
            max_characters=self.max_characters,
            deadline=self.deadline,
            max_bytes=16 * self.max_body,
        )


def make_app(models: Models, settings: AppSettings) -> Starlette:
    """Make the application of some models."""
    metrics, keys = Metrics(), Keys(settings.keys)
    asker = Asker(models, settings.limits, metrics)
    operations = list(OPERATIONS)
    if settings.allow_swap:
        operations.append(probes.SWAPPING)
    pages = page_routes() if settings.page else []
    described = [*operations, *(_start_page(route) for route in pages if route.path == "/")]
    operations += _documentation(described, has_keys=bool(keys))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        asker.close()

    app = Starlette(
        routes=[*pages, *(_route(one, asker) for one in operations)],
        middleware=[
            Middleware(Counting, metrics=metrics),
            Middleware(SafeHeaders),
            Middleware(KeyCheck, keys=keys),
        ],
        exception_handlers={HTTPException: _refuse},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.asker = asker
    return app


def _start_page(route: Route) -> Operation:
    """Describe where the page begins, which is asked for like the rest."""
    return Operation(
        path=route.path,
        method="GET",
        summary="Show a page on which the models can be tried.",
        handle=lambda request, asker: route.endpoint(request),
        family="service",
        media="text/html",
    )


def _route(operation: Operation, asker: Asker) -> Route:
    async def endpoint(request: Request) -> Response:
        return await answer_or_tell(lambda: operation.handle(request, asker))

    return Route(operation.path, endpoint, methods=[operation.method])


async def answer_or_tell(answer: Callable[[], Awaitable[Response]]) -> Response:
    """Return the answer, or why there is none."""
    try:
        return await answer()
    except Failure as failure:
        return response_of(failure)
    except (Gone, ClientDisconnect):
        return Response(status_code=CLIENT_GONE)
    except BertworksError as error:
        return response_of(Failure("bad_value", str(error)))
    except Exception:
        logger.exception("a request failed")
        return response_of(Failure("failed", "the request could not be answered; see the log"))


def response_of(failure: Failure) -> Response:
    """Return a failure as every error of the service looks."""
    kind = "invalid_request_error" if failure.status < 500 else "server_error"
    message = str(failure).encode("utf-8", "replace").decode("utf-8")
    headers = {}
    if failure.retry_after is not None:
        headers["retry-after"] = str(max(1, ceil(failure.retry_after)))
    if failure.code == "unauthorized":
        headers["www-authenticate"] = "Bearer"
    content = msgspec.json.encode(ErrorAnswer(Problem(failure.code, message, kind)))
    return Response(content, failure.status, headers, media_type=JSON)


async def _refuse(request: Request, error: Exception) -> Response:
    """Tell what the router does not know."""
    if getattr(error, "status_code", 404) != 405:
        return response_of(
            Failure("unknown_route", "there is no such route; see /openapi.json for all")
        )
    routes, scope = request.app.routes, request.scope
    fitting = [route for route in routes if route.matches(scope)[0] is not Match.NONE]
    allowed = ", ".join(sorted({method for route in fitting for method in route.methods}))
    told = f"this route does not know {request.method!r:.20}; it knows {allowed}"
    response = response_of(Failure("method_not_allowed", told))
    response.headers["allow"] = allowed
    return response


def _documentation(operations: Sequence[Operation], *, has_keys: bool) -> list[Operation]:
    """Return the operations that describe all, themselves among them."""
    written: dict[str, bytes] = {}

    async def give_document(request: Request, asker: Asker) -> Response:
        return Response(written["document"], media_type=JSON)

    async def give_page(request: Request, asker: Asker) -> Response:
        headers = {"content-security-policy": PAGE_POLICY}
        return Response(written["page"], headers=headers, media_type="text/html")

    own = [
        Operation(
            path="/openapi.json",
            method="GET",
            summary="Describe all routes as data.",
            handle=give_document,
            family="service",
            answer=dict[str, Any],
        ),
        Operation(
            path="/docs",
            method="GET",
            summary="Describe all routes as a page.",
            handle=give_page,
            family="service",
            media="text/html",
        ),
    ]
    document = describe([*operations, *own], has_keys=has_keys)
    written["document"] = msgspec.json.encode(document)
    written["page"] = page_of(document).encode()
    return own


class KeyCheck:
    """Lets nobody in without a key, but to the probes; what is not HTTP never."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on who has a key."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "lifespan" or self._may_enter(scope):
            await self._app(scope, receive, send)
            return
        refusal = Failure(
            "unauthorized", "a key is needed; send it as the header authorization: Bearer KEY"
        )
        response = response_of(refusal)
        if scope["path"] == "/" or scope["path"].startswith("/page/"):
            response.headers["www-authenticate"] = 'Basic realm="bertworks", charset="UTF-8"'
        await response(scope, receive, send)

    def _may_enter(self, scope: Scope) -> bool:
        if not self._keys or scope["path"] in probes.OPEN_PATHS:
            return True
        return self._keys.opens(Headers(scope=scope).get("authorization"))


class SafeHeaders:
    """Tells browsers to trust nothing that an answer does not say itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add what an answer lacks."""

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, safe)
