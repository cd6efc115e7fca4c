"""Clients of a service for measuring: cheap HTTP/1.1 connections, closed and open loops.

A service runs as a child on a free port of this machine. The clients live in one process and one
thread; the share of a core that they take is measured with everything else.
"""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

HOST = "127.0.0.1"
PATIENCE, COMES_UP = 30.0, 180.0  # seconds
LOST = 0  # the status of a request whose connection broke
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, and after how many seconds."""

    status: int
    head: bytes
    body: bytes
    seconds: float

    def header(self, name: str) -> str | None:
        """Return a header's value."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode("latin-1")
        return None

    def json(self) -> Any:
        """Return what the body says."""
        return json.loads(self.body)


class Connection(asyncio.Protocol):
    """A connection that is kept; one request at a time."""

    def __init__(self) -> None:
        self.transport: Any = None
        self._seen = bytearray()
        self._ends = 0  # where the reply ends, once its head is there
        self._body_at = 0
        self._waiting: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self.transport is not None and not self.transport.is_closing()

    def connection_made(self, transport: Any) -> None:
        """Keep the way to write."""
        self.transport = transport
        OPEN.add(self)

    def data_received(self, data: bytes) -> None:
        """Gather a reply until it is whole."""
        self._seen += data
        if not self._ends:
            at = self._seen.find(b"\r\n\r\n")
            if at < 0:
                return
            self._body_at = at + 4
            self._ends = self._body_at + _length(self._seen[:at])
        if len(self._seen) >= self._ends:
            self._wake(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what still waits."""
        OPEN.discard(self)
        self._wake(exc or ConnectionResetError("the service closed the connection"))

    async def ask(self, request: bytes) -> Reply:
        """Send a request and wait for its reply; one that is cut off has the status LOST."""
        started = time.perf_counter()
        self._seen.clear()
        self._ends = 0
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            await self._waiting
        except ConnectionError:
            return Reply(LOST, b"", b"", time.perf_counter() - started)
        finally:
            self._waiting = None
        seconds = time.perf_counter() - started
        head, body = bytes(self._seen[: self._body_at]), bytes(self._seen[self._body_at :])
        return Reply(int(head[9:12]), head, body, seconds)

    def close(self) -> None:
        """Hang up, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()

    def _wake(self, error: Exception | None) -> None:
        if self._waiting is None or self._waiting.done():
            return
        if error is None:
            self._waiting.set_result(None)
        else:
            self._waiting.set_exception(ConnectionResetError(str(error)))


OPEN: set[Connection] = set()  # closed when the clients have done their work


def _length(head: bytearray) -> int:
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


async def connect(port: int) -> Connection:
    """Open a connection."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, HOST, port)
    return connection


def post(path: str, content: Any, *, headers: Iterable[str] = ()) -> bytes:
    """Return the bytes of a request; content that is no bytes goes as JSON."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {HOST}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path: str) -> bytes:
    """Return the bytes of a request without a body."""
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


@dataclass
class Load:
    """What a loop of requests met."""

    seconds: float = 0.0
    client_share: float = 0.0  # of one core
    service_share: float = 0.0  # of one core, where it is known
    times: dict[int, list[float]] = field(default_factory=dict)  # by status

    @property
    def statuses(self) -> Counter[int]:
        """How many replies had each status."""
        return Counter({status: len(times) for status, times in self.times.items()})

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.times.get(200, ())) / self.seconds if self.seconds else 0.0

    @property
    def rate_of_core(self) -> float:
        """Answers in a second of what the clients and the service had of the cores."""
        return self.rate / (self.client_share + self.service_share)

    def percentile(self, share: float, *, status: int = 200) -> float:
        """Return how many milliseconds that share of the replies took at most."""
        times = sorted(self.times.get(status, ()))
        return 1e3 * times[min(len(times) - 1, int(share * len(times)))] if times else 0.0

    def note(self, reply: Reply) -> None:
        """Count a reply."""
        self.times.setdefault(reply.status, []).append(reply.seconds)


async def closed_loop(
    port: int, requests: Sequence[bytes], *, clients: int, seconds: float
) -> Load:
    """Let clients ask one request after the other, each as soon as it has its reply."""
    load, ends = Load(), time.perf_counter() + seconds

    async def client(number: int) -> None:
        connection, at = await connect(port), number
        while time.perf_counter() < ends:
            if not connection.is_open:
                connection = await connect(port)
            load.note(await connection.ask(requests[at % len(requests)]))
            at += clients
        connection.close()

    await _timed(load, [client(number) for number in range(clients)])
    return load


async def _timed(load: Load, work: Iterable[Awaitable[None]]) -> None:
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*work)
    load.seconds = time.perf_counter() - started
    load.client_share = (time.process_time() - cpu) / load.seconds


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run clients on the quickest loop of events that is installed."""
    if find_spec("uvloop") is None:
        return asyncio.run(_and_hang_up(work))
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_and_hang_up(work))


async def _and_hang_up(work: Awaitable[Result]) -> Result:
    try:
        return await work
    finally:
        while OPEN:  # also what was being opened when its client was called back
            for connection in tuple(OPEN):
                connection.close()
            await asyncio.sleep(0.001)


@dataclass
class Service:
    """A service that runs as a child."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def fetch(self, path: str, *, within: float = 10.0) -> tuple[int, bytes]:
        """Return the status and the body of one GET; LOST where nobody answers."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=within)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            return LOST, b""
        finally:
            connection.close()

    def said(self) -> str:
        """Return what it printed."""
        return self.log.read_text(errors="replace")

    def wait_until(
        self, is_so: Callable[[int], bool], *, path: str = "/readyz", within: float
    ) -> float | None:
        """Return after how many seconds the status of a path is as it should be, or None."""
        started = time.perf_counter()
        while (passed := time.perf_counter() - started) < within:
            if is_so(self.fetch(path, within=2.0)[0]):
                return passed
            if self.process.poll() is not None:
                return None
            time.sleep(0.02)
        return None

    def stop(self, *, within: float = 40.0) -> int:
        """Ask it to end, and return how it did."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(within)
        self.process.kill()
        return self.process.wait()

    def memory(self) -> float:
        """Return the megabytes that it holds."""
        return self.status("VmRSS") / 1024

    def peak(self) -> float:
        """Return the most megabytes that it held since that was forgotten."""
        return self.status("VmHWM") / 1024

    def forget_peak(self) -> None:
        """Begin to look for the most anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def status(self, name: str) -> int:
        """Return a number that the system tells of the process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        return 0

    def num_files(self) -> int:
        """Return how many files and connections it holds open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def cpu_seconds(self) -> float:
        """Return how long it has computed, on all cores together."""
        numbers = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@contextmanager
def started(
    words: Sequence[object],
    *,
    ready: str = "/readyz",
    sources: Path | None = None,
    port: int | None = None,
) -> Iterator[Service]:
    """Run a service while the block lasts; `{port}` among its words becomes a free port.

    `sources` is a folder of packages that it can import.
    """
    port = port or free_port()
    quiet = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment = {**os.environ, **quiet}  # noqa: TID251
    if sources is not None:
        environment["PYTHONPATH"] = str(sources)
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(word).format(port=port) for word in words],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        service = Service(process, port, Path(log.name))
        try:
            if (
                service.wait_until(lambda status: status == 200, path=ready, within=COMES_UP)
                is None
            ):
                sys.exit(f"{words[0]} did not come up:\n{service.said()[-2000:]}")
            yield service
        finally:
            service.stop()
