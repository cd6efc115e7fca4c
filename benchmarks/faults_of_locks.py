"""Who is kept out: keys on every route, paths that lead elsewhere, calls that nobody asked for."""

import base64
import hashlib
import itertools
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fault_site import NAME, ROUTE, SOURCES, Site, Verdict, ask_all
from faults_of_input import WELL_FORMED, make_requests
from service_client import HOST, Reply, Service, get, post, run

KEY = "a key that nobody guesses 0123456789"
CANARY = "what no client may ever read"
OPEN_PATHS = {"/livez", "/readyz"}
STEPS = ("../", "..\\", "%2e%2e/", "..%2f", "%2e%2e%2f", "%252e%252e%252f", "....//", "..;/",
         "%c0%ae%c0%ae/", "..%00/", "./../", "/", "//", "file:///", "\\\\", "~/")  # fmt: skip
WRONG_KEYS = (
    None, "", "Bearer", "Bearer ", "Bearer wrong", "bearer  " + KEY, "Bearer " + KEY.upper(),
    f"Bearer {KEY} ", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", KEY, f"Token {KEY}", "Basic",
    "Basic " + base64.b64encode(b"a:wrong").decode(), f"Basic {KEY}", "Bearer \xff\xfe",
    "Bearer " + hashlib.sha256(KEY.encode()).hexdigest(), "Bearer " + "a" * 60_000,
)  # fmt: skip


@dataclass(frozen=True)
class Guarded:
    """A service with a key, what it opens and calls, and all that it said."""

    service: Service
    notes: Path
    replies: list[Reply]

    def ask(self, requests: Sequence[bytes]) -> list[Reply]:
        """Send requests, and keep what is said to them."""
        found = run(ask_all(self.service, requests, clients=8))
        self.replies.extend(found)
        return found

    def noted(self) -> list[str]:
        """Return what the process opened and called since it was ready."""
        lines = self.notes.read_text().splitlines()
        return lines[lines.index("ready") + 1 :]


def locks(site: Site, share: float) -> Iterator[Verdict]:
    """X3, X4, X5, X8 and X9: one service, and everything that is tried on it."""
    for doom in ((), ("--burgle",)):
        notes, keys = site.folder / f"notes{len(doom)}", site.folder / "keys"
        keys.write_text(KEY)
        (site.folder / "secret.txt").write_text(CANARY)
        flags = ("--api-key-file", keys, "--allow-swap", *(("--host", "0.0.0.0") if doom else ()))
        with site.serve(site.model("a"), *flags, doom=["--watch", notes, *doom]) as service:
            guarded = Guarded(service, notes, [])
            with notes.open("a") as file:
                file.write("ready\n")
            yield from _burgled(guarded) if doom else _tried(guarded, site, share)


def _tried(guarded: Guarded, site: Site, share: float) -> Iterator[Verdict]:
    count = max(100, round(500 * share))
    paths = hostile_paths(count, secret=site.folder / "secret.txt", seed=3)
    replies = guarded.ask([request for path in paths for request in at_every_place(path)])
    leaked = [one for one in replies if CANARY.encode() in one.body or b"root:" in one.body]
    statuses = Counter(one.status for one in replies)
    opened = foreign_files(guarded.noted(), site.model("a"))
    yield Verdict("X3", f"{count} strings at {len(replies) // count} places: no file outside read",
                  f"{len(leaked)} leaks, {len(opened)} files {opened[:2]}, {dict(statuses)}",
                  not leaked and not opened
                  and set(statuses) <= {200, 400, 404, 405, 422})  # fmt: skip
    open_routes, tried = unlocked(guarded)
    yield Verdict("X4", f"{tried} routes x {len(WRONG_KEYS)} wrong keys: only the probes open",
                  f"open {sorted(open_routes)}", open_routes == OPEN_PATHS)  # fmt: skip
    shut = shut_with_key(guarded)
    yield Verdict("X4", "the key opens every route", f"shut {shut}", not shut)
    guarded.ask([_locked(request) for request in _daily_work(site)])
    found = [name for name, _ in tellings(guarded)]
    yield Verdict("X5", "the key is in no log, answer, metric or title",
                  f"{len(found)} hits {found}", not found)  # fmt: skip
    calls = Counter(line.split(" ", 1)[0] for line in guarded.noted())
    outside = {name: n for name, n in calls.items() if name != "open"}
    yield Verdict("X8", f"{len(guarded.replies)} requests, URLs in them: no call leaves",
                  f"{outside}",
                  not {"socket.connect", "subprocess.Popen"} & set(calls))  # fmt: skip
    listening = listeners(guarded.service)
    yield Verdict("X9", "one socket, of this machine only; no pickle is read",
                  f"{listening}, {calls['pickle.find_class']} pickles",
                  listening == [f"{HOST}:{guarded.service.port}"]
                  and not calls["pickle.find_class"])  # fmt: skip


def _burgled(guarded: Guarded) -> Iterator[Verdict]:
    """Show that a file, a connection, an open door and a key that is told would be seen."""
    guarded.ask([_locked(post(ROUTE, {"model": NAME, "input": ["cat"]}))])
    noted = guarded.noted()
    opened = foreign_files(noted, Path("/nowhere"))
    yield Verdict("X3 control", "a file that is opened is seen", f"{opened[:1]}", bool(opened))
    calls = [line for line in noted if line.startswith("socket.connect")]
    yield Verdict("X8 control", "a call is seen", f"{calls[:1]}", bool(calls))
    (reply,) = guarded.ask([_locked(post(ROUTE, {"model": KEY, "input": ["cat"]}))])
    told = [name for name, _ in tellings(guarded)]
    yield Verdict("X5 control", "a key that a client makes it repeat is seen",
                  f"{reply.status}, {told}", bool(told))  # fmt: skip
    found = _opens(guarded, [_locked(get("/info"))])
    yield Verdict("X4 control", "an open route is seen", f"{found}", any(found))
    listening = listeners(guarded.service)
    yield Verdict("X9 control", "a socket for other machines is seen", f"{listening}",
                  listening != [f"{HOST}:{guarded.service.port}"])  # fmt: skip


def hostile_paths(count: int, *, secret: Path, seed: int) -> list[str]:
    """Return strings that lead out of a folder where somebody follows them."""
    targets = ("etc/passwd", str(secret), secret.name, "proc/self/environ", "page.py",
               "http_app.py", "%00", "con", "main.js%00.html", "main.js/..", "..", ".")  # fmt: skip
    every = [step * depth + target for step, depth, target
             in itertools.product(STEPS, (1, 2, 3, 5, 9), targets)]  # fmt: skip
    return random.Random(seed).sample(every, min(count, len(every)))


def at_every_place(path: str) -> list[bytes]:
    """Return requests that name a path wherever something can be named."""
    raw = path.replace(" ", "%20").replace("\\", "%5c")
    whole = quote(path, safe="")
    gets = [f"/page/{raw}", f"/page/{whole}", f"/{raw}", f"/v1/models/{whole}", f"/docs/{raw}"]
    posts = [
        (f"/models/{whole}/pipeline/fill-mask", {"inputs": "the [MASK]"}),
        (f"/models/{raw}", {"path": "/nowhere"}),
        (f"/pipeline/{whole}", {"inputs": "cat"}),
        (ROUTE, {"model": path, "input": "cat"}),
        ("/embed", {"inputs": path, "prompt_name": path}),
        ("/classify", {"inputs": [path], "task": path}),
    ]
    requests = [get(target) for target in gets]
    return [_locked(one) for one in (*requests, *(post(*pair) for pair in posts))]


def _locked(request: bytes) -> bytes:
    return _with_key(request, f"Bearer {KEY}")


def _with_key(request: bytes, header: str | None) -> bytes:
    if header is None:
        return request
    first, rest = request.split(b"\r\n", 1)
    return first + b"\r\nAuthorization: " + header.encode("latin-1") + b"\r\n" + rest


def foreign_files(noted: Sequence[str], model: Path) -> list[str]:
    """Return the files that were opened and are neither Python's, ours, nor the model's."""
    own = (sys.prefix, sys.base_prefix, str(SOURCES), str(model), "/proc/", "/dev/")
    names = [re.search(r"open \('([^']*)'", line) for line in noted]
    return [one[1] for one in names if one is not None and not one[1].startswith(own)]


def unlocked(guarded: Guarded) -> tuple[set[str], int]:
    """Return the routes that answer without the right key, and how many were tried."""
    places = _places(guarded)
    opened = set[str]()
    for method, path in places:
        request = _bare(method, path)
        if any(_opens(guarded, [_with_key(request, key) for key in WRONG_KEYS])):
            opened.add(path)
    return opened, len(places)


def _bare(method: str, path: str) -> bytes:
    return get(path).replace(b"GET", method.encode(), 1)


def _opens(guarded: Guarded, requests: Sequence[bytes]) -> list[bool]:
    """Tell which requests get past the key; a head that is too long is no way in."""
    return [reply.status not in (401, 400, 0) for reply in guarded.ask(requests)]


def _places(guarded: Guarded) -> list[tuple[str, str]]:
    """Return every route that is documented, and others."""
    (reply,) = guarded.ask([_locked(get("/openapi.json"))])
    found = [
        (method.upper(), re.sub(r"\{\w+\}", "x", path))
        for path, methods in reply.json()["paths"].items()
        for method in methods
    ]
    others = ("/page/main.js", "/nothing", "/favicon.ico", "//", "/livez/", "/metrics/../livez")
    return [*found, *(("GET", path) for path in others), ("OPTIONS", "/embed"), ("DELETE", "/")]


def shut_with_key(guarded: Guarded) -> list[str]:
    """Return the routes that do not open with the key."""
    places = _places(guarded)
    replies = guarded.ask([_locked(_bare(*place)) for place in places])
    return [p for (_, p), reply in zip(places, replies, strict=True) if reply.status == 401]


def _daily_work(site: Site) -> Iterator[bytes]:
    """Return requests of every kind: right, wrong, and with addresses that nobody should call."""
    for route, body in WELL_FORMED.items():
        yield post(route, body)
    yield from (request for _, request in make_requests(200, seed=9))
    for url in ("http://127.0.0.1:9/x", "https://example.org/model", "ftp://a/b", "hf://a/b"):
        yield post(ROUTE, {"model": NAME, "input": [url]})
        yield post(ROUTE, {"model": url, "input": ["cat"]})
        yield post(f"/models/{NAME}", {"path": url})
    for path in ("/metrics", "/info", "/docs", "/openapi.json", "/v1/models", "/health", "/"):
        yield get(path)


def tellings(guarded: Guarded) -> Iterator[tuple[str, str]]:
    """Return where the key, its digest or its packed form was told."""
    process = Path(f"/proc/{guarded.service.process.pid}")
    told = {
        "log": guarded.service.said(),
        "title": (process / "cmdline").read_text() + (process / "comm").read_text(),
        "environment": (process / "environ").read_text(errors="replace"),
        "answers": "".join((one.head + one.body).decode("latin-1") for one in guarded.replies),
    }
    packed = base64.b64encode(f"a:{KEY}".encode()).decode()
    forms = (KEY, json.dumps(KEY), hashlib.sha256(KEY.encode()).hexdigest(), packed, quote(KEY))
    return ((name, form) for name, text in told.items() for form in forms if form in text)


def listeners(service: Service) -> list[str]:
    """Return where a process listens."""
    folder = Path(f"/proc/{service.process.pid}")
    own = {str(file.readlink()) for file in (folder / "fd").iterdir()}
    found = list[str]()
    for table in ("tcp", "tcp6"):
        for line in (folder / "net" / table).read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A" and f"socket:[{parts[9]}]" in own:
                host, port = parts[1].split(":")
                numbers = reversed(bytes.fromhex(host)) if table == "tcp" else ()
                found.append(f"{'.'.join(map(str, numbers))}:{int(port, 16)}")
    return found
