"""What we ask of the inside of uvicorn is there, and one module alone asks it."""

import ast
import asyncio
import gc
import inspect
import weakref
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import ModuleType
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from bertworks.service import connection, protocol
from bertworks.service.connection import Connection
from bertworks.service.protocol import PatientProtocol

REQUEST = b"POST /a?b=c HTTP/1.%d\r\nHost: d\r\nContent-Length: 2\r\n%s\r\n"
LENT = {"loop", "transport"}  # asyncio's things, which uvicorn keeps under these names
HOOKS = {"on_response_complete", "send_400_response"}  # what uvicorn calls


class Line(asyncio.Transport):
    """A connection's other end, which keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.7", 4242)})
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class App:
    """An application that answers when it is told to, and keeps a bell."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.scopes: list[Any] = []

        class Kept:
            bell = "ding"

        self.state = Kept

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


def open_line(kind: Callable[..., HttpToolsProtocol]) -> tuple[Any, App, Line]:
    """Make a connection of a kind in the loop that runs."""
    app, line = App(), Line()
    made: Any = kind(uvicorn.Config(app, lifespan="off", log_config=None), ServerState(), {})
    made.connection_made(line)
    return made, app, line


@cache
def names_of_uvicorn() -> tuple[set[str], set[str]]:
    """Return the names of uvicorn's own connection, and those of the request that it answers."""

    async def look() -> tuple[set[str], set[str]]:
        made, app, _ = open_line(HttpToolsProtocol)
        made.data_received(REQUEST % (1, b""))
        names = set(dir(made)), set(dir(getattr(made, "cycle", None)))
        app.go_on.set()
        await asyncio.gather(*made.tasks)
        made.connection_lost(None)
        return names

    return asyncio.run(look())


def uses(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield what a module asks of `self` and of other things, as (whose, name)."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node.value), node.attr


def own_names(kind: type) -> set[str]:
    """Return the names that a class itself defines, those of its instances too."""
    stored = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(kind)))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return set(vars(kind)) | stored


def test_uvicorn_has_every_inner_name_that_we_ask_it_for() -> None:
    of_connection, of_cycle = names_of_uvicorn()
    asked = {name for whose, name in uses(connection) if whose == "self"} - own_names(Connection)
    asked |= LENT | HOOKS
    requests = {"self.cycle", "self._begun"}
    asked_of_cycle = {name for whose, name in uses(connection) if whose in requests}
    missing = sorted(asked - of_connection) + [
        f"cycle.{name}" for name in sorted(asked_of_cycle - of_cycle)
    ]
    assert not missing, (
        f"the connections of uvicorn {uvicorn.__version__} have no {', '.join(missing)} any more: "
        "mend service/connection.py, or pin an older uvicorn"
    )
    assert {"cycle", "parser", "headers", "pipeline"} < asked  # or the look was in vain
    assert {"response_complete", "more_body", "keep_alive", "disconnected"} < asked_of_cycle


def test_no_other_module_asks_for_them() -> None:
    known = own_names(PatientProtocol) | own_names(Connection) | LENT
    asked = {name for whose, name in uses(protocol) if whose == "self"}
    assert asked - known == set()
    assert "cycle" not in known


def test_what_uvicorn_calls_is_what_we_wait_for() -> None:
    """A hook under another name would be passed over in silence."""
    public = set(dir(asyncio.Protocol)) | HOOKS
    callbacks = {"on_message_begin", "on_headers_complete", "on_body", "on_message_complete"}
    ours = {name for name, thing in vars(PatientProtocol).items() if inspect.isfunction(thing)}
    hooks = {name for name in ours if not name.startswith("_")}
    assert hooks <= public | callbacks
    assert hooks <= names_of_uvicorn()[0]


@pytest.mark.parametrize(
    ("version", "more", "is_last"),
    [(1, b"", False), (0, b"", True), (1, b"Connection: close\r\n", True)],
)
def test_a_connection_tells_what_is_asked_and_how_far_the_answer_is(
    version: int, more: bytes, is_last: bool
) -> None:
    async def ask() -> None:
        made, app, line = open_line(Connection)
        assert (made.has_answered, made.has_answered_one, made.is_answering) == (True, False, False)
        made.data_received(REQUEST % (version, more))
        method, url, headers = made.head
        assert (method, url, headers[0]) == (b"POST", b"/a?b=c", (b"host", b"d"))
        assert made.is_last is is_last
        assert made.peer == ("10.0.0.7", 4242)
        made.hand_over("ticket", 7)
        made.mark_unreadable()
        assert (made.has_answered, made.has_answered_one, made.is_answering) == (
            False,
            False,
            False,  # for its body has not come
        )
        made.data_received(b"{}")
        assert made.is_answering
        assert not made.is_kept_idle
        app.go_on.set()
        await asyncio.gather(*made.tasks)
        assert (made.has_answered, made.has_answered_one, made.is_answering) == (True, True, False)
        assert line.is_closed is is_last
        assert made.is_kept_idle is not is_last
        assert app.scopes[0]["state"] == {"ticket": 7}
        assert app.scopes[0]["is_unreadable"]
        made.connection_lost(None)

    asyncio.run(ask())


def test_a_connection_may_be_closed_after_the_answer_at_hand() -> None:
    async def ask() -> None:
        made, app, line = open_line(Connection)
        made.data_received(REQUEST % (1, b"") + b"{}")
        made.close_after_answer()
        app.go_on.set()
        await asyncio.gather(*made.tasks)
        assert line.is_closed
        assert b"204" in line.written
        made.connection_lost(None)

    asyncio.run(ask())


def test_a_connection_finds_what_its_application_keeps() -> None:
    async def look() -> None:
        made, _, _ = open_line(Connection)
        assert made.of_app("bell") == "ding"
        assert made.of_app("doorman") is None
        made.mark_unreadable()  # nothing was asked: nobody is told
        made.connection_lost(None)

    asyncio.run(look())


def test_a_connection_that_is_lost_is_told_to_the_request_before_those_that_wait() -> None:
    async def ask() -> None:
        made, app, line = open_line(Connection)
        for _ in range(3):
            made.data_received(REQUEST % (1, b"") + b"{}")
        await asyncio.sleep(0)
        line.close()
        made.connection_lost(None)
        app.go_on.set()
        await asyncio.gather(*made.tasks)
        assert len(app.scopes) == 1
        assert line.written == b""

    asyncio.run(ask())


def test_a_connection_that_is_lost_is_not_kept_until_its_patience_ends() -> None:
    async def lose() -> None:
        made, _, _ = open_line(partial(PatientProtocol, on_unreadable=lambda: None))
        made.data_received(b"GET / HT")
        made.connection_lost(None)
        kept = weakref.ref(made)
        del made
        gc.collect()
        assert kept() is None

    asyncio.run(lose())
