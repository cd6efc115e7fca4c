"""Whose answer is it: many clients at once, clients that hang up, counts that must agree."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from fault_site import ROUTE, Site, Verdict, is_right, metrics_of, total
from service_client import Connection, Service, connect, get, post, run

CLIENTS = 64


@dataclass
class Ledger:
    """What clients met."""

    statuses: Counter[int] = field(default_factory=Counter)
    num_wrong: int = 0
    num_left: int = 0  # requests whose client hung up or lost patience


def swapped_answers(site: Site, share: float) -> Iterator[Verdict]:
    """S3: answers reach those who asked, whoever leaves meanwhile."""
    each, model = max(20, round(10_000 * share)), site.model("a")
    wanted = site.vectors(model)
    with site.serve(model) as service:
        found = run(crowd(site, service, wanted, each=each))
    told = f"{found.statuses[200]} right, {found.num_wrong} wrong, {found.num_left} left early"
    others = {status: n for status, n in found.statuses.items() if status != 200}
    is_kept = not found.num_wrong and not others and found.statuses[200] > found.num_left
    yield Verdict("S3", f"{CLIENTS} clients x {each}: 0 wrong", f"{told}, others {others}", is_kept)
    with site.serve(model, doom=["--mix"]) as service:
        control = run(crowd(site, service, wanted, each=20))
    yield Verdict("S3 control", "mixed answers are seen", f"{control.num_wrong} wrong",
                  control.num_wrong > 0)  # fmt: skip


async def crowd(site: Site, service: Service, wanted: np.ndarray, *, each: int) -> Ledger:
    """Let many clients ask at once; one in ten requests is left before it is answered."""
    ledger = Ledger()

    async def client() -> None:
        connection = await connect(service.port)
        for _ in range(each):
            if not connection.is_open:
                connection = await connect(service.port)
            asked = site.ask()
            if site.random.random() < 0.1:
                await leave(connection, asked.request, after=0.02 * site.random.random())
                ledger.num_left += 1
                continue
            reply = await connection.ask(asked.request)
            ledger.statuses[reply.status] += 1
            if reply.status == 200:
                ledger.num_wrong += not is_right(reply, wanted[list(asked.places)])
        connection.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return ledger


async def leave(connection: Connection, request: bytes, *, after: float) -> None:
    """Ask and hang up."""
    asking = asyncio.ensure_future(connection.ask(request))
    await asyncio.sleep(after)
    connection.close()
    await asking


def hung_up(site: Site, share: float) -> Iterator[Verdict]:
    """O5: what nobody waits for any more is not computed, and leaves nothing behind."""
    clients, model = max(60, round(1000 * share)), site.model("a")
    few = ("--batch-tokens", 16, "--deadline", 600, "--wait", 600)  # so long that most are let in
    with site.serve(model, *few, doom=["--slow", 0.25]) as service:
        before, full, after = run(drop_all(site, service, clients))
    queued = _inside(full)  # others were told to come again
    skipped = total(after, "bertworks_skipped_total") - total(before, "bertworks_skipped_total")
    yield Verdict("O5", f"{clients} hang up: 95 % of the queued skipped",
                  f"{skipped:.0f} of {queued:.0f}",
                  skipped >= 0.95 * queued and queued > 0.25 * clients)  # fmt: skip
    inside, waiting = _inside(after), _waiting(after)
    told = f"{inside:.0f} requests, {waiting:.0f} tokens"
    yield Verdict("O5", "nothing stays inside", told, inside == 0 and waiting == 0)
    with site.serve(model, *few, doom=["--slow", 0.02]) as service:
        before, _, after = run(drop_all(site, service, 40, do_leave=False))
    skipped = total(after, "bertworks_skipped_total") - total(before, "bertworks_skipped_total")
    yield Verdict("O5 control", "who stays is computed", f"{skipped:.0f} skipped", skipped == 0)


async def drop_all(
    site: Site, service: Service, clients: int, *, do_leave: bool = True
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return what was counted before, when all had asked, and when nobody is inside any longer."""
    before = await asyncio.to_thread(metrics_of, service)
    connections = [await connect(service.port) for _ in range(clients)]
    tasks = [asyncio.ensure_future(c.ask(site.ask(most=1).request)) for c in connections]
    full = await _counts_when(
        service, lambda now: _inside(now) + sum(task.done() for task in tasks) >= clients
    )
    if do_leave:
        for connection in connections:
            connection.close()
    await asyncio.gather(*tasks)
    after = await _counts_when(service, lambda now: _inside(now) == 0 == _waiting(now))
    return before, full, after


async def _counts_when(
    service: Service, is_so: Callable[[dict[str, float]], bool]
) -> dict[str, float]:
    """Return what is counted as soon as it is as it should be, or after some seconds."""
    ends = time.monotonic() + 30
    while True:
        counts = await asyncio.to_thread(metrics_of, service)
        if is_so(counts) or time.monotonic() > ends:
            return counts
        await asyncio.sleep(0.02)


def _inside(counts: dict[str, float]) -> float:
    return total(counts, "bertworks_requests_in_flight") - 1  # the one that asks


def _waiting(counts: dict[str, float]) -> float:
    return total(counts, "bertworks_waiting_tokens")


def counted(site: Site, share: float) -> Iterator[Verdict]:
    """L5: the service counts what its clients count, in series that do not grow."""
    requests = max(100, round(10_000 * share))
    with site.serve(site.model("a")) as service:
        before = metrics_of(service)
        ledger = run(ask_many(site, service, requests // 2))
        middle = metrics_of(service)
        ledger += run(ask_many(site, service, requests - requests // 2))
        after = metrics_of(service)
    differing = differences(ledger, before, after)
    yield Verdict("L5", f"{requests} requests: equal counts",
                  f"{len(differing)} differ {dict(differing)}", not differing)  # fmt: skip
    yield Verdict("L5", "series stay as many", f"{len(middle)}, then {len(after)}",
                  len(middle) == len(after))  # fmt: skip
    ledger[ROUTE, 200] += 1
    yield Verdict("L5 control", "one uncounted request is seen", "1 more in the ledger",
                  bool(differences(ledger, before, after)))  # fmt: skip


def differences(
    ledger: Counter[tuple[str, int]], before: dict[str, float], after: dict[str, float]
) -> Counter[tuple[str, int]]:
    """Return where the service counted other than its clients did."""
    differing = Counter[tuple[str, int]]()
    for (route, status), count in ledger.items():
        name = f'bertworks_requests_total{{route="{route}",status="{status}"}}'
        if after.get(name, 0) - before.get(name, 0) != count:
            differing[route, status] = int(after.get(name, 0) - before.get(name, 0) - count)
    return differing


async def ask_many(site: Site, service: Service, count: int) -> Counter[tuple[str, int]]:
    """Ask for vectors, for paths and for models that are not there."""
    ledger, connection = Counter[tuple[str, int]](), await connect(service.port)
    for _ in range(count):
        odd = f"{site.random.getrandbits(60):x}"
        route, request = site.random.choice(
            [
                (ROUTE, site.ask(most=2).request),
                (ROUTE, post(ROUTE, {"model": odd, "input": ["cat"]})),
                (ROUTE, post(ROUTE, b"{" + odd.encode())),
                ("none", get(f"/{odd}")),
                ("/livez", get(f"/livez?{odd}")),
            ]
        )
        if not connection.is_open:
            connection = await connect(service.port)
        reply = await connection.ask(request)
        ledger[route, reply.status] += 1
    connection.close()
    return ledger
