"""The service under load, against infinity-emb with the same model and the same clients.

    python benchmarks/service_speed.py --model minilm [--infinity PYTHON] [--seconds 10 --rounds 3]

Each service is a child process with as many threads as there are cores; 1, 16 and 64 clients in one
other process ask /v1/embeddings for the vector of one text each, the next as soon as it has one.
Short texts are sentences of STS-B, long ones the beginnings of film reviews, none over 250 pieces,
which all services read whole. Ours runs with torch and with the ONNX files that `export` writes;
infinity with its torch engine and with its optimum engine on the ONNX file that optimum writes, in
fp32 and quantized by onnxruntime. The bare predictor gets as many texts at a time as there are
clients: what the service reaches of its rate is what HTTP, JSON and waiting leave. Ours lets all of
them wait (--wait), as infinity does. Sides take turns, the best round counts. The last column is
the least cosine of vectors with those of torch.

infinity-emb lives in an environment of its own, made with

    python3 -m venv INFINITY && INFINITY/bin/pip install torch==2.13.0
    INFINITY/bin/pip install 'infinity-emb[server,torch,optimum]==0.0.78'
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from inference_speed import make_texts, read
from service_client import Load, Reply, Service, closed_loop, connect, post, run, started

import bertworks
from bertworks.core.progress import mute
from bertworks.serving.predictor import Predictor
from bertworks.stages.export import run as export
from bertworks.stages.setting_groups import OnnxSettings
from bertworks.stages.settings import ExportSettings

CLIENTS, LENGTHS = (1, 16, 64), ("short", "long")
MOST_PIECES = 250
WARM_UP = 1.0  # seconds
CHECKED = 7  # texts whose vectors are compared
SOURCES = Path(bertworks.__file__).parents[1]
NAME, ROUTE = "encoder", "/v1/embeddings"
Case = tuple[str, int]  # length of the texts, number of clients


@dataclass(frozen=True)
class Side:
    """A service to measure: the command that starts it, and who computes the same without it."""

    words: list[object]
    ready: str
    sources: Path | None = None  # where it imports from
    bare: Predictor | None = None


@dataclass
class Found:
    """What was measured so far, the best of each case."""

    texts: dict[str, list[str]]  # by length
    vectors: dict[str, np.ndarray]  # of the first of them, by torch
    loads: dict[tuple[str, Case], Load] = field(default_factory=dict)
    bare: dict[tuple[str, Case], float] = field(default_factory=dict)  # texts/s
    cosines: dict[tuple[str, str], float] = field(default_factory=dict)


def main() -> None:
    """Print a table of rates and times, by length of the texts and number of clients."""
    asked = ask()
    mute()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sides = our_sides(asked.model, asked.data, folder, chosen=asked.only)
        if asked.infinity:
            sides |= infinity_sides(asked.infinity, asked.model, folder / "theirs")
        chosen = {name: side for name, side in sides.items() if asked.only in name}
        found = prepare(asked.data, bertworks.load(asked.model, backend="torch"))
        for _ in range(asked.rounds):
            for name, side in chosen.items():
                measure(name, side, found, seconds=asked.seconds)
                measure_bare(name, side, found, seconds=asked.seconds)
        for length in found.texts:
            show(length, list(chosen), found)


def ask() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="sentence-transformers folder")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--infinity", type=Path, help="the Python that infinity-emb is part of")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="sides whose names hold this")
    asked = parser.parse_args()
    if asked.seconds <= 0 or asked.rounds < 1:
        parser.error("--seconds are above 0, and --rounds are 1 or more")
    if asked.infinity and not asked.infinity.is_file():
        parser.error(f"there is no {asked.infinity}; --infinity is the Python of its environment")
    return asked


def our_sides(model: Path, data: Path, folder: Path, *, chosen: str) -> dict[str, Side]:
    """Return our service with each backend."""
    folders = {"bertworks, torch fp32": (model, "torch")}
    for precision in ("fp32", "int8"):
        name = f"bertworks, onnx {precision}"
        if chosen not in name:
            continue
        texts = folder / "texts.jsonl"
        lines = (json.dumps({"text": one.text_b}) for one in read(data, "mrpc", "train"))
        texts.write_text("\n".join(islice(lines, 300)))
        out = folder / precision
        how = OnnxSettings(precision=precision, data=texts)
        export(ExportSettings(model=model, to="onnx", onnx=how, out=out))
        folders[name] = (out, "onnx")
    return {
        name: Side(
            [sys.executable, "-m", "bertworks", "serve", "--model", f"{NAME}={path}",
             "--backend", backend, "--port", "{port}", "--no-page", "--wait", 9],
            "/readyz",
            SOURCES,
            bertworks.load(path, backend=backend),
        )
        for name, (path, backend) in folders.items()
    }  # fmt: skip


def infinity_sides(python: Path, model: Path, folder: Path) -> dict[str, Side]:
    """Return infinity with each engine."""
    script = Path(__file__).with_name("infinity_folder.py")
    subprocess.run([python, script, model, folder], check=True, capture_output=True)
    engines = {
        "infinity, torch fp32": (model, "torch"),
        "infinity, optimum fp32": (folder / "fp32", "optimum"),
        "infinity, optimum int8": (folder / "int8", "optimum"),
    }
    return {
        name: Side(
            [python.with_name("infinity_emb"), "v2", "--model-id", path.resolve(), "--engine",
             engine, "--served-model-name", NAME, "--device", "cpu", "--pooling-method", "mean",
             "--host", "127.0.0.1", "--port", "{port}", "--url-prefix", "/v1",
             "--log-level", "warning", "--no-model-warmup"],
            "/health",
        )
        for name, (path, engine) in engines.items()
    }  # fmt: skip


def prepare(data: Path, predictor: Predictor) -> Found:
    """Return short and long texts that every service reads whole."""
    made = make_texts(data)
    texts = {length: [_cut(text, predictor) for text in made[length]] for length in LENGTHS}
    return Found(texts, {length: predictor.embed(own[:CHECKED]) for length, own in texts.items()})


def _cut(text: str, predictor: Predictor) -> str:
    words = text.split()[:MOST_PIECES]
    while len(predictor.tokenizer.encode(" ".join(words)).ids) > MOST_PIECES:
        words = words[:-5]
    return " ".join(words)


def measure(name: str, side: Side, found: Found, *, seconds: float) -> None:
    """Start a service and keep the best of each case."""
    with started(side.words, ready=side.ready, sources=side.sources) as service:
        for length, texts in found.texts.items():
            found.cosines[name, length] = closeness(service, texts, found.vectors[length])
            requests = [post(ROUTE, {"model": NAME, "input": [text]}) for text in texts]
            for clients in CLIENTS:
                load = loaded(service, requests, clients=clients, seconds=seconds)
                key = (name, (length, clients))
                if key not in found.loads or load.rate > found.loads[key].rate:
                    found.loads[key] = load


def closeness(service: Service, texts: list[str], wanted: np.ndarray) -> float:
    """Return the least cosine of served vectors with those that are wanted."""

    async def ask() -> Reply:
        connection = await connect(service.port)
        return await connection.ask(post(ROUTE, {"model": NAME, "input": texts[:CHECKED]}))

    reply = run(ask())
    if reply.status != 200:
        sys.exit(f"{reply.status}: {reply.body[:500]!r}\n{service.said()[-2000:]}")
    served = np.array([row["embedding"] for row in reply.json()["data"]])
    served /= np.linalg.norm(served, axis=1, keepdims=True)
    return float((served * wanted).sum(1).min())


def loaded(service: Service, requests: Sequence[bytes], *, clients: int, seconds: float) -> Load:
    """Warm up, then measure; a request that fails ends all."""
    run(closed_loop(service.port, requests, clients=clients, seconds=WARM_UP))
    load = run(closed_loop(service.port, requests, clients=clients, seconds=seconds))
    if load.statuses.keys() != {200}:
        sys.exit(f"a request was not answered: {dict(load.statuses)}\n{service.said()[-2000:]}")
    return load


def measure_bare(name: str, side: Side, found: Found, *, seconds: float) -> None:
    """Keep the best rate of the predictor by itself, as many texts at a time as clients."""
    if side.bare is None:
        return
    for length, texts in found.texts.items():
        for clients in CLIENTS:
            side.bare.embed(texts[:clients])
            done, began = 0, time.perf_counter()
            while time.perf_counter() - began < seconds:
                side.bare.embed([texts[(done + n) % len(texts)] for n in range(clients)])
                done += clients
            key = (name, (length, clients))
            rate = done / (time.perf_counter() - began)
            found.bare[key] = max(found.bare.get(key, 0.0), rate)


def show(length: str, names: list[str], found: Found) -> None:
    """Print one length of texts; ratios are to infinity's best in the same arithmetic."""
    head = f"{'clients':>8}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}{'of bare':>9}"
    print(f"\n{length} texts\n{'':26}{head}{'clients CPU':>13}{'cosine':>9}")
    for clients in CLIENTS:
        case = (length, clients)
        for name in names:
            peers = [found.loads[n, case].rate for n in names if is_peer(n, name)]
            load, bare = found.loads[name, case], found.bare.get((name, case))
            ratio = f"{load.rate / max(peers):.2f}x" if peers else "-"
            share = f"{load.rate / bare:.0%}" if bare else "-"
            print(
                f"{name:26}{clients:>8}{load.rate:>12.1f}{load.percentile(0.5):>9.1f}"
                f"{load.percentile(0.99):>9.1f}{ratio:>8}{share:>9}{load.client_share:>13.0%}"
                f"{found.cosines[name, length]:>9.5f}"
            )


def is_peer(name: str, of: str) -> bool:
    """Tell whether one side is infinity's in the arithmetic of another."""
    return name.startswith("infinity") and name.split()[-1] == of.split()[-1]


if __name__ == "__main__":
    main()
