"""The application: routes, keys, counts, and every error as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from bertworks.service import (
    encode_route,
    inference_routes,
    open_ai_routes,
    pipeline_routes,
    probes,
    rerank_routes,
    task_routes,
)
from bertworks.service.access_log import AccessLog, say_refusal
from bertworks.service.admission import Keys, Limits
from bertworks.service.asking import Asker
from bertworks.service.doorman import Doorman
from bertworks.service.failures import Failure
from bertworks.service.guards import ANY_HOST, HostCheck, KeyCheck, SafeHeaders
from bertworks.service.metrics import Counting, Metrics
from bertworks.service.models import Models
from bertworks.service.openapi import PAGE_POLICY, describe, page_of
from bertworks.service.operations import JSON, Operation
from bertworks.service.page import page_routes
from bertworks.service.refusals import answer_or_tell, response_of

OPERATIONS = (
    *open_ai_routes.OPERATIONS,
    *inference_routes.OPERATIONS,
    *rerank_routes.OPERATIONS,
    *encode_route.OPERATIONS,
    *task_routes.OPERATIONS,
    *pipeline_routes.OPERATIONS,
    *probes.OPERATIONS,
)


@dataclass(frozen=True, kw_only=True)
class AppSettings:
    """How the application treats its clients."""

    max_body: int = 4 << 20  # bytes
    max_items: int = 2048
    max_characters: int = 4 << 20  # of all inputs of a request
    deadline: float = 10.0  # seconds
    keys: tuple[str, ...] = ()  # their sha256 digests in hexadecimal; none: no key is asked
    hosts: tuple[str, ...] = (ANY_HOST,)  # the names to which it answers
    allow_swap: bool = False
    page: bool = True
    access_log: bool = False  # whether every request is said

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
    """Make the application of some models; its `state.asker` has threads and is to be closed."""
    metrics, keys = Metrics(), Keys(settings.keys)
    asker = Asker(models, settings.limits, metrics)
    operations = list(OPERATIONS)
    if settings.allow_swap:
        operations.append(probes.SWAPPING)
    pages = page_routes() if settings.page else []
    described = [*operations, *(_start_page(route) for route in pages if route.path == "/")]
    operations += _documentation(described, has_keys=bool(keys))
    app = Starlette(
        routes=[*pages, *(_route(one, asker) for one in operations)],
        middleware=[
            *([Middleware(AccessLog)] if settings.access_log else []),
            Middleware(Counting, metrics=metrics),
            Middleware(SafeHeaders),
            Middleware(HostCheck, hosts=settings.hosts),
            Middleware(KeyCheck, keys=keys),
        ],
        exception_handlers={HTTPException: _refuse},
    )
    app.router.redirect_slashes = False
    app.state.asker, app.state.has_keys = asker, bool(keys)
    app.state.say_refusal = say_refusal if settings.access_log else None
    paths = frozenset(one.path for one in operations if one.asks_model and "{" not in one.path)
    app.state.doorman = Doorman(models, metrics, keys, paths)
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
        needs_models=False,
    )


def _route(operation: Operation, asker: Asker) -> Route:
    async def handle(request: Request) -> Response:
        if operation.needs_models:
            asker.models.require_loaded()
        return await operation.handle(request, asker)

    async def endpoint(request: Request) -> Response:
        return await answer_or_tell(lambda: handle(request))

    return Route(operation.path, endpoint, methods=[operation.method])


async def _refuse(request: Request, error: Exception) -> Response:
    """Tell what the router does not know."""
    routes, scope = request.app.routes, request.scope
    if getattr(error, "status_code", 404) != 405:
        told = f"there is no such route; {_advice(scope['path'], routes)}"
        return response_of(Failure("unknown_route", told))
    fitting = [route for route in routes if route.matches(scope)[0] is not Match.NONE]
    allowed = ", ".join(sorted({method for route in fitting for method in route.methods}))
    told = f"this route does not know {request.method!r:.20}; it knows {allowed}"
    response = response_of(Failure("method_not_allowed", told))
    response.headers["allow"] = allowed
    return response


def _advice(path: str, routes: Sequence[BaseRoute]) -> str:
    """Tell where to look: at the route that ends so, if there is one, or at all."""
    end = path.rstrip("/")
    for route in routes:
        if isinstance(route, Route) and end and route.path.endswith(end):
            return f"did you mean {route.path}?"
    return "see /openapi.json for all"


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
            needs_models=False,
            handle=give_document,
            family="service",
            answer=dict[str, Any],
        ),
        Operation(
            path="/docs",
            method="GET",
            summary="Describe all routes as a page.",
            needs_models=False,
            handle=give_page,
            family="service",
            media="text/html",
        ),
    ]
    document = describe([*operations, *own], has_keys=has_keys)
    written["document"] = msgspec.json.encode(document)
    written["page"] = page_of(document).encode()
    return own
