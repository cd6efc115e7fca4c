"""The life of a service: asked to end, robbed of its worker, its model exchanged under load."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fault_site import NAME, TOLERANCE, Site, Verdict, is_near, is_right, vectors_of
from service_client import Reply, Service, connect, post, run

Replies = list[tuple[tuple[int, ...], Reply]]  # the places of the texts that were asked for


def ended(site: Site, share: float) -> Iterator[Verdict]:
    """L1: who was let in is answered before the service ends."""
    model, clients = site.model("a"), 100
    for test, number in (("L1", signal.SIGTERM), ("L1 control", signal.SIGKILL)):
        slow = ["--slow", 0.05]
        with site.serve(model, "--batch-tokens", 128, doom=slow) as service:
            replies, still_ready, took = run(end_while_busy(site, service, number, clients))
            code = service.process.returncode
        wanted = site.vectors(model)
        right = sum(r.status == 200 and is_right(r, wanted[list(at)]) for at, r in replies)
        told = f"{right} of {clients} right, exit {code} after {took:.1f} s"
        if test == "L1":
            is_kept = right == clients and code == 0 and took <= 30
            yield Verdict(test, f"SIGTERM, {clients} inside: all answered, exit 0", told, is_kept)
            yield Verdict(
                test, "/readyz is not 200 from then on", str(still_ready), not still_ready
            )
        else:
            yield Verdict(test, "kill -9 loses answers", told, right < clients)


async def end_while_busy(
    site: Site, service: Service, number: int, clients: int
) -> tuple[Replies, bool, float]:
    """Return what those inside were told, whether it still called itself ready, and how long."""
    connections = [await connect(service.port) for _ in range(clients)]
    asked = [site.ask(most=2) for _ in range(clients)]
    tasks = [
        asyncio.ensure_future(c.ask(a.request)) for c, a in zip(connections, asked, strict=True)
    ]
    await asyncio.sleep(0.4)
    began = time.perf_counter()
    os.kill(service.process.pid, number)
    await asyncio.sleep(0.3)
    status, _ = await asyncio.to_thread(service.fetch, "/readyz")
    replies = await asyncio.gather(*tasks)
    for connection in connections:
        connection.close()
    await asyncio.to_thread(service.process.wait, 60)
    took = time.perf_counter() - began
    return [(a.places, r) for a, r in zip(asked, replies, strict=True)], status == 200, took


def lost_worker(site: Site, share: float) -> Iterator[Verdict]:
    """L2: a worker that dies or hangs is seen and replaced, and nobody waits for ever."""
    model, stuck_after = site.model("a"), 3.0
    with site.serve(model, doom=["--stuck-after", stuck_after]) as service:
        unready, _, _ = run(rob(site, service, None, until=1.0))
        yield Verdict("L2 control", "without a fault it stays ready", f"{unready}", unready is None)
        for name, number in (("dies", signal.SIGUSR1), ("hangs", signal.SIGUSR2)):
            unready, ready, statuses = run(rob(site, service, number, until=12.0))
            told = f"{_seconds(unready)}, again ready {_seconds(ready)}"
            is_kept = unready is not None and unready <= 2 and ready is not None and ready <= 10
            target = "unready <= 2 s, ready again <= 10 s"
            yield Verdict("L2", f"a worker {name}: {target}", told, is_kept)
            told = str(dict(statuses))
            yield Verdict("L2", f"a worker {name}: no request hangs", told,
                          statuses[200] > 0 and statuses.keys() <= {200, 503})  # fmt: skip
        code = _rob_often(site, service)
    yield Verdict("L2", "too many lost: exit, not 0", f"exit {code}", code not in (None, 0))


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"after {value:.2f} s"


async def rob(
    site: Site, service: Service, number: int | None, *, until: float
) -> tuple[float | None, float | None, Counter[int]]:
    """Return when the service was unready and ready again, and what those inside were told."""
    if number is not None:
        os.kill(service.process.pid, number)
        await asyncio.sleep(0.1)
    statuses, began = Counter[int](), time.perf_counter()
    is_over = asyncio.Event()

    async def client() -> None:
        connection = await connect(service.port)
        while not is_over.is_set():
            reply = await asyncio.wait_for(connection.ask(site.ask(most=2).request), 20)
            statuses[reply.status] += 1
            await asyncio.sleep(0.05)
        connection.close()

    clients = [asyncio.ensure_future(client()) for _ in range(8)]
    unready = await asyncio.to_thread(_wait, service, 200, began, until, is_there=False)
    ready = None
    if unready is not None:
        ready = await asyncio.to_thread(_wait, service, 200, began, until, is_there=True)
    await asyncio.sleep(0.5)
    is_over.set()
    await asyncio.gather(*clients)
    return unready, ready, statuses


def _wait(
    service: Service, status: int, began: float, until: float, *, is_there: bool
) -> float | None:
    found = service.wait_until(
        lambda s: (s == status) is is_there, within=until - (time.perf_counter() - began)
    )
    return None if found is None else time.perf_counter() - began


def _rob_often(site: Site, service: Service) -> int | None:
    """Let one worker after the other die, and return how the service ends."""
    for _ in range(10):
        if service.wait_until(lambda status: status == 200, within=3) is None:
            break
        os.kill(service.process.pid, signal.SIGUSR1)
        run(_ask_once(site, service))
    with suppress(subprocess.TimeoutExpired):
        service.process.wait(40)
    return service.process.poll()


async def _ask_once(site: Site, service: Service) -> None:
    try:
        connection = await connect(service.port)
        await asyncio.wait_for(connection.ask(site.ask(most=1).request), 15)
        connection.close()
    except OSError:
        return


@dataclass
class Swapped:
    """What clients saw while a model was exchanged."""

    statuses: Counter[int] = field(default_factory=Counter)
    sides: Counter[str] = field(default_factory=Counter)  # whose vectors they were
    refusals: Counter[int] = field(default_factory=Counter)  # of folders that are broken
    swaps: Counter[int] = field(default_factory=Counter)
    said: dict[str, Any] = field(default_factory=dict)  # answer by revision
    num_mislabelled: int = 0


def swapped(site: Site, share: float) -> Iterator[Verdict]:
    """L4: a model is exchanged under load; every answer is wholly of one, and says of which."""
    count, a, b = max(4, round(100 * share)), site.model("a"), site.model("b")
    broken = damaged_copy(b, site.folder / "broken")
    wanted = {"a": site.vectors(a), "b": site.vectors(b)}
    with site.serve(a, "--allow-swap", "--deadline", 60) as service:
        found = run(swap_under_load(site, service, [b, broken, a], wanted, count))
    told = f"{dict(found.swaps)}; clients {dict(found.statuses)}"
    yield Verdict("L4", f"{count} swaps under load: no request fails", told,
                  found.statuses.keys() == {200} and found.swaps.keys() == {200})  # fmt: skip
    told = f"{dict(found.sides)}, {found.num_mislabelled} mislabelled"
    is_whole = found.sides.keys() == {"a", "b"} and not found.num_mislabelled
    yield Verdict("L4", "answers wholly a or wholly b, labelled", told, is_whole)
    yield Verdict("L4", "a broken folder is refused", str(dict(found.refusals)),
                  found.refusals.keys() == {422})  # fmt: skip
    mixed = np.stack([wanted["a"][0], wanted["b"][1]])
    seen = _side(mixed, (0, 1), wanted)
    yield Verdict("L4 control", "a mixed answer is seen", seen, seen == "mixed")


def damaged_copy(model: Path, out: Path) -> Path:
    """Copy a model and change one byte of its weights."""
    shutil.copytree(model, out, dirs_exist_ok=True)
    file = max(out.rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    return out


async def swap_under_load(
    site: Site, service: Service, folders: list[Path], wanted: dict[str, np.ndarray], count: int
) -> Swapped:
    """Exchange the model for those of folders, in turn, while clients ask."""
    found, is_over = Swapped(), asyncio.Event()

    async def vectors() -> None:
        connection = await connect(service.port)
        while not is_over.is_set():
            asked = site.ask(most=5)
            reply = await connection.ask(asked.request)
            found.statuses[reply.status] += 1
            if reply.status == 200:
                found.sides[_side(vectors_of(reply), asked.places, wanted)] += 1
        connection.close()

    async def masks() -> None:
        connection = await connect(service.port)
        request = post("/fill-mask", {"inputs": ["the cat [MASK] on the mat"]})
        while not is_over.is_set():
            reply = await connection.ask(request)
            found.statuses[reply.status] += 1
            if reply.status == 200:
                told = reply.json()
                first = found.said.setdefault(told["revision"], told["answers"])
                found.num_mislabelled += not is_near(first, told["answers"])
        connection.close()

    clients = [asyncio.ensure_future(one()) for one in (*[vectors] * 6, masks)]
    connection = await connect(service.port)
    for number in range(count):
        folder = folders[number % len(folders)]
        reply = await connection.ask(post(f"/models/{NAME}", {"path": str(folder)}))
        (found.refusals if folder.name == "broken" else found.swaps)[reply.status] += 1
    is_over.set()
    await asyncio.gather(*clients)
    connection.close()
    return found


def _side(vectors: np.ndarray, places: tuple[int, ...], wanted: dict[str, np.ndarray]) -> str:
    """Return whose vectors they all are."""
    for name, own in wanted.items():
        if np.abs(vectors - own[list(places)]).max() <= TOLERANCE:
            return name
    return "mixed"
