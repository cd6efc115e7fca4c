"""Counts: those of the clients, and no more series than there are routes."""

import random
import re
from collections import Counter
from pathlib import Path

from bertworks.service.metrics import Metrics, _label

COUNT = re.compile(r'bertworks_requests_total\{route="([^"]+)",status="(\d+)"\} (\d+)')


def counted(text: str) -> Counter:
    """Return what the text says of requests."""
    return Counter({(route, int(status)): int(n) for route, status, n in COUNT.findall(text)})


def series(text: str) -> dict[str, float]:
    """Return the value of every series."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_the_counts_are_those_of_the_client(make_client) -> None:
    client, seen, draw = make_client(), Counter(), random.Random(5)
    asks = [("/embed", {"inputs": "cat"}), ("/embed", {}), ("/predict", {"inputs": "cat"})]
    for _ in range(40):
        path, body = draw.choice(asks)
        seen[path, client.post(path, json=body).status_code] += 1
    seen["none", client.get("/nothing").status_code] += 1
    seen["/embed", client.get("/embed").status_code] += 1
    text = client.get("/metrics").text
    assert counted(text) == seen
    assert 'bertworks_request_seconds_count{route="/embed"} ' in text
    assert "bertworks_requests_in_flight 1\n" in text  # itself


def test_tokens_and_items_are_counted_by_model(make_client) -> None:
    client = make_client()
    used = client.post("/classify", json={"inputs": ["cat", "cat " * 5000], "model": "classify"})
    text = client.get("/metrics").text
    assert f'bertworks_tokens_total{{model="classify"}} {used.json()["usage"]["tokens"]}\n' in text
    assert 'bertworks_items_total{model="classify"} 2\n' in text
    assert 'bertworks_truncated_total{model="classify"} 1\n' in text


def test_the_series_do_not_grow_with_what_clients_invent(make_client) -> None:
    client, draw = make_client(), random.Random(7)
    invent = lambda: "".join(draw.choices("abcdef0123456789", k=9))  # noqa: E731
    sizes = []
    for _ in range(3):
        for _ in range(20):
            client.get(f"/{invent()}")
            client.post(f"/models/{invent()}/pipeline/{invent()}", json={"inputs": "a"})
            client.post(f"/models/{invent()}/pipeline/fill-mask", json={"inputs": "a"})
            client.post("/embed", json={"inputs": "a", "model": invent()})
        sizes.append(len(client.get("/metrics").text.splitlines()))
    client.get("/metrics")
    assert sizes[1] == sizes[2]


def test_durations_fall_into_the_right_buckets() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.3, 99.0):
        metrics.time("/embed", seconds)
    lines = metrics.text([]).splitlines()
    bucket = 'bertworks_request_seconds_bucket{route="/embed",le='
    found = [line.removeprefix(bucket) for line in lines if line.startswith(bucket)]
    assert found[:3] == ['"0.001"} 1', '"0.0025"} 1', '"0.005"} 2']
    assert found[-2:] == ['"30.0"} 3', '"+Inf"} 4']


def test_waiting_and_batches_are_told_by_model(make_client) -> None:
    client = make_client()
    before = series(client.get("/metrics").text)
    client.post("/embed", json={"inputs": ["cat", "a dog", "the hill"], "model": "tag"})
    after = series(client.get("/metrics").text)

    def grown(name: str) -> float:
        return after[f'{name}{{model="tag"}}'] - before[f'{name}{{model="tag"}}']

    assert grown("bertworks_queue_seconds_count") == grown("bertworks_input_tokens_count") == 3
    assert grown("bertworks_batch_items_sum") == grown("bertworks_computed_total") == 3
    assert grown("bertworks_submitted_total") == 3
    assert grown("bertworks_computing_items") == grown("bertworks_refused_total") == 0
    batches = grown("bertworks_batches_total")
    assert (
        grown("bertworks_batch_tokens_count") == grown("bertworks_batch_seconds_count") == batches
    )


def test_the_page_is_what_prometheus_reads(make_client, served_models) -> None:
    client = make_client()
    client.post("/embed", json={"inputs": "cat"})
    text = client.get("/metrics").text
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    helped = re.findall(r"^# HELP (\S+) \S.*[.]$", text, re.MULTILINE)
    assert helped == list(kinds)
    for name in series(text):
        bare = name.partition("{")[0]
        family = bare if bare in kinds else re.sub(r"_(bucket|sum|count)$", "", bare)
        assert kinds[family] == "histogram" or bare == family
        assert bare.endswith("_total") is (kinds[family] == "counter"), name
    first = served_models.get()
    facts = f'model="{first.name}",revision="{first.revision}",backend="torch",precision="fp32"'
    assert f'bertworks_model_info{{{facts},device="cpu"}} 1' in text


def test_the_documentation_names_every_metric(make_client) -> None:
    client = make_client()
    client.post("/embed", json={"inputs": "cat"})
    kinds = re.findall(r"^# TYPE (\S+) (\w+)$", client.get("/metrics").text, re.MULTILINE)
    page = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", page, re.MULTILINE)
    assert sorted(told) == sorted(kinds)


def test_what_is_no_http_is_counted_too() -> None:
    metrics = Metrics()
    metrics.count_unreadable()
    assert counted(metrics.text([])) == {("none", 400): 1}


def test_names_cannot_break_out_of_their_quotes() -> None:
    assert _label("model", 'a"b\\c\nd') == 'model="a\\"b\\\\c\\nd"'
