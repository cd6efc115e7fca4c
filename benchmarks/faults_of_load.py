"""More than can be computed: overload, memory, and one who asks for much among many for little."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from fault_site import MINI, Asked, Site, Verdict, is_right, metrics_of, total
from service_client import Load, Reply, Service, closed_loop, connect, open_loop, run

QUEUE_SECONDS, BATCH_SECONDS = 0.5, 0.1  # what may wait, and one batch, take about this long
TEXTS = 8  # of a request of the overload: the network is to be the bottleneck
REFUSED_WITHIN, ANSWERED_WITHIN = 50.0, 1000.0  # milliseconds


@dataclass
class Watch:
    """Looks at every reply of an overload."""

    asked: Sequence[Asked]
    wanted: np.ndarray
    num_wrong: int = 0
    num_unadvised: int = 0  # refused without being told when to come again

    def see(self, place: int, reply: Reply) -> None:
        """Take a reply."""
        if reply.status == 200:
            places = list(self.asked[place].places)
            self.num_wrong += not is_right(reply, self.wanted[places])
        elif reply.status == 429:
            self.num_unadvised += reply.header("retry-after") is None


def overload(site: Site, share: float) -> Iterator[Verdict]:
    """O1 and O2: twice and ten times what can be computed."""
    model = site.model("mini", MINI)
    asked = [Asked(at, site.request(at)) for at in zip(*[iter(range(1024))] * TEXTS, strict=True)]
    requests, wanted = [one.request for one in asked], site.vectors(model)
    with site.serve(model) as service:
        run(closed_loop(service.port, requests, clients=16, seconds=1))
        capacity = max(_capacity(service, requests, seconds=2 + 8 * share) for _ in range(2))
        counts = metrics_of(service)
    tokens = total(counts, "bertworks_tokens_total") / total(counts, "bertworks_items_total")
    rate = tokens * TEXTS * capacity
    limits = ("--queue-tokens", round(QUEUE_SECONDS * rate))
    limits += ("--batch-tokens", round(BATCH_SECONDS * rate))
    with site.serve(model, *limits) as service:
        calm = run(closed_loop(service.port, requests, clients=1, seconds=1 + 4 * share))
        run(closed_loop(service.port, requests, clients=16, seconds=1 + 4 * share))
        steady = service.memory()
        for times, seconds in ((2, 60), (10, 20)):
            watch = Watch(asked, wanted)
            rush, lasts = times * capacity, max(3.0, seconds * share)
            load = run(open_loop(service.port, requests, rate=rush, seconds=lasts, see=watch.see))
            yield from _overload_verdicts(f"O1 {times}x", load, watch, capacity)
        yield _recovery(service, requests, calm, seconds=1 + 4 * share)
        grown = service.memory() / steady
        yield Verdict("O2", "memory under overload <= 1.2x", f"{grown:.2f}x", grown <= 1.2)
    yield from _unbounded(site, asked, capacity=capacity, seconds=max(3.0, 10 * share))


def _capacity(service: Service, requests: Sequence[bytes], *, seconds: float) -> float:
    return run(closed_loop(service.port, requests, clients=16, seconds=seconds)).rate


def _overload_verdicts(test: str, load: Load, watch: Watch, capacity: float) -> Iterator[Verdict]:
    refused, answered = load.percentile(0.99, status=429), load.percentile(0.99)
    told = f"{dict(load.statuses)}, {watch.num_wrong} wrong, {watch.num_unadvised} not advised"
    is_clean = load.statuses.keys() <= {200, 429} and not watch.num_wrong
    yield Verdict(test, "only answers and advised 429s", told,
                  is_clean and not watch.num_unadvised)  # fmt: skip
    yield Verdict(test, f"refused in < {REFUSED_WITHIN:.0f} ms p99", f"{refused:.0f} ms",
                  0 < refused < REFUSED_WITHIN)  # fmt: skip
    yield Verdict(test, "goodput >= 90 % of capacity",
                  f"{load.rate:.0f} of {capacity:.0f}/s, {load.rate / capacity:.0%}",
                  load.rate >= 0.9 * capacity)  # fmt: skip
    yield Verdict(test, f"answered in <= {ANSWERED_WITHIN:.0f} ms p99", f"{answered:.0f} ms",
                  answered <= ANSWERED_WITHIN)  # fmt: skip


def _recovery(
    service: Service, requests: Sequence[bytes], calm: Load, *, seconds: float
) -> Verdict:
    ends, before = time.monotonic() + 5, calm.percentile(0.99)
    while True:
        after = run(closed_loop(service.port, requests, clients=1, seconds=seconds))
        found = after.percentile(0.99)
        if found <= 2 * before or time.monotonic() > ends:
            break
    told = f"{found:.0f} ms, {before:.0f} before"
    return Verdict("O1", "after 5 s p99 as before, <= 2x", told, found <= 2 * before)


def _unbounded(
    site: Site, asked: Sequence[Asked], *, capacity: float, seconds: float
) -> Iterator[Verdict]:
    """Show that a queue without a bound would not pass."""
    requests = [one.request for one in asked]
    boundless = ("--queue-tokens", 10**9, "--deadline", 600)
    with site.serve(site.model("mini", MINI), *boundless) as service:
        load = run(open_loop(service.port, requests, rate=3 * capacity, seconds=seconds))
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
    with site.serve(model, "--deadline", 30) as service:
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
