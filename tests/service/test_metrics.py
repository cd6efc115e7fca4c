"""Counts: those of the clients, and no more series than there are routes."""

import random
import re
from collections import Counter

from bertworks.service.metrics import Metrics, _label

COUNT = re.compile(r'bertworks_requests_total\{route="([^"]+)",status="(\d+)"\} (\d+)')


def counted(text: str) -> Counter:
    """Return what the text says of requests."""
    return Counter({(route, int(status)): int(n) for route, status, n in COUNT.findall(text)})


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
    assert found[0] == '"0.005"} 2'
    assert found[-2:] == ['"10.0"} 3', '"+Inf"} 4']


def test_names_cannot_break_out_of_their_quotes() -> None:
    assert _label("model", 'a"b\\c\nd') == 'model="a\\"b\\\\c\\nd"'
