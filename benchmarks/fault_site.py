"""Where the service meets faults: small models with random weights, texts, and what is right."""

import asyncio
import base64
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from service_client import LOST, Reply, Service, connect, post, started

import bertworks
from bertworks.core.artifact import Origin
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.learn import learn_wordpiece

TOLERANCE = 1e-5
SOURCES = Path(bertworks.__file__).parents[1]
NAME, ROUTE = "encoder", "/v1/embeddings"
WORDS = (
    *("cat", "dog", "mat", "hill", "river", "city", "paris", "france", "capital", "study"),
    *("number", "ran", "sat", "looked", "over"),
)
Shape = tuple[int, int, int]  # width, blocks, attention heads
TINY, MINI = (48, 2, 3), (384, 6, 12)


@dataclass(frozen=True)
class Verdict:
    """What was promised and what was found."""

    test: str
    target: str
    found: str
    is_kept: bool


@dataclass(frozen=True)
class Asked:
    """A request for vectors, and the answers that are right."""

    places: tuple[int, ...]  # of its texts among all
    request: bytes


class Site:
    """A folder of models and the texts that they are asked about."""

    def __init__(self, folder: Path, *, num_texts: int = 1024, seed: int = 7) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.texts = [self._text(number) for number in range(num_texts)]
        self._vectors: dict[Path, np.ndarray] = {}

    def model(self, name: str, shape: Shape = TINY) -> Path:
        """Return a folder with a model of its own random weights."""
        path = self.folder / name
        if path.exists():
            return path
        sentences = [" ".join(WORDS), *self.texts[:50], "0 1 2 3 4 5 6 7 8 9"]
        tokenizer = learn_wordpiece(lambda: iter(sentences), size=211, cased=False)
        width, blocks, heads = shape
        config = EncoderConfig(
            vocab_size=tokenizer.vocab_size,
            hidden_size=width,
            num_layers=blocks,
            num_heads=heads,
            feed_forward_size=4 * width,
            max_positions=128,
        )
        network = TaskModel(config, [make_task("fill_mask")])
        generator = torch.Generator().manual_seed(sum(name.encode()))
        with torch.no_grad():  # far from nothing, so that texts differ
            for weights in network.parameters():
                weights.add_(torch.randn(weights.shape, generator=generator), alpha=0.05)
        save_model(path, network, tokenizer, origin=Origin())
        return path

    def vectors(self, model: Path) -> np.ndarray:
        """Return what a model says of all texts, computed here."""
        if model not in self._vectors:
            found = bertworks.load(model, device="cpu", threads=1).embed(self.texts)
            require_difference(found)
            self._vectors[model] = found
        return self._vectors[model]

    def ask(self, *, most: int = 8) -> Asked:
        """Return a request for the vectors of a few texts."""
        places = tuple(self.random.choices(range(len(self.texts)), k=self.random.randint(1, most)))
        return Asked(places, self.request(places))

    def request(self, places: Sequence[int]) -> bytes:
        """Return a request for the vectors of some texts."""
        texts = [self.texts[place] for place in places]
        return post(ROUTE, {"model": NAME, "input": texts, "encoding_format": "base64"})

    def serve(
        self,
        model: Path | Mapping[str, Path],
        *flags: object,
        doom: Sequence[object] = (),
        as_it_comes: bool = False,
        **how: Any,
    ) -> AbstractContextManager[Service]:
        """Run the service with a model, or several by their names, perhaps with faults in it.

        With one thread, and patience with all who come, unless its settings are to be as they come.
        """
        script = Path(__file__).with_name("doomed_service.py")
        start = [script, *doom] if doom else ["-m", "bertworks"]
        models = {NAME: model} if isinstance(model, Path) else model
        named = [f"{name}={path}" for name, path in models.items()]
        words = ["serve", "--model", *named, "--port", "{port}", *flags]
        words += [] if as_it_comes else ["--threads", 1, "--wait", 60]
        return started([sys.executable, *start, *words], sources=SOURCES, **how)

    def _text(self, number: int) -> str:
        words = self.random.choices(WORDS, k=self.random.choice((1, 2, 3, 5, 8, 13, 21)))
        words.insert(self.random.randint(0, len(words)), str(number))
        return " ".join(words)


def require_difference(vectors: np.ndarray) -> None:
    """Make sure that another text's vector cannot pass for the right one."""
    for at, vector in enumerate(vectors[:200]):
        distances = np.abs(vectors - vector).max(1)
        distances[at] = np.inf
        if distances.min() < 20 * TOLERANCE:
            sys.exit(f"texts {at} and {distances.argmin()} have the same vector; use other weights")


def is_right(reply: Reply, wanted: np.ndarray) -> bool:
    """Tell whether a reply holds the vectors that are wanted, in their order."""
    found = vectors_of(reply)
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() <= TOLERANCE)


def vectors_of(reply: Reply) -> np.ndarray:
    """Return the vectors of a reply."""
    rows = sorted(reply.json()["data"], key=lambda row: row["index"])
    return np.stack([np.frombuffer(base64.b64decode(r["embedding"]), "<f4") for r in rows])


async def ask_all(
    service: Service, requests: Sequence[bytes], *, clients: int, within: float = 30.0
) -> list[Reply]:
    """Return the replies to requests in their order, sent by so many clients at once."""
    replies, left = [Reply(LOST, b"", b"", within)] * len(requests), iter(range(len(requests)))

    async def client() -> None:
        connection = await connect(service.port)
        for place in left:
            if not connection.is_open:
                connection = await connect(service.port)
            try:
                replies[place] = await asyncio.wait_for(connection.ask(requests[place]), within)
            except TimeoutError:
                connection.close()
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return replies


def is_near(one: Any, other: Any) -> bool:
    """Tell whether two answers say the same, up to the last digits of their numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_near(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= TOLERANCE
    return bool(one == other)


def series_of(text: str) -> dict[str, float]:
    """Return the series of a page of metrics and their values."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def metrics_of(service: Service) -> dict[str, float]:
    """Return what a service counts."""
    return series_of(service.fetch("/metrics")[1].decode())


def total(series: dict[str, float], name: str) -> float:
    """Return the sum of a metric over its labels."""
    return sum(value for key, value in series.items() if key.partition("{")[0] == name)


def cycle(asked: Sequence[Any]) -> Iterator[Any]:
    """Return the same things over and over."""
    while True:
        yield from asked
