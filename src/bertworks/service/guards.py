"""What stands around all routes: who is asked for, who asks, and what browsers are told."""

import re
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertworks.service.admission import Keys
from bertworks.service.failures import Failure
from bertworks.service.probes import OPEN_PATHS
from bertworks.service.refusals import response_of

ANY_HOST = "*"
NAME_AND_PORT = re.compile(r"\[([^\]]*)\](?::\d*)?|([^:]*)(?::\d*)?")
OWN_HOSTS = ("localhost", "127.0.0.1", "::1")  # the names of this machine for itself
SAFE_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class HostCheck:
    """Answers only to its own names, so that no page of another site can speak through a browser.

    Such a page may let its name point to this machine; the browser then sends that name along. Who
    sends none, as probes of HTTP/1.0 do, is no browser.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(map(name_of, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is meant for this service."""
        if scope["type"] != "http" or ANY_HOST in self._hosts:
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope).getlist("host")
        if len(asked) <= 1 and {name_of(host) for host in asked} <= self._hosts:
            await self._app(scope, receive, send)
            return
        failure = Failure(
            "wrong_host",
            f"the host is {' and '.join(asked)!r:.60}, which this service is not called; ask for "
            "localhost, or let those who run it add the name with --allowed-hosts",
        )
        await response_of(failure)(scope, receive, send)


def name_of(host: str) -> str:
    """Return a host without its port, as names are compared."""
    host = host.strip().lower()
    found = NAME_AND_PORT.fullmatch(host)
    return host if found is None else (found[1] or found[2] or "").removesuffix(".")


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
            "unauthorized",
            "a key is needed; send it as the header authorization: Bearer KEY, or give it to a "
            "browser as the password, by loading the page again",
        )
        response = response_of(refusal)
        if scope["path"] in ("/", "/docs") or scope["path"].startswith("/page/"):
            response.headers["www-authenticate"] = 'Basic realm="bertworks", charset="UTF-8"'
        await response(scope, receive, send)

    def _may_enter(self, scope: Scope) -> bool:
        if not self._keys or scope["path"] in OPEN_PATHS:
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
