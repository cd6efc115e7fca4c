"""Connections: what is slow, endless or no HTTP is hung up on, and all others are answered."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from bertworks.core.errors import BertworksError
from bertworks.service.http_app import AppSettings, make_app
from bertworks.service.models import Models
from bertworks.service.ports import open_socket
from bertworks.service.protocol import PatientProtocol
from bertworks.service.server import serve

EMBED = b'{"inputs": "a cat"}'


@pytest.fixture(scope="module")
def service(predictor_of: Callable[..., Any], run_service: Callable[..., Any]) -> Iterator[Any]:
    running = run_service(lambda _: predictor_of())
    running.wait()
    yield running
    running.close()


HOST = b"Host: localhost\r\n"
NO_HTTP = {
    "a handshake of another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n",
    "an unknown version": b"GET / HTTP/7.3\r\n" + HOST + b"\r\n",
    "a path of other letters": "GET /\u00e9 HTTP/1.1\r\n\r\n".encode(),
    "a space before a colon": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\n" + HOST + b"A: \x00\r\n\r\n",
    "bare line ends": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "a length and chunks": b"POST /embed HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": b"POST /embed HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n"
    b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /embed HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n"
    b"Content-Length: 6\r\n\r\nabcdef",
    "a negative length": b"POST /embed HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
    "a length with a plus": b"POST /embed HTTP/1.1\r\n" + HOST + b"Content-Length: +5\r\n\r\n",
    "an odd coding": b"POST /embed HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n",
    "chunks that are none": b"POST /embed HTTP/1.1\r\n"
    + HOST
    + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a head that is too long": b"GET / HTTP/1.1\r\n"
    + HOST
    + b"A: "
    + b"b" * (65 << 10)
    + b"\r\n\r\n",
    "too many headers": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 12_000 + b"\r\n",
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_gets_json_and_is_counted_once(service: Any, sent: bytes) -> None:
    before = service.num_refused()
    with closing(service.connect()) as odd:
        odd.sendall(sent)
        head, body = _answer(odd)
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/json\r\n" in head
    assert b"x-content-type-options: nosniff" in head
    assert json.loads(body)["error"]["code"] == "bad_request"
    assert service.num_refused() == before + 1
    assert 'route="/embed",status="400"' not in service.ask("/metrics")[2].decode()
    assert 'status="499"' not in service.ask("/metrics")[2].decode()


def test_a_whole_request_is_answered_before_what_follows_is_refused(service: Any) -> None:
    before = service.num_refused()
    with closing(service.connect()) as odd:
        odd.sendall(_post(EMBED) + b"\x00\x01 nonsense\r\n\r\n")
        head, body = _answer(odd)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert len(json.loads(body)[0]) == 21  # and nothing stands behind it
    assert service.num_refused() == before + 1


def test_a_probe_that_names_no_host_is_no_browser_and_one_of_another_name_may_be(
    service: Any,
) -> None:
    named = b"GET /livez HTTP/1.0\r\nHost: evil.example\r\n\r\n"
    for sent, status in ((b"GET /livez HTTP/1.0\r\n\r\n", b"200"), (named, b"421")):
        with closing(service.connect()) as line:
            line.sendall(sent)
            assert _answer(line)[0].split()[1] == status


def test_a_request_may_be_smuggled_into_no_other(service: Any) -> None:
    hidden = b"GET /info HTTP/1.1\r\n" + HOST + b"\r\n"
    with closing(service.connect()) as odd:
        odd.sendall(_post(hidden))
        odd.shutdown(socket.SHUT_RD)
        assert service.ask("/livez")[0] == 200
    head = b"POST /embed HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
    with closing(service.connect()) as odd:
        chunked = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        odd.sendall(head + chunked + b"%x\r\n" % len(hidden) + hidden + b"\r\n0\r\n\r\n")
        told, body = _answer(odd)
    assert told.startswith(b"HTTP/1.1 400 ")  # the one answer: it is no JSON
    assert json.loads(body)["error"]["code"] == "bad_request"


def test_a_client_that_says_it_sends_no_more_has_hung_up(service: Any) -> None:
    asked = _post(json.dumps({"inputs": ["the cat sat on the mat " * 9] * 999}).encode())
    gone = 'bertworks_requests_total{route="/embed",status="499"} 1\n'
    with closing(service.connect()) as half:
        half.sendall(asked)
        half.shutdown(socket.SHUT_WR)
        assert half.recv(1000) == b""
    while gone not in service.ask("/metrics")[2].decode():
        time.sleep(0.01)
    with closing(service.connect()) as whole:  # who stays is answered
        whole.sendall(asked)
        assert whole.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_an_offer_of_another_protocol_is_passed_over(service: Any) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    for request in (b"GET /livez HTTP/1.1\r\n" + HOST + offer + b"\r\n", _post(EMBED, more=offer)):
        with closing(service.connect()) as line:
            line.sendall(request)
            assert line.recv(1000).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("size", [1, 7])
def test_an_offer_that_comes_in_parts_is_passed_over_too(service: Any, size: int) -> None:
    offer = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    with closing(service.connect()) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request in (_post(EMBED, more=offer), b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n"):
            for start in range(0, len(request), size):
                line.sendall(request[start : start + size])
                time.sleep(0.001)
            ((head, _),) = replies(line, 1)
            assert head.startswith(b"HTTP/1.1 200 OK")


def _post(body: bytes, more: bytes = b"") -> bytes:
    head = b"POST /embed HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n" + more
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _answer(line: socket.socket) -> tuple[bytes, bytes]:
    """Return the head and the body of all that comes until the service hangs up."""
    found = b""
    while part := line.recv(1 << 16):
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    return head, body


def _read_hello(line: socket.socket) -> None:
    """Read an answer whole, in however many parts it comes."""
    found = b""
    while not found.endswith(b"\r\n\r\nhello"):
        part = line.recv(1000)
        assert part, found
        found += part


@pytest.fixture
def address(predictor_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Serve a word from a server with little patience."""

    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    async def hesitate(request: Request) -> PlainTextResponse:
        await asyncio.sleep(1.0)  # longer than any patience
        return PlainTextResponse("hello")

    async def give_much(request: Request) -> PlainTextResponse:
        return PlainTextResponse("much" * (8 << 20))

    monkeypatch.setattr(PatientProtocol, "patience", 0.3)
    monkeypatch.setattr(PatientProtocol, "reading_patience", 0.3)
    models = Models({"a": Path()}, lambda _: predictor_of())
    with ThreadPoolExecutor(1) as pool, closing(open_socket("127.0.0.1", 0)) as taken:
        routes = [Route("/", hello, methods=["GET", "POST"]), Route("/much", give_much)]
        routes.append(Route("/slow", hesitate))
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
            _read_hello(quick)
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
        _read_hello(slow)
        slow.sendall(dripped)
        assert slow.recv(100) == b""


@pytest.mark.parametrize(
    ("behind", "count"),
    [
        (b"GET / HT", 1),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT", 2),
        (b"\x00 nonsense\r\n\r\n", 1),
    ],
    ids=["half a head", "a request and half a head", "nonsense"],
)
def test_who_waits_for_a_slow_answer_is_not_hung_up_on_before_it(
    address: Any, behind: bytes, count: int
) -> None:
    with closing(socket.create_connection(address, timeout=10)) as line:
        line.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(0.1)
        line.sendall(behind)
        found = b""
        while part := line.recv(1000):
            found += part
        assert found.count(b"HTTP/1.1 200 OK") == found.count(b"hello") == count


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


def test_who_reads_nothing_is_hung_up_on_and_who_reads_slowly_is_not(
    address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientProtocol, "reading_patience", 1.5)  # a busy machine reads late
    request = b"GET /much HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    lines = [socket.create_connection(address, timeout=10) for _ in range(2)]
    with closing(lines[0]) as lazy, closing(lines[1]) as slow:
        for line in lines:
            line.sendall(request)
        for _ in range(5):
            time.sleep(0.4)  # together longer than the patience with a reader
            assert _read(slow, 4 << 20) == 4 << 20
        assert _read(slow, 64 << 20) > 12 << 20
        assert _read(lazy, 64 << 20) < 32 << 20


@pytest.fixture
def crowded(predictor_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Serve a model behind a door at which far too much is expected."""
    monkeypatch.setattr(PatientProtocol, "patience", 0.3)
    models = Models({"a": Path()}, lambda _: predictor_of())
    app = make_app(models, AppSettings(access_log=True))
    app.state.doorman.expected[0] = 10**6
    with ThreadPoolExecutor(1) as pool, closing(open_socket("127.0.0.1", 0)) as taken:
        is_open = Event()
        ended = pool.submit(serve, app, taken, models, drain=1.0, on_ready=is_open.set)
        assert is_open.wait(timeout=10)
        models.get().batcher._pace.add(num_tokens=100, seconds=1.0)
        yield SimpleNamespace(address=taken.getsockname()[:2], doorman=app.state.doorman)
        assert models.on_give_up is not None
        models.on_give_up()
        with pytest.raises(BertworksError):
            ended.result(timeout=10)


def embed(*headers: bytes, body: bytes = b'{"inputs": "a"}', length: int | None = None) -> bytes:
    """Return the bytes of a request for a vector."""
    size = b"%d" % (len(body) if length is None else length)
    lines = [b"POST /embed HTTP/1.1", b"Host: a", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"Content-Length: " + size, b"", body])


def replies(line: socket.socket, count: int) -> list[tuple[bytes, Any]]:
    """Return the heads and bodies of some replies, and nothing must come behind."""
    seen, found = bytearray(), []
    while len(found) < count:
        part = line.recv(1 << 16)
        assert part
        seen += part
        while (end := seen.find(b"\r\n\r\n")) >= 0:
            length = int(re.findall(rb"content-length: (\d+)", seen[:end])[0])
            if len(seen) < end + 4 + length:
                break
            found.append((bytes(seen[:end]), json.loads(seen[end + 4 : end + 4 + length])))
            del seen[: end + 4 + length]
    assert not seen
    return found


def test_what_would_wait_too_long_is_refused_before_its_body_comes(crowded: Any) -> None:
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        line.sendall(embed(body=b"", length=15))
        ((head, told),) = replies(line, 1)
        assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert b"\r\nretry-after: 60" in head
        assert b"\r\nx-content-type-options: nosniff" in head
        assert told["error"]["code"] == "overloaded"
        line.sendall(b'{"inputs": "a"}')
        crowded.doorman.expected[0] = 0
        line.sendall(embed())
        ((head, told),) = replies(line, 1)
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert len(told) == 1


def test_the_refused_may_ask_something_else_on_the_same_line(crowded: Any) -> None:
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        for _ in range(3):
            line.sendall(embed())
            replies(line, 1)
        line.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b'{route="/embed",status="429"} 3\n' in line.recv(1 << 16)


def test_the_refused_may_come_again_later_but_must_not_be_slow_then(crowded: Any) -> None:
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        for _ in range(2):
            line.sendall(embed())
            replies(line, 1)
            time.sleep(0.6)  # twice the patience with a head that has begun
        line.sendall(embed()[:20])
        assert line.recv(100) == b""


def test_the_refused_who_do_not_come_again_are_hung_up_on(
    crowded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientProtocol, "reading_patience", 0.6)
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        line.sendall(embed())
        replies(line, 1)
        began = time.monotonic()
        assert line.recv(100) == b""
        assert time.monotonic() - began > 0.5


def test_who_is_refused_at_the_door_has_a_line_in_the_log_too(crowded: Any, capfd: Any) -> None:
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        line.sendall(embed())
        replies(line, 1)
        crowded.doorman.expected[0] = 0
        line.sendall(embed() + b"no HTTP\r\n\r\n")
        replies(line, 1)
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        line.sendall(b"POST /embed HTTP/1.1\r\nContent-Type: application/json\r\n")
        line.sendall(b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
        replies(line, 1)
    until, said = time.monotonic() + 10, list[str]()
    while len(said) < 4 and time.monotonic() < until:
        said += capfd.readouterr().err.splitlines()
        time.sleep(0.01)
    found = [re.sub(r"^\S+Z |[\d.]+ ms$", "", line).strip() for line in said]
    assert sorted(found) == [
        "127.0.0.1 - - 400",
        "127.0.0.1 - - 400",
        "127.0.0.1 POST /embed 200",
        "127.0.0.1 POST /embed 429",
    ]


@pytest.mark.parametrize("header", [b"Connection: close", b"Expect: 100-continue"])
def test_who_wants_to_leave_is_let_go_and_who_sends_no_body_too(
    crowded: Any, header: bytes
) -> None:
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        line.sendall(embed(header, body=b"", length=15))
        ((head, _),) = replies(line, 1)
        assert head.startswith(b"HTTP/1.1 429")
        assert line.recv(100) == b""


def test_answers_keep_the_order_of_their_requests(crowded: Any) -> None:
    get = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        line.sendall(embed() + get + embed() + get)
        refused, alive, vectors, alive_too = [told for _, told in replies(line, 4)]
    assert refused["error"]["code"] == "overloaded"
    assert alive == alive_too == {"status": "alive"}
    assert len(vectors) == 1  # behind another the door is not asked, and the line has room


def test_a_ticket_is_given_back_whatever_becomes_of_the_request(crowded: Any) -> None:
    doorman = crowded.doorman
    doorman.expected[0] = 0
    requests = [embed(), embed(body=b"no json"), embed(body=b'{"inputs": ""}', length=99)]
    for request in requests:
        with closing(socket.create_connection(crowded.address, timeout=10)) as line:
            line.sendall(request)
            if request is not requests[-1]:
                replies(line, 1)
    until = time.monotonic() + 10
    while any(doorman.expected) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(doorman.expected)


def test_a_body_may_take_longer_than_its_head(crowded: Any) -> None:
    crowded.doorman.expected[0] = 0
    request = embed()
    with closing(socket.create_connection(crowded.address, timeout=10)) as line:
        line.sendall(request[:-3])
        time.sleep(0.8)  # more than twice the patience with a head
        line.sendall(request[-3:])
        ((head, _),) = replies(line, 1)
    assert head.startswith(b"HTTP/1.1 200 OK")


def _read(line: socket.socket, most: int) -> int:
    count = 0
    while part := line.recv(min(most - count, 1 << 20)):
        count += len(part)
    return count
