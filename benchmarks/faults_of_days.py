"""A service over time: its probes in bad hours, a supervisor that brings it back, a long day."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from fault_site import NAME, TOLERANCE, Asked, Site, Verdict, is_right, vectors_of
from faults_of_answers import leave
from faults_of_input import complaint, make_requests
from faults_of_life import damaged_copy
from service_client import (
    Connection,
    Reply,
    Service,
    closed_loop,
    connect,
    free_port,
    get,
    post,
    run,
)

CLIENTS = 16
HOUR, SWAP_EVERY = 3600.0, 5.0  # seconds
LOAD = 0.7  # of what can be computed
LATE = 2.0  # seconds beyond which a probe does not count as answered


def probes(site: Site, share: float) -> Iterator[Verdict]:
    """L3: it says that it lives while it opens a model, while its line is full, in an exchange."""
    a, b = site.model("a"), site.model("b")
    slow = ["--slow", 0.1, "--slow-load", 3]
    began = time.perf_counter()
    with site.serve(a, "--batch-tokens", 64, "--queue-tokens", 4000, "--allow-swap", doom=slow,
                    ready="/livez") as service:  # fmt: skip
        lives = time.perf_counter() - began
        service.wait_until(lambda status: status == 200, within=60)
        ready = time.perf_counter() - began
        yield Verdict("L3", "/livez is 200 while a model is opened",
                      f"after {lives:.1f} s, ready after {ready:.1f} s",
                      ready - lives >= 1)  # fmt: skip
        (answer,) = run(ask_each(service, [site.request((1,))]))
        yield Verdict("L3", "/readyz is 200 when a forward has passed",
                      f"the next answer is {answer}", answer == 200)  # fmt: skip
        full = run(probe_while(service, lambda: ask_each(service, [site.request(range(9))] * 300)))
        swap = [post(f"/models/{NAME}", {"path": str(b)})]
        exchanged = run(probe_while(service, lambda: ask_each(service, swap)))
        for name, (found, told) in (("line full", full), ("exchange", exchanged)):
            yield Verdict("L3", f"{name}: /livez is 200 throughout",
                          f"{dict(found)}, clients {dict(Counter(told))}",
                          set(found) == {200})  # fmt: skip
        service.process.send_signal(signal.SIGSTOP)
        held, _ = run(probe_while(service, lambda: asyncio.sleep(LATE + 1, [])))
        service.process.send_signal(signal.SIGCONT)
    yield Verdict("L3 control", "a process that is stopped is seen", f"{dict(held)}",
                  set(held) != {200})  # fmt: skip


async def ask_each(service: Service, requests: list[bytes]) -> list[int]:
    """Return what is said to requests that are sent at once, each on a line of its own."""
    connections = [await connect(service.port) for _ in requests]
    pairs = zip(connections, requests, strict=True)
    return [reply.status for reply in await asyncio.gather(*(c.ask(r) for c, r in pairs))]


async def probe_while(
    service: Service, work: Callable[[], Awaitable[list[int]]]
) -> tuple[Counter[int], list[int]]:
    """Return what /livez says while something goes on, and what that led to."""
    found, working = Counter[int](), asyncio.ensure_future(work())
    while not working.done():
        connection = await connect(service.port)
        try:
            found[(await asyncio.wait_for(connection.ask(get("/livez")), LATE)).status] += 1
        except TimeoutError:
            found[0] += 1
        connection.close()
        await asyncio.sleep(0.01)
    return found, await working


def supervised(site: Site, share: float) -> Iterator[Verdict]:
    """L6: killed in the middle of its work, it is back as quickly as it came, and is right."""
    times, port = max(2, round(5 * share)), free_port()
    rise(site, port)
    pairs = [(rise(site, free_port()), rise(site, port)) for _ in range(times)]
    first, again = (median(took for took, _ in side) for side in zip(*pairs, strict=True))
    right = sum(is_fine for _, (_, is_fine) in pairs)
    told = f"{again:.1f} s, a first start {first:.1f} s (medians), {right} of {times} right"
    yield Verdict("L6", f"{times} kills under load: back within a start + 2 s, right", told,
                  again <= first + 2 and right == times)  # fmt: skip
    took, _ = rise(site, port, doom=["--slow-load", 2 * first + 4])
    yield Verdict("L6 control", "one that is slow to come back is seen", f"{took:.1f} s",
                  took > first + 2)  # fmt: skip


def rise(site: Site, port: int, doom: tuple[object, ...] | list[object] = ()) -> tuple[float, bool]:
    """Start the service, see that it is right, and kill it under load; return how long it took."""
    began, model = time.perf_counter(), site.model("a")
    with site.serve(model, port=port, doom=doom) as service:
        took = time.perf_counter() - began
        asked = site.ask()
        is_fine = run(_is_right(service, asked, site.vectors(model)))
        run(_kill_under_load(site, service))
    return took, is_fine


async def _is_right(service: Service, asked: Asked, wanted: np.ndarray) -> bool:
    connection = await connect(service.port)
    reply = await connection.ask(asked.request)
    return reply.status == 200 and is_right(reply, wanted[list(asked.places)])


async def _kill_under_load(site: Site, service: Service) -> None:
    requests = [site.request((n,)) for n in range(64)]
    load = asyncio.ensure_future(closed_loop(service.port, requests, clients=8, seconds=0.5))
    await asyncio.sleep(0.3)
    service.process.kill()
    with suppress(OSError):
        await load
    await asyncio.to_thread(service.process.wait)


@dataclass
class Day:
    """A long day of a service, and what was met on it."""

    site: Site
    service: Service
    wanted: Mapping[str, np.ndarray]  # of the models that are exchanged
    num_right: int = 0
    num_wrong: int = 0
    num_left: int = 0
    num_hung: int = 0
    num_swaps: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    complaints: Counter[str] = field(default_factory=Counter)

    async def spend(self, *, rate: float, seconds: float) -> None:
        """Let clients come at a rate for some seconds, while the model is exchanged."""
        ends, seed = time.monotonic() + seconds, self.site.random.getrandbits(30)
        odd = make_requests(1 << 40, seed=seed)
        lots = [random.Random(seed + number) for number in range(CLIENTS)]
        await asyncio.gather(*(self._come(lot, odd, rate, ends) for lot in lots), self._swap(ends))

    async def _come(
        self, lot: random.Random, odd: Iterator[tuple[str, bytes]], rate: float, ends: float
    ) -> None:
        connection, at = await connect(self.service.port), time.monotonic()
        while (at := at + lot.expovariate(rate / CLIENTS)) < ends:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            if not connection.is_open:
                connection = await connect(self.service.port)
            drawn = lot.random()
            if drawn < 0.05:
                await leave(connection, self.site.ask().request, after=0.02 * lot.random())
                self.num_left += 1
            elif drawn < 0.1:
                await self._send_odd(connection, *next(odd))
            else:
                await self._send(connection, self.site.ask())
        connection.close()

    async def _send(self, connection: Connection, asked: Asked) -> None:
        reply = await self._reply(connection, asked.request)
        if reply is not None and reply.status == 200:
            is_fine = _is_of_one(vectors_of(reply), asked, self.wanted)
            self.num_right += is_fine
            self.num_wrong += not is_fine

    async def _send_odd(self, connection: Connection, name: str, request: bytes) -> None:
        reply = await self._reply(connection, request)
        if reply is not None and (wrong := complaint(reply)):
            self.complaints[f"{name}: {wrong}"] += 1

    async def _reply(self, connection: Connection, request: bytes) -> Reply | None:
        try:
            reply = await asyncio.wait_for(connection.ask(request), 20)
        except TimeoutError:
            self.num_hung += 1
            connection.close()
            return None
        self.statuses[reply.status] += 1
        return reply

    async def _swap(self, ends: float) -> None:
        connection, folders = await connect(self.service.port), _folders(self.site)
        while time.monotonic() + SWAP_EVERY < ends:
            for path in folders.values():
                await connection.ask(post(f"/models/{NAME}", {"path": str(path)}))
                self.num_swaps += 1
            await asyncio.sleep(SWAP_EVERY)
        connection.close()


def long_day(site: Site, share: float) -> Iterator[Verdict]:
    """L7: hours of mixed work, with bad input, clients that leave and models that change."""
    seconds, folders = max(10.0, HOUR * share), _folders(site)
    wanted = {name: site.vectors(path) for name, path in folders.items() if name != "broken"}
    for test, doom in (("L7", ()), ("L7 control", ("--leak-files",))):
        with site.serve(folders["a"], "--allow-swap", doom=doom) as service:
            lasts, rate = seconds if test == "L7" else 6.0, LOAD * run(_capacity(site, service))
            run(
                Day(site, service, wanted).spend(
                    rate=rate, seconds=min(max(6.0, 0.1 * lasts), 60.0)
                )
            )
            before, day = _held(service), Day(site, service, wanted)
            run(day.spend(rate=rate, seconds=lasts))
            time.sleep(2)
            after = _held(service)
        grown = {name: after[name] - before[name] for name in before}
        is_flat = grown["files"] <= 5 and grown["threads"] <= 3
        told = ", ".join(f"{value:+.0f} {name}" for name, value in grown.items())
        if test == "L7":
            yield _day_verdict(day, rate, seconds)
            yield Verdict(test, "files and threads stay", told, is_flat)
        else:
            yield Verdict(test, "files that stay open are seen", told, not is_flat)


def _day_verdict(day: Day, rate: float, seconds: float) -> Verdict:
    told = f"{day.num_right} right, {day.num_wrong} wrong, {day.num_hung} hung, {day.num_left} left"
    told += f", {day.num_swaps} swaps, {dict(sorted(day.statuses.items()))}"
    told += "".join(f"; {text} x{n}" for text, n in day.complaints.most_common(2))
    is_kept = not day.num_wrong and not day.num_hung and not any(s >= 500 for s in day.statuses)
    target = f"{seconds:.0f} s at {LOAD:.0%}, {rate:.0f}/s: 0 wrong, 0 hang, no 5xx"
    return Verdict("L7", target, told, is_kept and day.num_right > 0 and not day.complaints)


def _folders(site: Site) -> dict[str, Path]:
    a, b = site.model("a"), site.model("b")
    return {"b": b, "broken": damaged_copy(b, site.folder / "broken"), "a": a}


async def _capacity(site: Site, service: Service) -> float:
    requests = [site.ask().request for _ in range(256)]
    await closed_loop(service.port, requests, clients=8, seconds=1)
    return (await closed_loop(service.port, requests, clients=8, seconds=2)).rate


def _held(service: Service) -> dict[str, float]:
    numbers = service.num_files(), service.status("Threads"), service.memory()
    return dict(zip(("files", "threads", "MB"), numbers, strict=True))


def _is_of_one(found: np.ndarray, asked: Asked, wanted: Mapping[str, np.ndarray]) -> bool:
    places = list(asked.places)
    return any(np.abs(found - own[places]).max() <= TOLERANCE for own in wanted.values())
