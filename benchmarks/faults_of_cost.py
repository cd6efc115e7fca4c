"""What the service costs over the bare model."""

import time
from collections.abc import Iterator

from fault_site import MINI, NAME, ROUTE, WORDS, Site, Verdict
from service_client import Service, closed_loop, post, run

import bertworks
from bertworks.serving.predictor import Predictor

BATCH = 32  # texts
MOST = {120: 0.1, 16: 0.25}  # share of the bare model's speed that may be lost, by words of a text


def overhead(site: Site, share: float) -> Iterator[Verdict]:
    """O7: texts a second of a service that is kept busy, beside those of a plain loop."""
    model, seconds = site.model("mini", MINI), max(2.0, 10 * share)
    bare = bertworks.load(model, device="cpu", threads=1)
    with site.serve(model) as service:
        for words, most in MOST.items():
            texts = [" ".join(site.random.choices(WORDS, k=words)) for _ in range(BATCH)]
            lost = 1 - _best_share(service, bare, texts, seconds)
            yield Verdict("O7", f"{BATCH} texts of {words} words: <= {most:.0%} slower than bare",
                          f"{lost:.0%} slower", lost <= most)  # fmt: skip
    with site.serve(model, doom=["--slow", 1]) as service:
        lost = 1 - _best_share(service, bare, texts, 2.0)
    yield Verdict("O7 control", "batches that take 1 s longer are seen", f"{lost:.0%} slower",
                  lost > MOST[16])  # fmt: skip


def _best_share(service: Service, bare: Predictor, texts: list[str], seconds: float) -> float:
    """Return the served texts a second as a share of the bare ones, the best of each in turns."""
    request = [post(ROUTE, {"model": NAME, "input": texts, "encoding_format": "base64"})]
    served = alone = 0.0
    for _ in range(3):
        alone = max(alone, _rate(bare, texts, seconds / 3))
        load = run(closed_loop(service.port, request, clients=2, seconds=seconds / 3))
        served = max(served, load.rate * BATCH)
    return served / alone


def _rate(bare: Predictor, texts: list[str], seconds: float) -> float:
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        bare.embed(texts)
        done += len(texts)
    return done / (time.perf_counter() - began)
