"""Small models of every task with loud weights, to be served, and an echo for the page to ask."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request as Request_
from urllib.request import urlopen

import pytest
import torch
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bertworks.core.artifact import Origin
from bertworks.data.forms import make_example
from bertworks.service.guards import OWN_HOSTS
from bertworks.service.http_app import AppSettings, make_app
from bertworks.service.models import Models
from bertworks.service.page import page_routes
from bertworks.service.ports import open_socket
from bertworks.service.server import serve
from bertworks.serving.model_folder import OpenModel, save_model
from bertworks.serving.predictor import Predictor
from bertworks.tasks.catalog import KINDS, learn_task, make_task
from bertworks.tasks.task import TaskModel

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ABILITIES = ["fill_mask", "classify", "aspect", "tag", "answer", "embed", "rerank", "zero_shot"]
ABILITIES += ["choose", "generate", "attention"]
NAMES = {
    "PER": "Ada Lovelace",
    "LOC": "London",
    "ORG": "Royal Society",
    "DATE": "1843",
    "WORK": "Notes",
    "LANG": "French",
    "CITY": "北京",
}


@pytest.fixture(scope="session")
def draw_tasks(config, make_samples) -> Callable[..., TaskModel]:
    """Draw a model for some kinds of tasks, whose heads speak up."""

    def task_of(kind: str) -> Any:
        if KINDS[kind].learn is None:
            return make_task(kind)
        rows = make_samples(17).rows(kind, 45)
        form = KINDS[kind].form
        return learn_task(kind, [make_example(row, 1, form=form, labelled=True) for row in rows])

    def draw(*kinds: str, seed: int = 23) -> TaskModel:
        model = TaskModel(config, [task_of(kind) for kind in kinds], seed=seed, deviation=0.3)
        with torch.no_grad():
            for parameter in model.heads.parameters():
                parameter.mul_(3.0)
        return model.eval()

    return draw


@pytest.fixture(scope="session")
def predictor_of(draw_tasks, tokenizer, machine) -> Callable[..., Predictor]:
    """Open a model for some kinds of tasks."""

    def make(*kinds: str, seed: int = 23) -> Predictor:
        return Predictor(OpenModel(draw_tasks(*kinds, seed=seed), tokenizer, None), machine)

    return make


@pytest.fixture(scope="session")
def model_folder(draw_tasks, tokenizer, tmp_path_factory) -> Callable[..., Path]:
    """Save a model for some kinds of tasks as a folder."""

    def save(*kinds: str, seed: int = 23) -> Path:
        folder = tmp_path_factory.mktemp("served") / "-".join(kinds or ("bare",))
        save_model(folder, draw_tasks(*kinds, seed=seed), tokenizer, origin=Origin())
        return folder

    return save


# The whole


class Running:
    """A whole service in a thread, whose models are opened by a function."""

    def __init__(self, open_predictor: Callable[[Path], Any], names: str = "a") -> None:
        self.models = Models(dict.fromkeys(names, Path()), open_predictor)
        self.taken = open_socket("127.0.0.1", 0)
        self.address = self.taken.getsockname()
        self.said: list[str] = []
        self._pool = ThreadPoolExecutor(1)
        app = make_app(self.models, AppSettings(hosts=OWN_HOSTS))
        self.ended = self._pool.submit(
            serve,
            app,
            self.taken,
            self.models,
            drain=5.0,
            on_ready=lambda: self.said.append("ready"),
            on_unreadable=app.state.asker.metrics.count_unreadable,
        )

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(self.address, timeout=10)

    def ask(self, path: str, body: bytes = b"") -> tuple[int, dict[str, str], Any]:
        """Return the status, the headers and the body of an answer."""
        headers = {"content-type": "application/json"} if body else {}
        request = Request_(f"http://127.0.0.1:{self.address[1]}{path}", body or None, headers)
        try:
            with urlopen(request, timeout=10) as response:
                return response.status, dict(response.headers), response.read()
        except HTTPError as error:
            with error:
                return error.code, dict(error.headers), json.loads(error.read())

    def num_refused(self) -> int:
        """Return how many of its answers were for what is no HTTP."""
        text = self.ask("/metrics")[2].decode()
        name = 'bertworks_requests_total{route="none",status="400"} '
        return next((int(n.split()[-1]) for n in text.splitlines() if n.startswith(name)), 0)

    def wait(self) -> None:
        """Wait until the models are opened."""
        while not self.models.is_ready:
            time.sleep(0.01)

    def close(self) -> None:
        """End it."""
        if not self.ended.done() and self.models.on_give_up is not None:
            self.models.on_give_up()
        self._pool.shutdown()
        self.taken.close()


@pytest.fixture(scope="session")
def run_service() -> type[Running]:
    """Give the class that runs a whole service."""
    return Running


# The page


@dataclass
class Echo:
    """A service that gives the answers of the contract, whatever texts it is asked about."""

    url: str = ""
    models: list[dict[str, Any]] = field(default_factory=list)
    failure: tuple[int, str, str] | None = None  # status, code, message
    asked: list[tuple[str, Any]] = field(default_factory=list)

    async def info(self, request: Request) -> JSONResponse:
        """Tell what the models can do."""
        return JSONResponse({"models": self.models})

    async def answer(self, request: Request) -> JSONResponse:
        """Answer what was sent."""
        path, body = request.url.path, await request.json()
        self.asked.append((path, body))
        if self.failure:
            return refused(*self.failure)
        return JSONResponse(ANSWERS[path](body))


def refused(status: int, code: str, message: str) -> JSONResponse:
    problem = {"code": code, "message": message, "type": code}
    return JSONResponse({"error": problem}, status, headers={"Retry-After": "3"})


def task(answer: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Wrap what is told of the first input in what is told of all."""

    def tell(body: Any) -> dict[str, Any]:
        first = body["inputs"][0]
        told = {"model": "m", "revision": "0a1b2c", "usage": {"tokens": 7}}
        return told | {"answers": [answer(first)], "truncated": [len(str(first)) > 2000]}

    return tell


def labelled(text: Any) -> dict[str, Any]:
    shown = text if isinstance(text, str) else " ".join(map(str, text))
    return {"label": shown, "probability": 0.75, "probabilities": {shown: 0.75, "other": 0.25}}


def found(text: str) -> dict[str, Any]:
    spans = [
        {"start": text.index(name), "end": text.index(name) + len(name), "label": label}
        | {"text": name, "probability": 0.9}
        for label, name in NAMES.items()
        if name in text
    ]
    whole = {"start": 0, "end": len(text), "label": text, "text": text, "probability": 0.5}
    return {"tags": [], "tokens": [], "probabilities": [], "spans": spans or [whole]}


def answered(row: dict[str, str]) -> dict[str, Any]:
    text = row["passage"]
    place = {"answer": text, "start": 0, "end": len(text), "probability": 0.6}
    return {**place, "candidates": [place, place]}


def chosen(row: dict[str, Any]) -> dict[str, Any]:
    shares = [1 / len(row["choices"])] * len(row["choices"])
    first = {"choice": 0, "text": row["choices"][0]}
    return {**first, "probability": shares[0], "probabilities": shares}


def written(body: Any) -> dict[str, Any]:
    """Answer a text with itself, and count its words."""
    told = task(lambda text: {"text": text, "score": -0.5})(body)
    return told | {"usage": {"tokens": 7, "written": len(body["inputs"][0].split())}}


def filled(text: str) -> dict[str, Any]:
    candidates = [{"token": text[:200], "probability": 0.5}, {"token": "b", "probability": 0.2}]
    return {"masks": [candidates] * max(1, text.count("[MASK]"))}


def cut(body: Any) -> list[list[dict[str, Any]]]:
    place = {"start": 0, "stop": len(body["inputs"][0])}
    return [[{"id": 7, "text": body["inputs"][0], "special": False, **place}]]


def looked(body: Any) -> dict[str, Any]:
    """Let all look at all alike, but in the last attention head at the second piece from there."""
    words = ["[CLS]", *body["text"].split(" ")]
    pieces = [{"piece": word, "text": None if word == "[CLS]" else 0} for word in words]
    places = range(len(words))
    alike = [[1 / len(words) for _ in places] for _ in places]
    afar = [[float(to == (one + 2) % len(words)) for to in places] for one in places]
    return {"pieces": pieces, "layers": [[alike, alike, alike], [alike, alike, afar]]}


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "/fill-mask": task(filled),
    "/classify": task(labelled),
    "/tag": task(found),
    "/answer": task(answered),
    "/choose": task(chosen),
    "/zero-shot": task(labelled),
    "/generate": written,
    "/similarity": lambda body: [0.5 for _ in body["inputs"]["sentences"]],
    "/rerank": lambda body: [
        {"index": place, "score": -place} for place in reversed(range(len(body["texts"])))
    ],
    "/tokenize": cut,
    "/attention": looked,
}


@pytest.fixture(scope="session")
def echoing(serve_app: Callable[..., Any]) -> Iterator[Echo]:
    """Serve the page with the answers of an echo."""
    echo = Echo()
    routes = [Route(path, echo.answer, methods=["POST"]) for path in ANSWERS]
    app = Starlette(routes=[*page_routes(), Route("/info", echo.info), *routes])
    with serve_app(app) as address:
        echo.url = f"{address}/"
        yield echo


@pytest.fixture
def echo(echoing: Echo) -> Echo:
    """Give an echo of which nothing was asked yet."""
    echoing.models = [
        {"name": "m", "revision": "0a1b2c", "abilities": ABILITIES, "labels": [], "longest": 128}
    ]
    echoing.failure = None
    echoing.asked.clear()
    return echoing


@pytest.fixture
def open_page(browser: "Browser", echo: Echo) -> "Iterator[Callable[..., Page]]":
    """Open the page; at the end, nothing was asked of others and nothing went wrong in it."""
    contexts, outside, wrong = [], [], []

    def open_at(panel: str = "", **settings: Any) -> "Page":
        context = browser.new_context(**{"locale": "en-US", "reduced_motion": "reduce"} | settings)
        contexts.append(context)
        context.on("request", lambda one: outside.append(one.url))
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("console", lambda one: wrong.append(one.text) if "Policy" in one.text else None)
        page.goto(f"{echo.url}#{panel}")
        page.wait_for_selector("form")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not [url for url in outside if not url.startswith(echo.url)]
    assert not wrong
