"""The process that listens: it takes a port, answers, and leaves without breaking its word."""

import gc
import socket
from asyncio import TimerHandle
from ipaddress import ip_address
from threading import Timer
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bertworks.core.errors import BertworksError, UsageError
from bertworks.service.failures import Failure
from bertworks.service.http_app import response_of
from bertworks.service.models import Models

NOTICE = 1.0  # seconds in which the service says that it leaves, and still answers
BACKLOG = 2048  # connections that wait to be taken
HEADERS = 10.0  # seconds in which a connection says what it wants
LONGEST_HEAD = 64 << 10  # bytes
IDLE = 30  # seconds that a connection is kept without a request, or unread


def open_socket(host: str, port: int) -> socket.socket:
    """Take a port before anything else is done; one that is taken is an error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen(BACKLOG)
    except OSError as error:
        taken.close()
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another "
            "--port or --host"
        ) from error
    return taken


def address_of(taken: socket.socket) -> str:
    """Return where a socket is reached."""
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(host: str) -> bool:
    """Tell whether only this machine can reach a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def serve(app: Any, taken: socket.socket, models: Models, *, drain: float) -> None:
    """Answer until a signal comes; then finish what was begun, within some seconds."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=max(round(drain), 1),
    )
    gc.collect()
    gc.freeze()  # what is there by now stays, and need not be looked through again and again
    server = _Server(config, models)
    models.on_give_up = server.give_up
    try:
        server.run(sockets=[taken])
    finally:
        models.stop(0.0 if server.has_given_up else drain)
    if server.has_given_up:
        raise BertworksError(
            "the service ends, for its worker was lost again and again; the lines above tell why"
        )


class PatientProtocol(HttpToolsProtocol):
    """A connection that is closed when it does not say in time what it wants, or does not read."""

    patience = HEADERS
    reading_patience = IDLE
    longest_head = LONGEST_HEAD

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._alarm: TimerHandle | None = None
        self._reading_alarm: TimerHandle | None = None
        self._num_begun = 0  # requests
        self._is_open = False  # a request has begun and not ended
        self._head: int | None = None  # bytes of a head, but those that came with its first

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; who sends something else is not waited for either."""
        num_begun = self._num_begun
        super().data_received(data)
        if self._head is not None and num_begun == self._num_begun:
            self._head += len(data)
            if self._head > self.longest_head:
                self.send_400_response(f"The head is longer than {self.longest_head} bytes.")
        has_answered = self.cycle is None or self.cycle.response_complete
        is_waiting = self._alarm is not None or self.timeout_keep_alive_task is not None
        if has_answered and not self._is_open and not is_waiting:
            self._wait()

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a request's head."""
        super().on_message_begin()
        self._num_begun, self._is_open, self._head = self._num_begun + 1, True, 0
        self._wait()

    def on_headers_complete(self) -> None:
        """Wait no longer: the body has a time limit of its own."""
        self._head = None
        self._rest()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait no longer."""
        self._is_open = False
        self._rest()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin to wait for the rest of a body that nobody reads."""
        super().on_response_complete()
        if self._is_open:
            self._wait()

    def pause_writing(self) -> None:
        """Begin to wait for a client that reads too slowly."""
        super().pause_writing()
        self._watch_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Wait no longer."""
        super().resume_writing()
        if self._reading_alarm is not None:
            self._reading_alarm.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._rest()
        super().connection_lost(exc)
        if self._reading_alarm is not None:
            self._reading_alarm.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP as all else is refused, and hang up."""
        response = response_of(Failure("bad_request", msg))
        headers = [*response.raw_headers, (b"connection", b"close")]
        lines = [b"HTTP/1.1 400 Bad Request", *(b": ".join(header) for header in headers), b"", b""]
        self.transport.write(b"\r\n".join(lines) + bytes(response.body))
        self.transport.close()

    def _wait(self) -> None:
        self._rest()
        self._alarm = self.loop.call_later(self.patience, self.transport.abort)

    def _rest(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _watch_reader(self, num_unread: int) -> None:
        """Hang up on a client that reads nothing for a while."""

        def look() -> None:
            left = self.transport.get_write_buffer_size()
            if left < num_unread:
                self._watch_reader(left)
            else:
                self.transport.abort()

        self._reading_alarm = self.loop.call_later(self.reading_patience, look)


class _Server(uvicorn.Server):
    """Uvicorn's server, which says for a while that it leaves before it takes no more."""

    def __init__(self, config: uvicorn.Config, models: Models) -> None:
        super().__init__(config)
        self.has_given_up = False
        self._models = models

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to leave; a second signal does not wait for anybody."""
        if self._models.is_stopping:
            self.should_exit = self.force_exit = True
            return
        self._models.refuse_new()
        notice = Timer(NOTICE, self._leave)
        notice.daemon = True
        notice.start()

    def give_up(self) -> None:
        """Leave at once, for nothing can be answered any more."""
        self.has_given_up = self.should_exit = self.force_exit = True

    def _leave(self) -> None:
        self.should_exit = True
