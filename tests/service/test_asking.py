"""From a request to its answer: order, patience, hang-ups, overload, numbers that are none."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, current_thread
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from bertworks.service import asking
from bertworks.service.asking import KEPT, wait_for
from bertworks.service.batcher import Batcher, BatchLimits
from bertworks.service.failures import Failure
from bertworks.service.http_app import AppSettings, make_app
from bertworks.service.jobs import Item, Job
from bertworks.service.models import Models
from bertworks.service.turns import AT_ONCE


@pytest.fixture
def models(model_folder) -> Iterator[Models]:
    models = Models.open([str(model_folder("classify"))], limits=BatchLimits(queue_tokens=200))
    yield models
    models.stop(1.0)


@pytest.fixture
def gate(models) -> Iterator[Event]:
    """Let the model compute only while the gate is open, which it is not yet."""
    served, gate = models.get(), Event()

    def compute(key, contents):
        gate.wait(20)
        return served.compute(key, contents)

    served.batcher.stop(0.0)
    served.batcher = Batcher(compute, BatchLimits(batch_tokens=20, queue_tokens=200))
    served.batcher.start()
    yield gate
    gate.set()


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what will come."""
    end = time.monotonic() + 20
    while not is_so() and time.monotonic() < end:
        time.sleep(0.002)
    assert is_so()


async def call(app, body: dict | bytes, hang_up: Callable[[], bool]) -> list[dict]:
    """Ask as a server does, and hang up as soon as something is so; bytes are not all."""
    is_part = isinstance(body, bytes)
    content = body if is_part else json.dumps(body).encode()
    messages = [{"type": "http.request", "body": content, "more_body": is_part}]
    sent = []

    async def receive() -> dict:
        while not messages and not hang_up():
            await asyncio.sleep(0.002)
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/embed", "headers": headers}
    await app({**scope, "query_string": b"", "root_path": ""}, receive, send)
    return sent


def test_answers_come_back_in_order_to_those_who_asked(client, served_models) -> None:
    texts = [f"{number} cats and {number * number} dogs" for number in range(60)]
    expected = served_models.get().predictor.embed(texts, normalize=True)

    def ask(first: int) -> None:
        found = client.post("/embed", json={"inputs": texts[first : first + 5]}).json()
        np.testing.assert_allclose(found, expected[first : first + 5], atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, list(range(55)) * 2))


def test_a_client_that_hangs_up_is_not_computed_for(models, gate) -> None:
    app = make_app(models, AppSettings())
    batcher, door = models.get().batcher, app.state.asker.door
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(TestClient(app).post, "/embed", json={"inputs": "kept"})
        until(lambda: batcher.num_in_hand == 1)
        gone = {"inputs": ["left", "left behind"]}
        sent = asyncio.run(call(app, gone, lambda: batcher.num_waiting == 2))
        assert sent[0]["status"] == 499
        gate.set()
        assert first.result(20).status_code == 200
    until(lambda: batcher.num_skipped == 2)
    assert batcher.num_computed == 1
    assert (door.num_requests, door.num_bytes) == (0, 0)
    counts = TestClient(app).get("/metrics").text
    assert 'bertworks_requests_total{route="/embed",status="499"} 1\n' in counts


def test_sockets_that_close_while_they_wait_free_their_places(models, gate, serve_app) -> None:
    app = make_app(models, AppSettings())
    batcher, door = models.get().batcher, app.state.asker.door
    body = b'{"inputs": ["a", "b"]}'
    head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    request = b"POST /embed HTTP/1.1\r\nhost: here\r\n" + head.encode() + body
    with serve_app(app) as address:
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        sockets = [socket.create_connection(place) for _ in range(9)]
        for one in sockets:
            one.sendall(request)
        until(lambda: batcher.num_waiting + batcher.num_in_hand == 18)
        num_begun = batcher.num_in_hand
        for one in sockets:
            one.close()
        until(lambda: door.num_requests == 0)
        gate.set()
        until(lambda: batcher.num_skipped == 18 - num_begun)
    assert batcher.num_computed <= num_begun < 18


def test_a_client_that_stays_is_computed_for(models, gate) -> None:
    gate.set()
    sent = asyncio.run(call(make_app(models, AppSettings()), {"inputs": "kept"}, lambda: False))
    assert sent[0]["status"] == 200
    assert len(json.loads(sent[1]["body"])) == 1


def test_a_client_that_hangs_up_while_it_sends_is_let_go(models) -> None:
    app = make_app(models, AppSettings())
    sent = asyncio.run(call(app, b'{"inputs"', lambda: True))
    assert sent[0]["status"] == 499
    assert app.state.asker.door.num_bytes == 0


def test_a_body_that_never_ends_is_not_waited_for(models) -> None:
    app = make_app(models, AppSettings(deadline=0.05))
    sent = asyncio.run(call(app, b'{"inputs"', lambda: False))
    assert sent[0]["status"] == 504
    assert json.loads(sent[1]["body"])["error"]["code"] == "too_late"
    assert app.state.asker.door.num_requests == 0


def test_what_waits_too_long_is_told_so_and_never_computed(models, gate) -> None:
    app = make_app(models, AppSettings(deadline=0.1))
    batcher = models.get().batcher
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(TestClient(app).post, "/embed", json={"inputs": "begun in time"})
        until(lambda: batcher.num_in_hand == 1)
        late = TestClient(app).post("/embed", json={"inputs": "too late"})
        assert late.status_code == 504
        assert late.json()["error"]["code"] == "too_late"
        gate.set()
        assert first.result(20).status_code == 200  # what was begun is finished
    until(lambda: batcher.num_waiting == 0)
    assert batcher.num_computed == 1


def test_more_than_the_queue_holds_is_refused_with_a_time_to_come_again(models, gate) -> None:
    app = make_app(models, AppSettings())
    batcher = models.get().batcher
    many = {"inputs": ["the cat sat on the mat"] * 20}
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(TestClient(app).post, "/embed", json=many)
        until(lambda: batcher.num_in_hand > 0)
        second = TestClient(app).post("/embed", json=many)
        text = TestClient(app).get("/metrics").text
        gate.set()
        assert first.result(20).status_code == 200
    assert second.status_code == 429
    assert second.json()["error"]["code"] == "overloaded"
    assert re.search(r'^bertworks_refused_total\{model="\w+"\} 1$', text, re.MULTILINE)
    assert re.search(r'^bertworks_submitted_total\{model="\w+"\} 20$', text, re.MULTILINE)
    assert re.search(r'^bertworks_computing_items\{model="\w+"\} [1-9]', text, re.MULTILINE)
    assert int(second.headers["retry-after"]) >= 1
    assert TestClient(app).post("/embed", json=many).status_code == 200


def test_numbers_that_are_none_never_leave(models) -> None:
    client = TestClient(make_app(models, AppSettings()))
    assert client.post("/embed", json={"inputs": "fine"}).status_code == 200
    with torch.no_grad():
        next(iter(models.get().predictor.model.encoder.parameters())).fill_(float("nan"))
    for path in ("/embed", "/embed_all", "/classify", "/v1/embeddings", "/encode"):
        name = {"/v1/embeddings": "input", "/encode": "texts"}.get(path, "inputs")
        answer = client.post(path, json={name: ["cat"]})
        assert answer.status_code == 500, path
        assert answer.json()["error"]["code"] == "not_finite"


def test_a_model_that_is_exchanged_meanwhile_fails_nobody(models, model_folder) -> None:
    app, folders = (
        make_app(models, AppSettings()),
        [model_folder("classify", seed=s) for s in (5, 6)],
    )
    stop, seen = Event(), set()

    def ask() -> int:
        client, failed = TestClient(app), 0
        while not stop.is_set():
            told = client.post("/classify", json={"inputs": ["the cat"]})
            failed += told.status_code != 200
            seen.add((told.json().get("revision"), str(told.json().get("answers"))[:40]))
        return failed

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        for folder in folders * 2:
            models.swap("classify", folder)
        stop.set()
        assert [one.result(20) for one in asking] == [0, 0, 0]
    assert len({revision for revision, _ in seen}) == len(seen) >= 2  # wholly one or the other


def waiting(*jobs: Job, patience: float = 20.0) -> list:
    """Wait for jobs as a request does whose client stays."""

    async def wait() -> list:
        return await wait_for(jobs, asyncio.Event().wait, time.monotonic() + patience)

    return asyncio.run(wait())


@pytest.fixture
def make_jobs() -> Callable[[int], list[Job]]:
    return lambda count: [Job(Item("key", n, 1), time.monotonic() + 20) for n in range(count)]


def test_jobs_that_are_done_already_are_not_waited_for(make_jobs) -> None:
    jobs = make_jobs(3)
    for job in jobs:
        job.answer.set_result(job.item.content)
    assert waiting(*jobs) == [0, 1, 2]
    assert waiting() == []


def test_what_ends_for_all_at_once_is_told_a_few_at_a_time(make_jobs) -> None:
    async def tell() -> list[int]:
        jobs = make_jobs(3 * AT_ONCE)
        receive = asyncio.Event().wait  # nobody hangs up
        waits = [wait_for([job], receive, time.monotonic() + 20) for job in jobs]
        told = [asyncio.ensure_future(wait) for wait in waits]
        await asyncio.sleep(0.01)
        for job in jobs:
            job.answer.set_result("done")
        counts = [0]
        while counts[-1] < len(told):
            await asyncio.sleep(0)
            counts.append(sum(one.done() for one in told))
        return np.diff(counts).tolist()

    assert max(asyncio.run(tell())) == AT_ONCE


def test_one_failure_is_that_of_its_input_by_number(make_jobs) -> None:
    jobs = make_jobs(3)
    for job in jobs:
        job.answer.set_running_or_notify_cancel()
    jobs[0].answer.set_result("a")
    jobs[1].answer.set_exception(Failure("not_finite", "no numbers"))
    jobs[2].answer.set_result("c")
    with pytest.raises(Failure, match="input 2: no numbers") as failed:
        waiting(*jobs)
    assert failed.value.code == "not_finite"


def test_jobs_nobody_waits_for_any_longer_are_cancelled(make_jobs) -> None:
    jobs = make_jobs(2)
    with pytest.raises(Failure) as failed:
        waiting(*jobs, patience=0.0)
    assert failed.value.code == "too_late"
    assert all(job.answer.cancelled() for job in jobs)


def test_of_a_huge_text_no_more_is_kept_than_any_model_looks_at(make_client) -> None:
    client = make_client(max_body=9 << 20, max_characters=9 << 20)
    whole = "the cat " * (1 << 20)
    assert len(whole) > 3 * KEPT
    found = [client.post("/embed", json={"inputs": text}) for text in (whole, whole[: KEPT - 1])]
    assert [reply.status_code for reply in found] == [200, 200]
    assert [reply.headers["x-truncated"] for reply in found] == ["1", "1"]
    assert found[0].json() == found[1].json()
    refused = client.post("/embed", json={"inputs": whole, "truncate": False})
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
    headers = {"content-type": "application/json"}
    torn = json.dumps({"inputs": whole}).encode()[:-2]
    for body in (torn, torn + b'\x01"}', torn + b'\xff"}'):
        refused = client.post("/embed", content=body, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_request")


@pytest.mark.parametrize("route", ["/embed", "/tokenize"])
def test_large_requests_are_read_cut_and_answered_beside_the_event_loop(
    client, served_models, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    threads: dict[str, str] = {}

    def watch(place: Any, name: str) -> None:
        done = getattr(place, name)

        def noted(*arguments: Any, **named: Any) -> Any:
            threads[name] = current_thread().name
            return done(*arguments, **named)

        monkeypatch.setattr(place, name, noted)

    watch(asking, "decode")
    watch(asking, "_write")
    watch(served_models.get(), "prepare")
    watch(served_models.get(), "tokenize")
    assert client.post(route, json={"inputs": ["the cat sat"] * 300}).status_code == 200
    work = {"decode", "tokenize"} if route == "/tokenize" else {"decode", "prepare", "_write"}
    assert threads.keys() == work
    assert all(name.startswith("bertworks-reader") for name in threads.values())
    assert client.post(route, json={"inputs": "the cat"}).status_code == 200
    assert not threads["decode"].startswith(
        "bertworks-reader"
    )  # what is small costs less than that
