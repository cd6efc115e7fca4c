"""Patience with connections, and its end: what is slow, endless or no HTTP is hung up on."""

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Any

from bertworks.service.connection import Connection
from bertworks.service.doorman import Doorman, Ticket
from bertworks.service.failures import STATUSES, Failure
from bertworks.service.refusals import response_of
from bertworks.service.wire import PART_OF_OFFER, as_bytes, refusal_bytes, without_offer

HEADERS = 10.0  # seconds in which a connection says what it wants
IDLE = 30  # seconds that a connection is kept without a request, or unread
LONGEST_HEAD = 64 << 10  # bytes
UNREADABLE = "what came is no request that can be read; send HTTP/1.1"


class PatientProtocol(Connection):
    """A connection that is closed when it does not say in time what it wants, or does not read."""

    patience = HEADERS
    reading_patience = IDLE
    longest_head = LONGEST_HEAD

    def __init__(self, *arguments: Any, on_unreadable: Callable[[], None], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._on_unreadable = on_unreadable
        self._alarm: TimerHandle | None = None  # goes off, and may find that nobody waits
        self._waits_until: float | None = None  # by the clock of the loop
        self._reading_alarm: TimerHandle | None = None
        self._num_begun = 0  # requests
        self._is_open = False  # a request has begun and not ended
        self._head: int | None = None  # bytes of a head, but those that came with its first
        self._end_of_head = b""  # what came of it last, where more is to come
        self._is_over = False  # nothing that comes is read any more
        self._is_refused = False  # and the rest of the request is not read
        self._ticket: Ticket | None = None
        self._doorman: Doorman | None = self.of_app("doorman")
        self._say_refusal: Callable[..., None] | None = self.of_app("say_refusal")

    @property
    def takes_turns(self) -> bool:
        """Let those take turns who ask a model; probes are answered at once."""
        return self._ticket is not None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; who sends something else is not waited for either."""
        if self._is_over:
            return
        num_begun = self._num_begun
        is_in_body, before = self._is_in_body, self._end_of_head
        super().data_received(data if is_in_body else without_offer(data, before=before))
        self._end_of_head = b"" if self._head is None else (before + data)[-PART_OF_OFFER:]
        if self._head is not None and num_begun == self._num_begun:
            self._head += len(data)
            if self._head > self.longest_head:
                self._refuse(self._too_long)
        is_waiting = self._waits_until is not None or self.is_kept_idle
        if self.has_answered and (self._is_refused or not self._is_open) and not is_waiting:
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
        head = self.head
        _, url, headers = head
        if len(url) + sum(len(n) + len(v) + 4 for n, v in headers) > self.longest_head:
            self._refuse(self._too_long)
            raise ValueError(self._too_long)  # for the parser to stop
        if not self._turn_away(*head):
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, if it is read at all."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait no longer."""
        self._is_open = False
        self._rest()
        if self._is_refused:
            self._is_refused = False
            self._wait(self.reading_patience)  # he may ask again as who was answered may
        else:
            super().on_message_complete()

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
        if self._alarm is not None:
            self._alarm.cancel()
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
        self._say(b"-", b"-", STATUSES["bad_request"])
        if self.is_answering:
            self.close_after_answer()
            return
        self.mark_unreadable()
        if not self.has_answered_one or not self._is_in_body:
            self.transport.write(as_bytes(response_of(Failure("bad_request", message))))
        self.transport.close()

    @property
    def _is_in_body(self) -> bool:
        return self._is_open and self._head is None

    @property
    def _too_long(self) -> str:
        return f"the head of the request is longer than {self.longest_head} bytes; send less"

    def _turn_away(self, method: bytes, url: bytes, headers: list[tuple[bytes, bytes]]) -> bool:
        """Refuse a request that would wait too long; one that is let in gets a ticket."""
        if self._doorman is None or not self.has_answered:
            return False
        found = self._doorman.refusal(method, url, headers)
        if not isinstance(found, int):
            self._ticket = found
            self.hand_over("ticket", found)
            return False
        self._is_refused, is_last = True, self.is_last
        self.transport.write(refusal_bytes(found, is_last=is_last))
        self._say(method, url, STATUSES["overloaded"])
        if is_last:
            self.transport.close()
        return True

    def _say(self, method: bytes, path: bytes, status: int) -> None:
        """Say what became of a request that the application does not see, where that is wanted."""
        if self._say_refusal is not None:
            words = (method.decode("latin-1"), path.decode("latin-1"))
            self._say_refusal(self.peer, *words, status)

    def _give_back_ticket(self) -> None:
        if self._ticket is not None:
            self._ticket.give_back()
            self._ticket = None

    def _wait(self, seconds: float | None = None) -> None:
        """Be patient from now on; an alarm that goes off before that will set another."""
        self._waits_until = self.loop.time() + (seconds or self.patience)
        if self._alarm is not None and self._alarm.when() > self._waits_until:
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None:
            self._alarm = self.loop.call_at(self._waits_until, self._look)

    def _rest(self) -> None:
        self._waits_until = None

    def _look(self) -> None:
        """Hang up if the patience is over; there are many requests for one alarm.

        Who waits for an answer himself is not hung up on for what he began to send behind it.
        """
        self._alarm = None
        if self._waits_until is None:
            return
        if self.is_answering:
            self._wait()
        elif self._waits_until <= self.loop.time():
            self.transport.abort()
        else:
            self._alarm = self.loop.call_at(self._waits_until, self._look)

    def _watch_reader(self, num_unread: int) -> None:
        """Hang up on a client that reads nothing for a while."""

        def look() -> None:
            left = self.transport.get_write_buffer_size()
            if left < num_unread:
                self._watch_reader(left)
            else:
                self.transport.abort()

        self._reading_alarm = self.loop.call_later(self.reading_patience, look)
