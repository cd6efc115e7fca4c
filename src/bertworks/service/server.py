"""The process that listens: it takes a port, answers, and leaves without breaking its word."""

import gc
import re
import socket
import sys
from asyncio import TimerHandle
from collections.abc import Callable
from functools import cache, partial
from http import HTTPStatus
from ipaddress import ip_address
from threading import Thread, Timer
from types import FrameType
from typing import Any, cast

import uvicorn
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bertworks.core.errors import BertworksError, UsageError
from bertworks.service.doorman import Doorman, Ticket, refused
from bertworks.service.failures import Failure
from bertworks.service.guards import SAFE_HEADERS
from bertworks.service.models import Models
from bertworks.service.refusals import response_of

NOTICE = 1.0  # seconds in which the service says that it leaves, and still answers
BACKLOG = 2048  # connections that wait to be taken
HEADERS = 10.0  # seconds in which a connection says what it wants
LONGEST_HEAD = 64 << 10  # bytes
OFFER = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
UNREADABLE = "what came is no request that can be read; send HTTP/1.1"
IDLE = 30  # seconds that a connection is kept without a request, or unread
TURN = 0.001  # seconds for which a thread keeps the interpreter when others want it


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


def serve(
    app: Any,
    taken: socket.socket,
    models: Models,
    *,
    drain: float,
    on_ready: Callable[[], None] = lambda: None,
    on_unreadable: Callable[[], None] = lambda: None,
) -> None:
    """Open the models behind a port that tells so; answer until a signal comes, and finish."""
    config = uvicorn.Config(
        app,
        http=cast(Any, partial(PatientProtocol, on_unreadable=on_unreadable)),
        loop="uvloop",
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="error",  # what clients do wrong is counted, not written
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=max(round(drain), 1),
    )
    sys.setswitchinterval(TURN)
    server = _Server(config, models)
    models.on_give_up = server.give_up
    opening = _Opening(models, on_ready=on_ready, on_failure=server.leave)
    opening.start()
    try:
        server.run(sockets=[taken])
    finally:
        patience = 0.0 if server.force_exit else drain
        opening.join(patience)
        models.stop(patience)
    if opening.error is not None:
        raise opening.error
    if server.has_given_up:
        raise BertworksError(
            "the service ends, for its worker was lost again and again; the lines above tell why"
        )


class _Opening(Thread):
    """Opens the models while the port says that they are not there yet."""

    def __init__(
        self, models: Models, *, on_ready: Callable[[], None], on_failure: Callable[[], None]
    ) -> None:
        super().__init__(name="bertworks-opening", daemon=True)
        self.error: BaseException | None = None
        self._models = models
        self._on_ready = on_ready
        self._on_failure = on_failure

    def run(self) -> None:
        """Open them all, or note why that cannot be done."""
        try:
            self._models.load(last=_keep_what_is_there)
            if self._models.is_loaded:
                self._on_ready()
        except BaseException as error:
            self.error = error
            self._on_failure()


def _keep_what_is_there() -> None:
    """Spare the collector of garbage from looking through the models again and again."""
    gc.collect()
    gc.freeze()


class PatientProtocol(HttpToolsProtocol):
    """A connection that is closed when it does not say in time what it wants, or does not read."""

    patience = HEADERS
    reading_patience = IDLE
    longest_head = LONGEST_HEAD

    def __init__(self, *arguments: Any, on_unreadable: Callable[[], None], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._on_unreadable = on_unreadable
        self._alarm: TimerHandle | None = None
        self._reading_alarm: TimerHandle | None = None
        self._num_begun = 0  # requests
        self._is_open = False  # a request has begun and not ended
        self._head: int | None = None  # bytes of a head, but those that came with its first
        self._is_over = False  # nothing that comes is read any more
        self._is_refused = False  # and the rest of the request is not read
        self._ticket: Ticket | None = None
        app: Any = self.config.app
        self._doorman: Doorman | None = getattr(app.state, "doorman", None)

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; who sends something else is not waited for either."""
        if self._is_over:
            return
        num_begun = self._num_begun
        super().data_received(data if self._is_in_body else _without_offer(data))
        if self._head is not None and num_begun == self._num_begun:
            self._head += len(data)
            if self._head > self.longest_head:
                self._refuse(self._too_long)
        is_waiting = self._alarm is not None or self.timeout_keep_alive_task is not None
        if self._has_answered and (self._is_refused or not self._is_open) and not is_waiting:
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
        if len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers) > self.longest_head:
            self._refuse(self._too_long)
            raise ValueError(self._too_long)  # for the parser to stop
        if not self._turn_away():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, if it is read at all."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait no longer."""
        self._is_open = False
        self._rest()
        if not self._is_refused:
            super().on_message_complete()
        self._is_refused = False

    def on_response_complete(self) -> None:
        """Begin to wait for the rest of a body that nobody reads."""
        self._give_back_ticket()
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
        self._give_back_ticket()
        super().connection_lost(exc)
        if self._reading_alarm is not None:
            self._reading_alarm.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser cannot read."""
        self._refuse(UNREADABLE)

    def _refuse(self, message: str) -> None:
        """Refuse what is no HTTP as all else is refused, and hang up.

        Who sent a whole request before is answered first, or he would take the one for the other.
        """
        if self._is_over or self.transport.is_closing():
            return
        self._is_over = True
        self._on_unreadable()
        if self._is_answering():
            self.cycle.keep_alive = False
            return
        if self.cycle is not None:
            cast(dict[str, Any], self.cycle.scope)["is_unreadable"] = True
        if self.cycle is None or not self.cycle.response_complete or not self._is_in_body:
            self.transport.write(_as_bytes(response_of(Failure("bad_request", message))))
        self.transport.close()

    def _is_answering(self) -> bool:
        """Tell whether a request is being answered, other than one whose body cannot be read."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        is_read = self.cycle.response_started or not self.cycle.more_body
        return is_read or bool(self.pipeline)

    @property
    def _is_in_body(self) -> bool:
        return self._is_open and self._head is None

    @property
    def _too_long(self) -> str:
        return f"the head of the request is longer than {self.longest_head} bytes; send less"

    @property
    def _has_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _turn_away(self) -> bool:
        """Refuse a request that would wait too long; one that is let in gets a ticket."""
        if self._doorman is None or not self._has_answered:
            return False
        found = self._doorman.refusal(self.parser.get_method(), self.url, self.headers)
        if not isinstance(found, int):
            self._ticket = self.scope["state"]["ticket"] = found
            return False
        is_last = self.parser.get_http_version() != "1.1" or not self.parser.should_keep_alive()
        self._is_refused = True
        self.transport.write(_refusal(found, is_last=is_last))
        if is_last:
            self.transport.close()
        return True

    def _give_back_ticket(self) -> None:
        if self._ticket is not None:
            self._ticket.give_back()
            self._ticket = None

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


def _without_offer(data: bytes) -> bytes:
    """Rename the offer of another protocol, or the parser takes the body for words of that."""
    end = data.find(b"\r\n\r\n")
    found = OFFER.search(data, 0, len(data) if end < 0 else end)
    return data if found is None else data[: found.start()] + b"\r\nx-offer:" + data[found.end() :]


def _as_bytes(response: Response, *, is_last: bool = True) -> bytes:
    """Return the bytes of a response, after which the connection may go on or not."""
    headers = {**SAFE_HEADERS, **response.headers, **({"connection": "close"} if is_last else {})}
    status = f"{response.status_code} {HTTPStatus(response.status_code).phrase}"
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + bytes(response.body)


@cache
def _refusal(seconds: int, *, is_last: bool) -> bytes:
    return _as_bytes(response_of(refused(seconds)), is_last=is_last)


class _Server(uvicorn.Server):
    """Uvicorn's server, which says for a while that it leaves before it takes no more."""

    def __init__(self, config: uvicorn.Config, models: Models) -> None:
        super().__init__(config)
        self.has_given_up = False
        self._models = models

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to leave; a second signal does not wait for anybody."""
        if self._models.is_stopping:
            self.leave_at_once()
            return
        self._models.refuse_new()
        if not self._models.is_loaded:  # nobody was promised an answer
            self.leave()
            return
        notice = Timer(NOTICE, self.leave)
        notice.daemon = True
        notice.start()

    def give_up(self) -> None:
        """Leave at once, for nothing can be answered any more."""
        self.has_given_up = True
        self.leave_at_once()

    def leave_at_once(self) -> None:
        """Leave, and wait for nobody."""
        self.should_exit = self.force_exit = True

    def leave(self) -> None:
        """Take no more, and finish what was begun."""
        self.should_exit = True
