"""What the service keeps to itself: code, calls, files, and whoever has no business here."""

import ast
import importlib.util
import io
import pickle
import re
import shutil
import socket
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import bertworks
from bertworks.core.errors import BertworksError
from bertworks.service.http_app import AppSettings
from bertworks.service.models import Models
from bertworks.serving.vector_files import read_ranges
from bertworks.stages.answer_settings import ServeSettings

ROOT = Path(__file__).parents[2]
SOURCE = Path(bertworks.__file__).parent
UNPICKLING = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "multiprocessing"}
PLACES = (
    "model.safetensors",
    "pytorch_model.bin",
    "model.pt",
    "training_args.bin",
    "config.json",
    "tokenizer.json",
    "vocab.txt",
    "modules.json",
    "1_Dense/pytorch_model.bin",
    "manifest.json",
    "ranges.npy",
)
URLS = ("http://127.0.0.1:9/a", "https://example.org/b.safetensors", "ftp://a/b", "hf://a/b")
VECTORS = {"/embed": "inputs", "/v1/embeddings": "input", "/embed_all": "inputs"}
TASKS = {"/classify": "classify", "/tag": "tag"}


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.canary,)


def bombs(canary: Path) -> list[bytes]:
    """Return files that run code where somebody trusts them."""
    zipped, array = io.BytesIO(), io.BytesIO()
    torch.save({"encoder.weight": Bomb(canary)}, zipped)
    np.save(array, np.array([Bomb(canary)], dtype=object), allow_pickle=True)
    return [pickle.dumps(Bomb(canary)), zipped.getvalue(), array.getvalue()]


@pytest.mark.parametrize("place", PLACES)
def test_code_in_a_model_folder_is_never_run(
    place: str, model_folder, command, tmp_path: Path
) -> None:
    canary, folder = tmp_path / "canary", tmp_path / "hostile"
    for number, bomb in enumerate(bombs(canary)):
        shutil.copytree(model_folder("classify"), folder, dirs_exist_ok=True)
        (folder / "manifest.json").unlink()  # a foreign folder has none
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).unlink(missing_ok=True)
        (folder / place).write_bytes(bomb)
        with suppress(BertworksError):
            Models.open([str(folder)]).stop(0.0)
        with suppress(BertworksError):
            read_ranges(folder / place)
        command("import", folder, "--out", tmp_path / f"out{number}")
        assert not canary.exists()
    pickle.loads(bombs(canary)[0])  # what all of these did not do
    assert canary.exists()


def test_what_is_open_by_default_is_little() -> None:
    settings, app = ServeSettings(model=("a",)), AppSettings()
    assert settings.host == "127.0.0.1"
    assert not settings.allow_swap
    assert not app.allow_swap
    assert settings.api_key_file is None  # so that no other host is taken


def test_no_request_makes_the_service_call_anybody(make_client, monkeypatch) -> None:
    client, called = make_client(allow_swap=True), []
    monkeypatch.setattr(socket.socket, "connect", lambda *call: called.append(call))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *call, **more: called.append(call) or [])
    for url in URLS:
        assert client.post("/embed", json={"inputs": [url], "prompt_name": None}).status_code == 200
        assert client.post("/embed", json={"inputs": ["a"], "model": url}).status_code == 404
        assert client.post("/models/classify", json={"path": url}).status_code == 422
    assert not called
    with suppress(OSError):
        socket.create_connection(("example.org", 80))  # which would be seen
    assert called


def test_nothing_that_serves_knows_how_to_unpickle() -> None:
    files = [*(SOURCE / "service").glob("*.py"), *(SOURCE / "serving").glob("*.py")]
    assert len(files) > 30
    assert not [str(file) for file in files if imported(file.read_text()) & UNPICKLING]
    assert imported("def f():\n    from pickle import loads") & UNPICKLING


def imported(code: str) -> set[str]:
    """Return the packages that some code imports."""
    found = set[str]()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_every_version_that_is_installed_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert len(pinned) > 50
    assert not [line for line in pinned if not re.fullmatch(r"[\w.-]+==[\w.+!-]+", line)]
    for name in ("starlette", "uvicorn", "httptools", "uvloop", "msgspec", "safetensors"):
        assert importlib.util.find_spec(name)
        assert [line for line in pinned if line.startswith(f"{name}==")]


@pytest.mark.parametrize("route", [*VECTORS, *TASKS])
def test_nothing_at_all_and_one_too_many_are_told(route: str, make_client) -> None:
    client, name = make_client(max_items=3), VECTORS.get(route, "inputs")

    def ask(inputs: object) -> int:
        model = {"model": TASKS[route]} if route in TASKS else {}
        return client.post(route, json={name: inputs, **model}).status_code

    assert [ask([]), ask(["a"] * 3), ask(["a"] * 4)] == [422, 200, 413]
    of_nothing = 200 if route in VECTORS else 422  # its vector, but nothing can be said of it
    assert [ask([""]), ask([" \n\t"])] == [of_nothing] * 2
