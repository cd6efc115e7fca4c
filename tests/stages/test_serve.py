"""serve: refused in a sentence, answered over HTTP, ended without breaking its word."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks
from bertworks.core.artifact import Origin
from bertworks.core.errors import DataError, UsageError
from bertworks.serving.model_folder import save_model
from bertworks.stages.answer_settings import ServeSettings
from bertworks.stages.serve import _limits, _read_keys
from bertworks.stages.setting_groups import MachineSettings
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel

TEXTS = ["The cat sat on the mat.", "北京", "a dog ran over the hill " * 30]
Connection = http.client.HTTPConnection
KEY = "a key that nobody guesses"


@pytest.fixture(scope="module")
def moods(config, tokenizer, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("served") / "moods"
    task = make_task("classify", ("cold", "warm"))
    model = TaskModel(config, [task], seed=7, deviation=0.3)
    save_model(path, model, tokenizer, origin=Origin())
    return path


class Running:
    """A service in a process of its own."""

    def __init__(self, *words: Any) -> None:
        root = Path(bertworks.__file__).parents[1]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bertworks", "serve", "--port", "0", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            text=True,
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline()
        self.address = self.said.split("//")[1].split(";")[0] if "//" in self.said else ""

    def send(self, method: str, path: str, body: Any = None, *, key: str = KEY) -> Connection:
        """Send a request on a connection of its own."""
        connection = http.client.HTTPConnection(self.address, timeout=20)
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        return connection

    def ask(self, *request: Any, **more: str) -> tuple[int, Any]:
        """Send a request and return what comes back."""
        return answer_of(self.send(*request, **more))


def answer_of(connection: Connection) -> tuple[int, Any]:
    """Return the status and the JSON."""
    with closing(connection):
        response = connection.getresponse()
        return response.status, json.loads(response.read())


@pytest.fixture
def service(moods, tmp_path: Path) -> Iterator[Running]:
    keys = tmp_path / "keys.txt"
    keys.write_text(f"\n{KEY}\n")
    running = Running("--model", f"a={moods}", "--api-key-file", keys, "--threads", 1)
    yield running
    running.process.kill()
    running.process.communicate()


def test_a_service_answers_and_ends_when_all_have_their_answers(service, moods) -> None:
    assert service.said.startswith("listening on http://127.0.0.1:")
    assert "; a can attention, classify, embed, embed_all, rerank, zero_shot" in service.said
    assert service.ask("GET", "/readyz")[0] == 200
    assert service.ask("POST", "/v1/embeddings", {"input": TEXTS}, key="wrong")[0] == 401
    expected = bertworks.load(moods).embed(TEXTS)
    asked = [service.send("POST", "/v1/embeddings", {"input": TEXTS}) for _ in range(20)]
    service.process.send_signal(signal.SIGTERM)
    assert service.ask("GET", "/readyz")[0] == 503
    for connection in asked:
        status, told = answer_of(connection)
        assert status == 200
        vectors = np.array([row["embedding"] for row in told["data"]])
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    out, err = service.process.communicate(timeout=20)
    assert service.process.returncode == 0, err
    assert "answered: 60" in out
    with pytest.raises(ConnectionRefusedError):
        service.ask("GET", "/livez")


def test_a_request_of_as_many_texts_as_are_allowed_is_answered(service) -> None:
    texts = ["the cat sat on the mat and the dog ran over the hill again and again"] * 2048
    status, told = service.ask("POST", "/v1/embeddings", {"input": texts, "dimensions": 1})
    assert status == 200, told
    assert told["usage"]["total_tokens"] > 40_000
    assert len(told["data"]) == 2048


def test_how_much_is_computed_at_once_follows_the_machine() -> None:
    settings = ServeSettings(model=("a",), machine=MachineSettings(device="cpu"))
    assert _limits(settings).batch_tokens == 1024
    assert _limits(settings).queue_tokens >= 128 * settings.max_items
    assert _limits(replace(settings, batch_tokens=77)).batch_tokens == 77


def test_a_port_that_is_taken_is_said_before_a_model_is_opened(command, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        ended = command("serve", "--model", tmp_path / "nowhere", "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in ended.refusal(2)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.4"])
def test_other_machines_are_let_in_only_with_a_key(command, moods, host: str) -> None:
    ended = command("serve", "--model", moods, "--host", host, "--port", 0)
    assert "lets other machines in; give an --api-key-file" in ended.refusal(2)


def test_a_broken_folder_is_refused(command, moods, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in moods.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "model.safetensors").write_bytes(b"torn")
    ended = command("serve", "--model", broken, "--port", 0)
    assert "model.safetensors has 4 bytes, its manifest says" in ended.refusal(1)


def test_a_folder_of_another_kind_is_refused(command, tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    ended = command("serve", "--model", tmp_path, "--port", 0)
    assert "config.json" in ended.refusal(1)


@pytest.mark.parametrize("name", ["uvicorn", "starlette", "msgspec"])
def test_a_missing_package_is_said_with_its_extra(
    command, moods, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    ended = command("serve", "--model", moods, "--port", 0)
    assert ended.refusal(1) == "serve needs: pip install 'bertworks[serve]'"


def test_keys_are_kept_as_digests_only(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n\n  {KEY[::-1]} \r\n")
    assert _read_keys(file) == tuple(sha256(key.encode()).hexdigest() for key in (KEY, KEY[::-1]))
    assert _read_keys(None) == ()


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", DataError, "is empty"),
        (b"\n \n", UsageError, "holds no key; write one into each line"),
        (f"{KEY}\nshort\n".encode(), UsageError, "line 2 of .* is shorter than 16 characters"),
        (b"\xff" * 20, UsageError, "is not UTF-8"),
    ],
)
def test_a_file_without_good_keys_is_refused(
    tmp_path: Path, content: bytes, error: type[Exception], message: str
) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(error, match=message) as refused:
        _read_keys(file)
    assert KEY not in str(refused.value)
    assert "short\n" not in str(refused.value)
