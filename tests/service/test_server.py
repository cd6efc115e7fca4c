"""The process that listens: it leaves when it is told to, and when nothing can be answered."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from bertworks.core.errors import BertworksError
from bertworks.service.models import Models
from bertworks.service.ports import address_of, open_socket
from bertworks.service.protocol import PatientProtocol
from bertworks.service.server import DOORS, _Server, serve
from bertworks.service.turns import AT_ONCE


def test_a_signal_while_models_are_opened_waits_for_nobody() -> None:
    models = Models({"a": Path()}, lambda _: None)
    server = _Server(uvicorn.Config(Starlette()), models)
    server.handle_exit(15, None)
    assert server.should_exit
    assert not server.force_exit
    models.load()  # opens nothing any more
    assert not models.is_loaded
    server.handle_exit(15, None)
    assert server.force_exit


def test_a_service_whose_worker_is_lost_for_good_ends_with_an_error(
    predictor_of: Callable[..., Any],
) -> None:
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = Starlette(routes=[Route("/", hello)])
    models = Models({"a": Path()}, lambda _: predictor_of())
    with ThreadPoolExecutor(1) as pool, closing(open_socket("127.0.0.1", 0)) as taken:
        ended = pool.submit(serve, app, taken, models, drain=5.0)
        try:
            with urlopen(address_of(taken)) as response:
                assert response.read() == b"hello"
        finally:
            assert models.on_give_up is not None
            models.on_give_up()
        with pytest.raises(BertworksError, match="its worker was lost again and again"):
            ended.result(timeout=10)
    assert not models.is_ready


class Looks:
    """Counts how often the loop of a service has looked at its clients, and what came when."""

    def __init__(self) -> None:
        self.is_held, self.go_on = Event(), Event()
        self.begun = Counter[int]()  # requests, by the look
        self.taken = Counter[int]()  # connections
        self._number = 0

    async def hold(self, request: Request) -> PlainTextResponse:
        """Let nothing else be done in the loop for a while, and count its looks after that."""
        self.is_held.set()
        assert self.go_on.wait(20)
        self._count()
        return PlainTextResponse("held")

    async def begin(self, request: Request) -> PlainTextResponse:
        self.begun[self._number] += 1
        return PlainTextResponse("begun")

    def take(self) -> None:
        self.taken[self._number] += 1

    def _count(self) -> None:
        self._number += 1
        asyncio.get_running_loop().call_soon(self._count)


@pytest.mark.parametrize("has_ticket", [True, False])
def test_many_are_let_in_at_one_look_and_begin_a_few_at_a_time(
    predictor_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *, has_ticket: bool
) -> None:
    looks, connection_made = Looks(), PatientProtocol.connection_made

    def note(self: PatientProtocol, transport: Any) -> None:
        looks.take()
        connection_made(self, transport)

    monkeypatch.setattr(PatientProtocol, "connection_made", note)
    app = Starlette(routes=[Route("/hold", looks.hold), Route("/", looks.begin)])
    ticket = SimpleNamespace(give_back=lambda: None)
    app.state.doorman = SimpleNamespace(
        refusal=lambda method, path, headers: ticket if has_ticket and path == b"/" else None
    )
    models, count = Models({"a": Path()}, lambda _: predictor_of()), DOORS
    with ThreadPoolExecutor(2) as pool, closing(open_socket("127.0.0.1", 0)) as taken:
        ended = pool.submit(serve, app, taken, models, drain=5.0)
        held = pool.submit(lambda: urlopen(f"{address_of(taken)}/hold").read())
        assert looks.is_held.wait(20)
        looks.taken.clear()
        lines = [socket.create_connection(taken.getsockname()[:2], 10) for _ in range(count)]
        for line in lines:
            line.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        looks.go_on.set()
        assert all(line.recv(12) == b"HTTP/1.1 200" for line in lines)
        assert held.result(timeout=10) == b"held"
        for line in lines:
            line.close()
        assert models.on_give_up is not None
        models.on_give_up()
        with pytest.raises(BertworksError):
            ended.result(timeout=10)
    assert looks.taken.total() == looks.begun.total() == count
    assert max(looks.taken.values()) == count
    assert max(looks.begun.values()) == (AT_ONCE if has_ticket else count)
