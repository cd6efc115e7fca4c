"""Clients that cost as little as Python can: plain sockets, bytes made before, one thread.

A load of thousands of requests a second comes from the cores that the service computes on; what
the clients take of them is measured with everything else.
"""

import select
import socket
import time
from collections.abc import Sequence

from service_client import HOST, LOST, PATIENCE, Load, Service

TICK = 0.005  # seconds between two looks at what is due
LOOK = 0.05  # seconds to wait for replies where nothing is due
PART = 1 << 18  # bytes that are read at once


class Clients:
    """Connections that ask in turn, at a fixed rate or each as soon as it has its reply."""

    def __init__(self, service: Service, requests: Sequence[bytes], *, count: int) -> None:
        self.load = Load()
        self.bodies: list[tuple[int, bytes]] = []  # of answers, and the place of their request
        self.refusals: set[bytes] = set()  # whole replies that were none
        self.lag = 0.0  # seconds that the latest of all requests was sent too late
        self._service = service
        self._requests = requests
        self._count = count
        self._poll = select.epoll()
        self._lines: dict[int, socket.socket] = {}
        self._free: list[int] = []
        self._num_sent = 0
        self._used = 0.0, 0.0  # seconds of the cores before, by the clients and the service
        self._asked: dict[int, tuple[int, float]] = {}  # place of a request, and when it was sent
        self._parts: dict[int, bytearray] = {}  # of replies that are not whole
        for _ in range(count):
            self._connect()

    def ask_in_turn(self, seconds: float) -> Load:
        """Let every client ask again as soon as it has its reply."""
        began = self._begin()
        ends = began + seconds
        while time.perf_counter() < ends:
            while self._free:
                self._send()
            self._receive(LOOK)
        return self._finish(began)

    def ask_at(self, rate: float, seconds: float) -> Load:
        """Ask at a fixed rate, whether or not earlier requests were answered."""
        began = self._begin()
        count, sent = int(rate * seconds), 0
        while sent < count:
            passed = time.perf_counter() - began
            due = min(count, int(rate * passed) + 1)
            self.lag = max(self.lag, passed - sent / rate)
            for _ in range(due - sent):
                if not self._free:
                    self._connect()
                self._send()
            sent = due
            self._receive(TICK)
        return self._finish(began)

    def _connect(self) -> None:
        line = socket.create_connection((HOST, self._service.port))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setblocking(False)
        number = line.fileno()
        self._lines[number] = line
        self._poll.register(number, select.EPOLLIN)
        self._free.append(number)

    def _send(self) -> None:
        number, place = self._free.pop(), self._num_sent % len(self._requests)
        self._num_sent += 1
        self._asked[number] = place, time.perf_counter()
        line, request = self._lines[number], self._requests[place]
        try:
            if line.send(request) < len(request):
                raise BlockingIOError
        except BlockingIOError:
            line.setblocking(True)
            line.sendall(request)
            line.setblocking(False)
        except OSError:
            self._lose(number)

    def _receive(self, wait: float) -> None:
        for number, _ in self._poll.poll(wait):
            try:
                data = self._lines[number].recv(PART)
            except OSError:
                data = b""
            if not data:
                self._lose(number)
            elif data in self.refusals and number not in self._parts:
                self._note(number, 429)
            else:
                self._gather(number, data)

    def _gather(self, number: int, data: bytes) -> None:
        seen = self._parts.setdefault(number, bytearray())
        seen += data
        head_ends = seen.find(b"\r\n\r\n")
        if head_ends < 0 or len(seen) < head_ends + 4 + _length(seen[:head_ends]):
            return
        del self._parts[number]
        status = int(seen[9:12])
        if status == 200:
            self.bodies.append((self._asked[number][0], bytes(seen[head_ends + 4 :])))
        elif status == 429:
            self.refusals.add(bytes(seen))
        self._note(number, status)

    def _note(self, number: int, status: int) -> None:
        _, began = self._asked.pop(number)
        self.load.times.setdefault(status, []).append(time.perf_counter() - began)
        self._free.append(number)

    def _lose(self, number: int) -> None:
        self._poll.unregister(number)
        self._lines.pop(number).close()
        self._parts.pop(number, None)
        if number in self._asked:
            _, began = self._asked.pop(number)
            self.load.times.setdefault(LOST, []).append(time.perf_counter() - began)
        if number in self._free:
            self._free.remove(number)
        if len(self._lines) < self._count:
            self._connect()

    def _begin(self) -> float:
        self._used = time.process_time(), self._service.cpu_seconds()
        return time.perf_counter()

    def _finish(self, began: float) -> Load:
        """Wait for what is under way, and hang up."""
        load, ends = self.load, time.perf_counter() + PATIENCE
        while self._asked and time.perf_counter() < ends:
            self._receive(LOOK)
        load.seconds = time.perf_counter() - began
        load.client_share = (time.process_time() - self._used[0]) / load.seconds
        load.service_share = (self._service.cpu_seconds() - self._used[1]) / load.seconds
        for number in list(self._asked):
            self._note(number, LOST)
        for line in self._lines.values():
            line.close()
        self._poll.close()
        return load


def _length(head: bytearray) -> int:
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
