"""What comes over the wire: no HTTP, too much of it, or next to nothing for too long."""

import asyncio
import gzip
import json
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from fault_site import Site, Verdict, ask_all
from faults_of_input import complaint
from service_client import HOST, LOST, Load, Reply, Service, closed_loop, get, post, run

import bertworks
from bertworks.service.asked import Asked
from bertworks.service.lengths import Lengths
from bertworks.service.vector_answers import VectorAnswers
from bertworks.serving.predictor import Predictor

MIB = 1 << 20
LIMIT = 32 * MIB  # bytes of a body, so large that memory tells
CLOSED_WITHIN = 75.0  # seconds
METHODS = ("GET", "POST", "get", "PUT", "TRACE", "CONNECT", "PRI", "M" * 5000, "", "\x00", "É")
VERSIONS = ("HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/9.9", "http/1.1", "HTP/1.1", "")
TARGETS = ("/livez", "/tokenize", "*", "http://other/livez", "/" + "a" * 70_000, "/\x00", "//", "?")
START = (METHODS, TARGETS, VERSIONS)
ENDS = ("\r\n", "\n", "\r", "\r\n\r\n", "\r\r\n")
SMUGGLED = get("/metrics").decode()
PAIRS = (  # whose ends two servers may see in two places
    ("Content-Length: 4", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked", "Content-Length: 400"),
    ("Content-Length: 4", "Content-Length: 40"),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
    ("Transfer-Encoding: xchunked", "Content-Length: 4"),
    ("Transfer-Encoding : chunked", "Content-Length: 4"),
    ("Transfer-Encoding:\tchunked", "Content-Length: 4"),
    ("Content-Length: +4", "X: y"),
    ("Content-Length: 0x4", "X: y"),
    ("Content-Length: 4, 4", "X: y"),
)


def fuzzed_http(site: Site, share: float) -> Iterator[Verdict]:
    """B3: what is no HTTP, or is read in two ways, is refused or cut off, and harms nobody."""
    count, chance = max(200, round(10_000 * share)), random.Random(5)
    with site.serve(site.model("a")) as service:
        run(send_raw(service, [odd_bytes(chance) for _ in range(count // 10)]))
        before = service.memory()
        told = run(send_raw(service, [odd_bytes(chance) for _ in range(count)]))
        grown = service.memory() - before
        smuggled = run(read_raw(service, smuggling()))
        alive, _ = service.fetch("/readyz")
        service.process.kill()
        service.process.wait()
        dead = run(send_raw(service, [b"GET /livez HTTP/1.1\r\n\r\n"]))
    seen = Counter(judge_raw(one) for one in told)
    is_kept = not any(name.startswith("wrong") for name in seen) and alive == 200
    yield Verdict("B3", f"{count} odd heads and bodies: refused, no 5xx, no hang",
                  f"{dict(seen)}, ready {alive}, {grown:+.1f} MB",
                  is_kept and grown <= 20)  # fmt: skip
    answers = Counter(one.count(b"HTTP/1.1 ") for one in smuggled)
    refused = sum(one.startswith(b"HTTP/1.1 400") for one in smuggled)
    yield Verdict("B3", f"{len(smuggled)} smuggling pairs: refused, one answer each",
                  f"{refused} refused, answers {dict(answers)}",
                  refused == len(smuggled) and set(answers) == {1})  # fmt: skip
    yield Verdict("B3 control", "a service that is gone is seen", f"{judge_raw(dead[0])}",
                  judge_raw(dead[0]).startswith("wrong"))  # fmt: skip


def odd_bytes(chance: random.Random) -> bytes:
    """Return what may look like a request."""
    end = chance.choice(ENDS) if chance.random() < 0.3 else "\r\n"
    parts = [own[0] if chance.random() < 0.6 else chance.choice(own) for own in START]
    first = " ".join(parts)
    lines = [first, *([f"Host: {HOST}"] * chance.choice((0, 1, 1, 1, 3)))]
    lines += [_odd_header(chance) for _ in range(chance.choice((0, 1, 3, 30, 1000)))]
    body = chance.choice(("", "{}", "5\r\nabcde\r\n0\r\n\r\n", "ffffffffffffffffff\r\n", SMUGGLED))
    found = (end.join(lines) + end * 2 + body).encode("latin-1", "replace")
    if chance.random() < 0.2:
        return found[: chance.randrange(len(found) + 1)]
    if chance.random() < 0.2:
        return bytes(chance.randrange(256) for _ in range(chance.choice((1, 50, 500))))
    return found


def _odd_header(chance: random.Random) -> str:
    name = chance.choice(("X", "Content-Type", "Expect", "Upgrade", "Connection", "", "X Y", "É:"))
    value = chance.choice(
        ("y", "application/json", "100-continue", "h2c", "close", "\x00", "é" * 9)
    )
    if chance.random() < 0.1:
        return chance.choice(
            ("Content-Length: -1", "Transfer-Encoding: chunked", " folded", "x" * 9000)
        )
    return f"{name}: {value}"


def smuggling() -> list[bytes]:
    """Return requests with another one hidden in their bodies."""
    hidden = f"0\r\n\r\n{SMUGGLED}"
    heads = [f"POST /tokenize HTTP/1.1\r\nHost: {HOST}\r\n{one}\r\n{other}" for one, other in PAIRS]
    return [f"{head}\r\nContent-Type: application/json\r\n\r\n{hidden}".encode() for head in heads]


async def send_raw(service: Service, sent: Sequence[bytes]) -> list[bytes | None]:
    """Return all that comes back for some bytes before the line is closed; None if it is not."""
    told, left = [None] * len(sent), iter(range(len(sent)))

    async def client() -> None:
        for place in left:
            told[place] = await _exchange(service, sent[place])

    await asyncio.gather(*(client() for _ in range(16)))
    return told


async def _exchange(service: Service, sent: bytes) -> bytes | None:
    try:
        reader, writer = await asyncio.open_connection(HOST, service.port)
    except OSError:
        return None
    try:
        with suppress(OSError):
            writer.write(sent)
            writer.write_eof()
            return await asyncio.wait_for(reader.read(-1), 20)
        return b""  # cut off
    except TimeoutError:
        return None
    finally:
        writer.transport.abort()


async def read_raw(service: Service, sent: Sequence[bytes]) -> list[bytes]:
    """Return all that comes back for some bytes within a second of the last, on an open line."""

    async def exchange(one: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, service.port)
        writer.write(one)
        told = b""
        with suppress(OSError, TimeoutError):
            while part := await asyncio.wait_for(reader.read(1 << 16), 1.0):
                told += part
        writer.transport.abort()
        return told

    return await asyncio.gather(*map(exchange, sent))


def judge_raw(told: bytes | None) -> str:
    """Return what became of some bytes."""
    if told is None:
        return "wrong: no end"
    if not told:
        return "cut off"
    head, _, rest = told.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 ") or not head[9:12].isdigit():
        return f"wrong: {told[:40]!r}"
    status = int(head[9:12])
    body = rest.partition(b"HTTP/1.1 ")[0]
    if status == 200 or not body:  # a HEAD, or 100-continue
        return str(status) if status < 500 else f"wrong: {status}"
    wrong = complaint(Reply(status, head, body, 0.0))
    return str(status) if wrong is None else f"wrong: {wrong}"


def body_limits(site: Site, share: float) -> Iterator[Verdict]:
    """B4: a body is refused at its limit, before it is read as JSON, and is never unpacked."""
    times = max(1, round(10 * share))
    with site.serve(site.model("a"), "--max-body", LIMIT) as service:
        run(ask_all(service, [BODIES["just under"]()[0]], clients=1))
        for name, make in BODIES.items():
            request, status = make()
            before = service.memory()
            service.forget_peak()
            found = [reply for _ in range(times) for reply in run(_ask_once(service, request))]
            grown = service.peak() - before
            told = f"{dict(Counter(one.status for one in found))}, {grown:+.0f} MB at the peak"
            is_kept = {one.status for one in found} == {status} and grown <= 3 * LIMIT / MIB
            yield Verdict("B4", f"{name}: {status}, peak <= 3x the limit", told, is_kept)
    with site.serve(site.model("a"), "--max-body", 2 * LIMIT) as service:
        (found,) = run(ask_all(service, [BODIES["just over"]()[0]], clients=1))
    yield Verdict("B4 control", "a larger limit is seen", f"{found.status}", found.status != 413)


async def _ask_once(service: Service, request: bytes) -> list[Reply]:
    """Ask on a line of its own: what is refused unread is followed by the rest of it."""
    return await ask_all(service, [request], clients=1)


def _padded(size: int) -> bytes:
    body = json.dumps({"inputs": ["the cat"]}).encode()
    return post("/embed", body + b" " * (size - len(body)))


def _in_chunks(size: int, each: int) -> bytes:
    """Return a request whose body comes in chunks and says nothing of its length."""
    body = json.dumps({"inputs": ["the cat"]}).encode().ljust(size)
    parts = [body[at : at + each] for at in range(0, size, each)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    head = f"POST /embed HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def _bomb() -> bytes:
    """Return a body of few bytes that would unpack to a gigabyte."""
    packed = gzip.compress(gzip.compress(b" " * (1 << 30), 9), 9)
    return post("/embed", packed, headers=["Content-Encoding: gzip"])


BODIES: dict[str, Callable[[], tuple[bytes, int]]] = {
    "just under": lambda: (_padded(LIMIT), 200),
    "just over": lambda: (_padded(LIMIT + 1), 413),
    "a length of 10 GB": lambda: (_padded(999).replace(b"Length: 999", b"Length: 9999999999"), 413),
    "in chunks, over": lambda: (_in_chunks(LIMIT + 1, 64 << 10), 413),
    "in chunks of a byte": lambda: (_in_chunks(MIB, 1), 200),
    "a gzip bomb": lambda: (_bomb(), 415),
}


def slow_clients(site: Site, share: float) -> Iterator[Verdict]:
    """O8: who sends or reads next to nothing is not waited for, and others hardly notice."""
    each, seconds = max(10, round(67 * share)), max(3.0, 10 * share)
    with site.serve(site.model("a")) as service:
        alone, beside, left = run(crawl(site, service, each, seconds, within=CLOSED_WITHIN))
    before, then = alone.percentile(0.99), beside.percentile(0.99)
    yield Verdict("O8", f"{3 * each} slow clients: others' p99 <= 2x",
                  f"{before:.1f} ms, then {then:.1f} ms", then <= 2 * before)  # fmt: skip
    yield Verdict("O8", "their lines are closed", f"{left} of {3 * each} stay open", left <= 0)
    with site.serve(site.model("a"), doom=["--patient"]) as service:
        _, _, left = run(crawl(site, service, 3, 1.0, within=15.0))
    yield Verdict("O8 control", "endless patience is seen", f"{left} of 9 stay open", left > 0)


async def crawl(
    site: Site, service: Service, each: int, seconds: float, *, within: float
) -> tuple[Load, Load, int]:
    """Return the loads without and beside slow clients, and how many of their lines stay open."""
    requests = [site.request((n,)) for n in range(64)]
    await closed_loop(service.port, requests, clients=4, seconds=1)
    alone = await closed_loop(service.port, requests, clients=4, seconds=seconds)
    before, tasks = service.num_files(), list[asyncio.Task[None]]()
    for kind in ("reader", "head", "body"):  # what is to be read is computed first
        begun = [asyncio.Event() for _ in range(each)]
        tasks += [asyncio.create_task(_linger(service, kind, one)) for one in begun]
        await asyncio.gather(*(has_begun.wait() for has_begun in begun))
    beside = await closed_loop(service.port, requests, clients=4, seconds=seconds)
    ends = time.monotonic() + within
    while (left := service.num_files() - before) > 0 and time.monotonic() < ends:
        await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return alone, beside, left


async def _linger(service: Service, kind: str, has_begun: asyncio.Event) -> None:
    """Send or read a byte now and then, until the line is closed."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect((HOST, service.port))
    reader, writer = await asyncio.open_connection(sock=line, limit=4096)
    try:
        writer.write(SLOW[kind])
        while not reader.at_eof() and not writer.is_closing():
            if kind == "reader":
                await reader.read(1)
            else:
                writer.write(b" ")
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1000), 0.01)
            has_begun.set()
            await asyncio.sleep(1)
    except OSError:
        return
    finally:
        writer.transport.abort()


SLOW = {
    "head": f"POST /embed HTTP/1.1\r\nHost: {HOST}\r\nX: ".encode(),
    "body": post("/embed", {"inputs": "cat"}).replace(b"Length: 17", b"Length: 99999"),
    "reader": post("/embed_all", {"inputs": ["the cat sat over the river " * 20] * 20}),
}


def huge_texts(site: Site, share: float) -> Iterator[Verdict]:
    """B5: a text costs no more than what is read of it, and holds nobody up."""
    for size in dict.fromkeys((4 * MIB, max(4 * MIB, round(100 * MIB * share)))):
        with site.serve(site.model("a"), "--max-body", size + MIB) as service:
            statuses, lags = Counter[int](), list[float]()
            for text in odd_texts(size):
                reply, late = run(ask_and_poll(service, _unescaped(text)))
                statuses[reply.status] += 1
                lags += late
        lag = 1e3 * sorted(lags)[int(0.99 * (len(lags) - 1))]
        yield Verdict("B5", f"texts of {size / MIB:.0f} MB are answered", f"{dict(statuses)}",
                      set(statuses) == {200})  # fmt: skip
        yield Verdict("B5", "others wait <= 50 ms p99 meanwhile", f"{lag:.0f} ms", lag <= 50)
    for most in (2048, 8192):
        seconds = _slowest_cut(site, partial(partial, _cut, most))
        yield Verdict("B5", f"cut into {most} pieces in <= 100 ms", f"{1e3 * seconds:.0f} ms",
                      seconds <= 0.1)  # fmt: skip
    control = _slowest_cut(site, lambda one: lambda text: one.tokenizer.encode(text[: 1 << 20]))
    yield Verdict("B5 control", "all characters looked at are seen", f"{1e3 * control:.0f} ms",
                  control > 0.1)  # fmt: skip


def _slowest_cut(site: Site, cutter: Callable[[Predictor], Callable[[str], Any]]) -> float:
    """Return the seconds of a processor that the slowest of odd texts takes to be cut."""
    cut, slowest = cutter(bertworks.load(site.model("a"), device="cpu", threads=1)), 0.0
    for text in odd_texts(4 * MIB):
        began = time.thread_time()
        cut(text)
        slowest = max(slowest, time.thread_time() - began)
    return slowest


def _cut(most: int, predictor: Predictor, text: str) -> None:
    """Cut a text as for a model that reads so many pieces."""
    lengths = Lengths(predictor.tokenizer, most, 1 << 18)
    VectorAnswers(predictor, lengths).embed([text], Asked.of("embed", {}))


def _unescaped(text: str) -> bytes:
    return post("/embed", json.dumps({"inputs": text}, ensure_ascii=False).encode())


def odd_texts(size: int) -> Iterator[str]:
    """Return texts of so many bytes that are hard to cut into pieces."""
    for part in ("cat ", "a", " ", "\u0301", "北京", "[", "a\u200d", "#", "1", "\U0001f469\u200d"):
        yield part * (size // len(part.encode()))


async def ask_and_poll(service: Service, request: bytes) -> tuple[Reply, list[float]]:
    """Ask for something large, and see how long the smallest requests take meanwhile."""
    lags = list[float]()

    async def poll() -> None:
        while True:
            (reply,) = await ask_all(service, [get("/livez")], clients=1)
            lags.append(reply.seconds if reply.status != LOST else 30.0)
            await asyncio.sleep(0.005)

    polling = asyncio.create_task(poll())
    started = time.perf_counter()
    (reply,) = await ask_all(service, [request], clients=1, within=60)
    polling.cancel()
    with suppress(asyncio.CancelledError):
        await polling
    return reply, lags or [time.perf_counter() - started]
