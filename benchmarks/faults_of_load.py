"""More than can be computed: overload, memory, and one who asks for much among many for little."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np
from fault_site import MINI, Asked, Site, Verdict, is_right
from service_client import Load, Reply, Service, closed_loop, connect, run
from tight_client import Clients

REFUSED_WITHIN, ANSWERED_WITHIN = 50.0, 1000.0  # milliseconds
IN_FLIGHT = 64  # texts that are asked for at once when it is measured how many can be answered
RUSH = 64  # connections that an overload begins with


def overload(site: Site, share: float) -> Iterator[Verdict]:
    """O1 and O2: twice and ten times what can be computed, one text a request and eight."""
    for num_texts in (1, 8):
        groups = zip(*[iter(range(len(site.texts)))] * num_texts, strict=True)
        asked = [Asked(places, site.request(places)) for places in groups]
        yield from _overload(site, asked, share)
    yield from _unbounded(site, [one.request for one in asked], seconds=max(3.0, 10 * share))


def _overload(site: Site, asked: Sequence[Asked], share: float) -> Iterator[Verdict]:
    model, num_texts = site.model("mini", MINI), len(asked[0].places)
    requests, wanted = [one.request for one in asked], site.vectors(model)
    name = f"O1 {num_texts}"
    with site.serve(model, as_it_comes=True) as service:
        in_turn(service, requests, clients=2 * IN_FLIGHT // num_texts, seconds=2)  # whole batches
        calm = in_turn(service, requests, clients=1, seconds=1 + 4 * share)
        for times, seconds in ((2, 60), (10, 20)):
            before = _capacity(service, requests, num_texts, seconds=2 + 8 * share)
            steady = service.memory()
            rush = Clients(service, requests, count=RUSH)
            load = rush.ask_at(times * before.rate, max(3.0, seconds * share))
            grown = service.memory() / steady
            after = _recovery(service, requests, calm, seconds=1 + 4 * share)
            again = _capacity(service, requests, num_texts, seconds=2 + 8 * share)
            num_wrong = sum(not _is_right(asked[n], body, wanted) for n, body in rush.bodies)
            yield _is_clean(f"{name} {times}x", load, num_wrong, rush.refusals)
            yield from _overload_verdicts(f"{name} {times}x", load, (before, again))
            yield Verdict(f"{name} {times}x", *after)
            yield Verdict(f"O2 {num_texts} {times}x", "memory under overload <= 1.2x",
                          f"{grown:.2f}x", grown <= 1.2)  # fmt: skip


def in_turn(service: Service, requests: Sequence[bytes], *, clients: int, seconds: float) -> Load:
    """Let a few clients ask, each as soon as it has its reply."""
    return Clients(service, requests, count=clients).ask_in_turn(seconds)


def _capacity(
    service: Service, requests: Sequence[bytes], num_texts: int, *, seconds: float
) -> Load:
    return in_turn(service, requests, clients=IN_FLIGHT // num_texts, seconds=seconds)


def _is_right(asked: Asked, body: bytes, wanted: np.ndarray) -> bool:
    return is_right(Reply(200, b"", body, 0.0), wanted[list(asked.places)])


def _is_clean(test: str, load: Load, num_wrong: int, refusals: set[bytes]) -> Verdict:
    num_unadvised = sum(b"\r\nretry-after: " not in refusal.lower() for refusal in refusals)
    told = f"{dict(load.statuses)}, {num_wrong} wrong, {num_unadvised} not advised"
    is_clean = load.statuses.keys() <= {200, 429} and not num_wrong and not num_unadvised
    return Verdict(test, "only answers and advised 429s", told, is_clean)


def _overload_verdicts(test: str, load: Load, calm: tuple[Load, Load]) -> Iterator[Verdict]:
    """Compare with what can be answered, measured just before and just after."""
    capacity, of_core = (fmean(getattr(one, name) for one in calm)
                         for name in ("rate", "rate_of_core"))  # fmt: skip
    refused, answered = load.percentile(0.99, status=429), load.percentile(0.99)
    yield Verdict(test, f"refused in < {REFUSED_WITHIN:.0f} ms p99", f"{refused:.0f} ms",
                  0 < refused < REFUSED_WITHIN)  # fmt: skip
    told = f"{load.rate:.0f} of {capacity:.0f}/s, {load.rate / capacity:.0%}; of the cores' time "
    told += f"{load.rate_of_core / of_core:.0%}; the clients took {load.client_share:.0%} of one"
    yield Verdict(test, "goodput >= 90 % of capacity", told, load.rate >= 0.9 * capacity)
    yield Verdict(test, f"answered in <= {ANSWERED_WITHIN:.0f} ms p99", f"{answered:.0f} ms",
                  answered <= ANSWERED_WITHIN)  # fmt: skip


def _recovery(
    service: Service, requests: Sequence[bytes], calm: Load, *, seconds: float
) -> tuple[str, str, bool]:
    ends, before = time.monotonic() + 5, calm.percentile(0.99)
    while True:
        found = in_turn(service, requests, clients=1, seconds=seconds).percentile(0.99)
        if found <= 2 * before or time.monotonic() > ends:
            break
    told = f"{found:.0f} ms, {before:.0f} before"
    return "after 5 s p99 as before, <= 2x", told, found <= 2 * before


def _unbounded(site: Site, requests: Sequence[bytes], *, seconds: float) -> Iterator[Verdict]:
    """Show that a queue without a bound would not pass."""
    boundless = ("--queue-tokens", 10**9, "--deadline", 600, "--wait", 600)
    with site.serve(site.model("mini", MINI), *boundless, as_it_comes=True) as service:
        capacity = _capacity(service, requests, 8, seconds=2)
        load = Clients(service, requests, count=RUSH).ask_at(3 * capacity.rate, seconds)
    found = load.percentile(0.99)
    yield Verdict("O1 control", "a queue without bound is too slow", f"p99 {found:.0f} ms",
                  found > ANSWERED_WITHIN)  # fmt: skip


def soak(site: Site, share: float) -> Iterator[Verdict]:
    """O2: memory does not grow with the number of requests."""
    requests = max(2000, round(100_000 * share))
    for test, doom, target in (
        ("O2", (), "<= 20 MB more"),
        ("O2 control", ("--leak", round(60e6 / requests)), "a leak of 60 MB is seen"),
    ):
        with site.serve(site.model("a"), doom=doom) as service:
            run(asks(site, service, requests // 5))
            before = service.memory()
            run(asks(site, service, requests))
            grown = service.memory() - before
        is_kept = grown <= 20 if test == "O2" else grown > 20
        yield Verdict(test, f"{requests} requests: {target}", f"{grown:+.1f} MB", is_kept)


async def asks(site: Site, service: Service, count: int, *, clients: int = 16) -> None:
    """Let a few clients ask for one text at a time until enough were asked."""
    requests = [site.request((n,)) for n in range(256)]
    left = iter(range(count))

    async def client() -> None:
        connection = await connect(service.port)
        for number in left:
            await connection.ask(requests[number % 256])
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))


def much_among_little(site: Site, share: float) -> Iterator[Verdict]:
    """O3: who asks for one text is not kept waiting by who asks for hundreds."""
    model, seconds = site.model("mini", MINI), max(2.0, 20 * share)
    little = [site.request((n,)) for n in range(256)]
    much = [site.request(range(512))]
    with site.serve(model, as_it_comes=True) as service:
        run(closed_loop(service.port, little, clients=4, seconds=1))
        alone = run(closed_loop(service.port, little, clients=4, seconds=seconds))
        single = run(closed_loop(service.port, much, clients=1, seconds=1))
        among, big = run(_both(service, little, much, seconds=seconds))
    times = among.percentile(0.99) / max(alone.percentile(0.99), 1e-9)
    told = f"{alone.percentile(0.99):.0f} ms, then {among.percentile(0.99):.0f} ms, {times:.1f}x"
    yield Verdict("O3", "one text p99 <= 3x beside large requests", told, times <= 3)
    statuses = among.statuses + big.statuses
    told = f"{dict(statuses)}; large ones {single.percentile(0.5):.0f} ms, then "
    told += f"{big.percentile(0.5):.0f} ms"
    yield Verdict("O3", "nobody starves", told,
                  statuses.keys() == {200} and big.statuses[200] > 0)  # fmt: skip


async def _both(
    service: Service, little: Sequence[bytes], much: Sequence[bytes], *, seconds: float
) -> tuple[Load, Load]:
    small = closed_loop(service.port, little, clients=4, seconds=seconds)
    large = closed_loop(service.port, much, clients=1, seconds=seconds)
    return await asyncio.gather(small, large)
