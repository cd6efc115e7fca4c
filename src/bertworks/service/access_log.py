"""One line for every request: when, who, what, how it ended, how long it took."""

from datetime import UTC, datetime
from time import monotonic
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertworks.core.progress import say
from bertworks.service.refusals import CLIENT_GONE

SHOWN = 200  # characters of a path


class AccessLog:
    """Says what was asked for, without what stands in it: texts and keys are never written."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and say how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = monotonic(), CLIENT_GONE

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if not scope.get("is_unreadable"):  # of which the connection says a line
                say(line_of(scope, status, monotonic() - begun))


def say_refusal(client: tuple[str, int] | None, method: str, path: str, status: int) -> None:
    """Say how a request ended that no application saw."""
    say(line_of({"client": client, "method": method, "path": path}, status, 0.0))


def line_of(scope: Scope, status: int, seconds: float) -> str:
    """Return the line of a request; nothing that a client sends can break it in two."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    client = (scope.get("client") or ("-",))[0]
    path = quote(scope["path"], errors="replace")[:SHOWN]
    return f"{now} {client} {scope['method']} {path} {status} {1000 * seconds:.1f} ms"
