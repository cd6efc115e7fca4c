"""The process that listens: a port of its own, known before anything else is done."""

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from bertworks.core.errors import BertworksError, UsageError
from bertworks.service.models import Models
from bertworks.service.server import PatientProtocol, address_of, is_local, open_socket, serve


def test_a_free_port_is_taken_and_told() -> None:
    with closing(open_socket("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert address_of(taken) == f"http://127.0.0.1:{port}"
        with closing(socket.create_connection(("127.0.0.1", port))):
            pass


def test_a_port_that_is_taken_is_refused_in_a_sentence() -> None:
    with closing(open_socket("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"cannot listen on 127.0.0.1 port {port}: .*; choo"):
            open_socket("127.0.0.1", port)
    open_socket("127.0.0.1", port).close()


def test_a_host_that_is_not_here_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.7 port 0"):
        open_socket("192.0.2.7", 0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.4", False),
        ("localhost.example", False),
    ],
)
def test_only_this_machine_reaches_local_hosts(host: str, expected: bool) -> None:
    assert is_local(host) is expected


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


@pytest.fixture
def address(predictor_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Serve a word from a server with little patience."""

    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    async def give_much(request: Request) -> PlainTextResponse:
        return PlainTextResponse("much" * (8 << 20))

    monkeypatch.setattr(PatientProtocol, "patience", 0.3)
    monkeypatch.setattr(PatientProtocol, "reading_patience", 0.3)
    models = Models({"a": Path()}, lambda _: predictor_of())
    with ThreadPoolExecutor(1) as pool, closing(open_socket("127.0.0.1", 0)) as taken:
        routes = [Route("/", hello, methods=["GET", "POST"]), Route("/much", give_much)]
        ended = pool.submit(serve, Starlette(routes=routes), taken, models, drain=1.0)
        yield taken.getsockname()[:2]
        assert models.on_give_up is not None
        models.on_give_up()
        with pytest.raises(BertworksError):
            ended.result(timeout=10)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "])
def test_who_does_not_say_what_he_wants_is_hung_up_on(address: Any, sent: bytes) -> None:
    with closing(socket.create_connection(address, timeout=10)) as slow:
        slow.sendall(sent)
        assert slow.recv(100) == b""


def test_who_says_what_he_wants_is_answered_again_and_again(address: Any) -> None:
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    with closing(socket.create_connection(address, timeout=10)) as quick:
        for _ in range(3):
            quick.sendall(request)
            assert b"hello" in quick.recv(1000)
            time.sleep(0.2)  # together longer than the patience with a request's head
        quick.sendall(request[:9])
        assert quick.recv(100) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n",
    ],
)
@pytest.mark.parametrize("dripped", [b"\r\n", b"\r"])
def test_who_was_answered_cannot_hold_the_line_with_next_to_nothing(
    address: Any, sent: bytes, dripped: bytes
) -> None:
    with closing(socket.create_connection(address, timeout=10)) as slow:
        slow.sendall(sent)
        assert b"hello" in slow.recv(1000)
        slow.sendall(dripped)
        assert slow.recv(100) == b""


@pytest.mark.parametrize("line", [b"X: y\r\n", b"x" * 6])
def test_a_head_without_an_end_is_not_kept(address: Any, line: bytes) -> None:
    with closing(socket.create_connection(address, timeout=10)) as chatty:
        chatty.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):  # noqa: PT012
            for _ in range(99):
                chatty.sendall(line * 10_000)


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\nHost: a\n\n"])
def test_what_is_no_http_is_refused_as_all_else_is(address: Any, sent: bytes) -> None:
    with closing(socket.create_connection(address, timeout=10)) as odd:
        odd.sendall(sent)
        head, _, body = odd.recv(1000).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert json.loads(body)["error"]["code"] == "bad_request"
        assert odd.recv(100) == b""


def test_who_reads_nothing_is_hung_up_on_and_who_reads_slowly_is_not(address: Any) -> None:
    request = b"GET /much HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    lines = [socket.create_connection(address, timeout=10) for _ in range(2)]
    with closing(lines[0]) as lazy, closing(lines[1]) as slow:
        for line in lines:
            line.sendall(request)
        for _ in range(5):
            time.sleep(0.2)  # together longer than the patience with a reader
            assert _read(slow, 4 << 20) == 4 << 20
        assert _read(slow, 64 << 20) > 12 << 20
        assert _read(lazy, 64 << 20) < 32 << 20


def _read(line: socket.socket, most: int) -> int:
    count = 0
    while part := line.recv(min(most - count, 1 << 20)):
        count += len(part)
    return count
