"""What cannot be read: malformed requests by the thousand, and those that a schema makes up."""

import asyncio
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fault_site import NAME, Site, Verdict
from service_client import HOST, LOST, Reply, Service, connect, post, run

from bertworks.service.failures import STATUSES

WELL_FORMED: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"model": NAME, "input": ["the cat", "a dog"], "encoding_format": "float"},
    "/embed": {"inputs": ["the cat"], "normalize": True, "truncate": True},
    "/rerank": {"query": "the cat", "texts": ["a dog", "the cat"], "return_text": True},
    "/v1/rerank": {"model": NAME, "query": "cat", "documents": ["dog", "cat"], "top_n": 1},
    "/similarity": {"inputs": {"source_sentence": "cat", "sentences": ["dog", "cat"]}},
    "/tokenize": {"inputs": ["the cat"], "add_special_tokens": True},
    "/encode": {"id": 1, "texts": ["the cat"], "is_tokenized": False},
    "/fill-mask": {"model": NAME, "inputs": ["the [MASK] sat"], "top_k": 3},
    "/zero-shot": {"inputs": ["the cat sat"], "labels": ["animals", "cities"]},
    "/classify": {"inputs": ["the cat"]},
    "/answer": {"inputs": [{"question": "who sat?", "passage": "the cat sat"}]},
}
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**400, 1.5, "", " ", [], {}, [[]], [None], [1], [{}], {"a": 1},
    ["\x00"], ["\ud800"], ["x" * 5000], [["a", "b"]], "\ufeff", "../../etc/passwd",
)  # fmt: skip


def malformed(site: Site, share: float) -> Iterator[Verdict]:
    """B1: what cannot be read is refused in JSON, by a known code, and costs nothing that stays."""
    count = max(200, round(10_000 * share))
    with site.serve(site.model("a")) as service:
        run(send_all(service, make_requests(count // 10, seed=1)))
        before = service.memory()
        found = run(send_all(service, make_requests(count, seed=2)))
        grown = service.memory() - before
        alive, _ = service.fetch("/readyz")
    told = f"{dict(sorted(found.statuses.items()))}, ready {alive}"
    is_kept = not found.complaints and alive == 200 and found.statuses[LOST] == 0
    told += "".join(f"; {text} x{n}" for text, n in found.complaints.most_common(3))
    yield Verdict("B1", f"{count} malformed: 4xx in JSON, no 5xx, no hang", told, is_kept)
    yield Verdict("B1", "memory stays, <= 20 MB", f"{grown:+.1f} MB", grown <= 20)
    broken = Reply(500, b"", b"Internal Server Error", 0.0)
    yield Verdict("B1 control", "a bare 500 is seen", str(complaint(broken)),
                  complaint(broken) is not None)  # fmt: skip


@dataclass
class Told:
    """What the service said to malformed requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    complaints: Counter[str] = field(default_factory=Counter)


async def send_all(service: Service, requests: Iterator[tuple[str, bytes]]) -> Told:
    """Send malformed requests, a few at a time."""
    told = Told()

    async def client() -> None:
        connection = await connect(service.port)
        for name, request in requests:
            if not connection.is_open:
                connection = await connect(service.port)
            try:
                reply = await asyncio.wait_for(connection.ask(request), 20)
            except TimeoutError:
                told.complaints[f"{name}: hangs"] += 1
                connection.close()
                continue
            told.statuses[reply.status] += 1
            if wrong := complaint(reply):
                told.complaints[f"{name}: {wrong}"] += 1
        connection.close()

    await asyncio.gather(*(client() for _ in range(8)))
    return told


def complaint(reply: Reply) -> str | None:
    """Return what is wrong with a reply to a request that may be malformed."""
    if reply.status == LOST:
        return "cut off"
    if reply.status >= 500:
        return f"{reply.status} {reply.body[:80]!r}"
    try:
        content = json.loads(reply.body, parse_constant=_refuse)
    except ValueError:
        return f"{reply.status} without JSON {reply.body[:40]!r}"
    if reply.status == 200:
        return None
    code = content.get("error", {}).get("code") if isinstance(content, dict) else None
    return None if STATUSES.get(code) == reply.status else f"{reply.status} with code {code!r}"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def make_requests(count: int, *, seed: int) -> Iterator[tuple[str, bytes]]:
    """Return requests that are wrong in some way, each with the name of its way."""
    chance, ways = random.Random(seed), list(WAYS.items())
    for number in range(count):
        name, make = ways[number % len(ways)]
        route, content = chance.choice(list(WELL_FORMED.items()))
        yield name, make(chance, route, content)


def _mutated(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    body = bytearray(json.dumps(content).encode())
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(body) or 1)
        way = chance.randrange(4)
        if way == 0 and body:
            body[at] = chance.randrange(256)
        elif way == 1:
            body.insert(at, chance.choice(b'{}[]",:0\\eE-.'))
        elif way == 2:
            del body[at : at + chance.randint(1, 9)]
        else:
            body[at:at] = body[at : at + chance.randint(1, 30)]
    return post(route, bytes(body))


def _odd_value(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    key = chance.choice([*content, "model", "options", f"x{chance.randrange(99)}"])
    return post(route, {**content, key: chance.choice(ODD_VALUES)})


def _odd_number(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    number = chance.choice(["NaN", "Infinity", "-Infinity", "1e999", "9" * 500, "-0", "0x1", "01"])
    body = json.dumps({**content, chance.choice([*content, "dimensions", "top_k"]): 0})
    return post(route, body.replace(": 0", f": {number}", 1).encode())


def _twice(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    body, key = json.dumps(content), chance.choice(list(content))
    return post(route, f'{{"{key}": {json.dumps(chance.choice(["a", 1]))}, {body[1:]}'.encode())


def _deep(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    key, depth = next(iter(content)), chance.choice([100, 1000, 10_000])
    opening, closing = chance.choice([("[", "]"), ('{"a":', "}")])
    ends = closing * depth if chance.random() < 0.5 else ""
    return post(route, f'{{"{key}": {opening * depth}1{ends}}}'.encode())


def _otherwise_encoded(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    body = json.dumps(content)
    return post(
        route,
        chance.choice(
            [
                b"\xef\xbb\xbf" + body.encode(),
                body.encode("utf-16"),
                body.encode("utf-32"),
                body.encode() + b"\x00",
                body.replace("cat", "\\ud800").encode(),
                body.encode().replace(b"cat", b"\xed\xa0\x80"),
                body.encode().replace(b"cat", b"\xff\xfe"),
                b"",
                body.encode() * 2,
            ]
        ),
    )


def _otherwise_typed(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    kind = chance.choice(["text/plain", "multipart/form-data", "application/xml", "", "a" * 3000])
    request = post(route, content)
    if chance.random() < 0.3:
        return request.replace(b"Content-Length", b"Content-Encoding: gzip\r\nContent-Length", 1)
    return request.replace(b"application/json", kind.encode(), 1)


def _in_chunks(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    """Send one byte in each chunk, of a body that is often cut."""
    body = json.dumps(content).encode() + b" " * chance.choice([0, 3000])
    chunks = b"".join(b"1\r\n" + body[at : at + 1] + b"\r\n" for at in range(len(body)))
    head = f"POST {route} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def _elsewhere(chance: random.Random, route: str, content: dict[str, Any]) -> bytes:
    path = chance.choice(
        ["/..", "/%2e%2e/etc", route + "/", "/" + "a" * 3000, f"/{chance.random()}"]
    )
    method = chance.choice(["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "GET"])
    return post(path, content).replace(b"POST", method.encode(), 1)


WAYS: dict[str, Callable[[random.Random, str, dict[str, Any]], bytes]] = {
    "mutated": _mutated,
    "odd value": _odd_value,
    "odd number": _odd_number,
    "named twice": _twice,
    "deep": _deep,
    "encoded otherwise": _otherwise_encoded,
    "typed otherwise": _otherwise_typed,
    "in chunks": _in_chunks,
    "elsewhere": _elsewhere,
}
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)


def made_up(site: Site, share: float) -> Iterator[Verdict]:
    """B2: requests made up from the schema, right ones and wrong ones."""
    examples = max(3, round(1000 * share))
    with site.serve(site.model("a"), "--allow-swap") as service:
        done = make_up(service, f"http://{HOST}:{service.port}/openapi.json", examples)
        alive, document = service.fetch("/openapi.json")
        schema = json.loads(document)
        schema["paths"] = {"/embed": schema["paths"]["/embed"]}
        del schema["paths"]["/embed"]["post"]["responses"]["422"]
        lying = site.folder / "lying.json"
        lying.write_text(json.dumps(schema))
        control = make_up(service, lying, 20)
    seen = re.findall(
        r"^\s*(\d+ \w.*(?:generated|passed|failed|tested|selected).*)$", done.stdout, re.M
    )
    told = f"exit {done.returncode}, ready {alive}; {'; '.join(seen)[:160]}"
    if done.returncode:
        sys.stderr.write(done.stdout[-6000:])
    yield Verdict("B2", f"schemathesis, {examples} a route: all as the schema says", told,
                  done.returncode == 0 and alive == 200)  # fmt: skip
    yield Verdict("B2 control", "a schema without its 422 is seen", f"exit {control.returncode}",
                  control.returncode != 0)  # fmt: skip


def make_up(
    service: Service, schema: str | Path, examples: int
) -> subprocess.CompletedProcess[str]:
    """Let schemathesis make up requests for every route of a schema."""
    words = [
        *(Path(sys.executable).with_name("st"), "run", "--phases", "fuzzing", "--mode", "all"),
        *("--checks", ",".join(CHECKS), "--seed", 7, "--max-examples", examples),
        *("--generation-database", "none", "--continue-on-failure", "--no-color"),
        *("--url", f"http://{HOST}:{service.port}", schema),
    ]
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        cwd=service.log.parent,
    )
