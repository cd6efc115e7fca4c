"""serve: refused in a sentence, answered over HTTP, ended without breaking its word."""

import http.client
import json
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
from bertworks.service.guards import OWN_HOSTS
from bertworks.service.models import revision_of
from bertworks.serving.model_folder import save_model
from bertworks.stages.answer_settings import ServeSettings
from bertworks.stages.serve import _hosts, _limits, _read_keys
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

    def __init__(
        self, *words: Any, port: int = 0, start: Sequence[str] = ("-m", "bertworks")
    ) -> None:
        root = Path(bertworks.__file__).parents[1]
        self.process = subprocess.Popen(
            [sys.executable, *start, "serve", "--port", str(port), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            text=True,
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline()
        self.address = self.said.split("//")[1].split(";")[0] if "//" in self.said else ""
        self.introduced: list[str] = []

    def wait(self) -> None:
        """Wait until it says that it can answer."""
        assert self.process.stderr is not None
        while not self.introduced or not self.introduced[-1].startswith("ready; "):
            self.introduced.append(self.process.stderr.readline())
            assert self.introduced[-1], self.introduced

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


def answer_if_any(connection: Connection) -> tuple[int, Any] | None:
    """Return what came back before the service was gone."""
    try:
        return answer_of(connection)
    except (OSError, http.client.HTTPException):
        return None


@pytest.fixture
def service(moods, tmp_path: Path) -> Iterator[Running]:
    keys = tmp_path / "keys.txt"
    keys.write_text(f"\n{KEY}\n")
    running = Running("--model", f"a={moods}", "--api-key-file", keys, "--threads", 1)
    running.wait()
    yield running
    running.process.kill()
    running.process.communicate()


def test_a_service_answers_and_ends_when_all_have_their_answers(service, moods) -> None:
    assert service.said == f"listening on http://{service.address}; opening a\n"
    (model, ready) = service.introduced
    assert f"a (torch, fp32, cpu, revision {revision_of(moods)}) can attention, classify" in model
    assert ready == (
        f"ready; try it at http://{service.address}/ in a browser; all routes are at "
        f"http://{service.address}/docs; every request needs a key\n"
    )
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


def test_a_service_that_is_killed_comes_back_at_the_same_port_with_the_same_answers(moods) -> None:
    words = "--model", f"a={moods}", "--threads", 1
    content = {path: path.read_bytes() for path in moods.rglob("*") if path.is_file()}
    first = Running(*words)
    first.wait()
    _, wanted = first.ask("POST", "/embed", {"inputs": TEXTS})
    asked = [first.send("POST", "/embed", {"inputs": TEXTS * 99}) for _ in range(9)]
    first.process.kill()
    first.process.communicate()
    assert None in [answer_if_any(connection) for connection in asked]
    second = Running(*words, port=int(first.address.split(":")[1]))
    second.wait()
    assert second.ask("GET", "/readyz")[0] == 200
    np.testing.assert_allclose(second.ask("POST", "/embed", {"inputs": TEXTS})[1], wanted)
    second.process.terminate()
    second.process.communicate()
    assert second.process.returncode == 0
    assert {path: path.read_bytes() for path in moods.rglob("*") if path.is_file()} == content


# Says whatever is read from a pickle, and every address that is bound or called.
WATCHED = """
import sys
def watch(event, given):
    if event == "pickle.find_class" or event in ("socket.bind", "socket.connect"):
        sys.stderr.write(f"watched {event} {given[1:]}\\n")
sys.addaudithook(watch)
"""


def test_no_pickle_is_read_from_a_socket_and_nobody_is_called(moods) -> None:
    script = WATCHED + "from bertworks.cli.main import main; sys.exit(main(sys.argv[1:]))"
    running = Running("--model", f"a={moods}", "--allow-swap", start=("-c", script))
    while "listening" not in running.said:  # what torch reads of its own files comes before
        assert running.process.stderr is not None
        running.introduced.append(running.said)
        running.said = running.process.stderr.readline()
    running.address = running.said.split("//")[1].split(";")[0]
    bound = [line for line in running.introduced if line.startswith("watched socket")]
    assert bound == ["watched socket.bind (('127.0.0.1', 0),)\n"]
    running.wait()
    body = pickle.dumps({"inputs": print})
    for kind in ("application/json", "application/octet-stream"):
        connection = http.client.HTTPConnection(running.address, timeout=20)
        connection.request("POST", "/embed", body, {"content-type": kind})
        assert answer_of(connection)[0] in (400, 415)
    assert running.ask("POST", "/embed", {"inputs": TEXTS})[0] == 200
    assert running.ask("POST", "/models/a", {"path": str(moods)})[0] == 200
    running.process.terminate()
    _, said = running.process.communicate()
    assert running.process.returncode == 0
    assert "watched" not in said + "".join(running.introduced[len(bound) :]), said


def test_a_pickle_that_is_read_is_seen() -> None:
    code = f"{WATCHED}import pickle; pickle.loads({pickle.dumps(print)!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == "watched pickle.find_class ('print',)\n"


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


def test_without_a_model_those_that_come_with_bertworks_are_served(
    command, ship, moods: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(moods, broken)
    (broken / "model.safetensors").write_bytes(b"torn")
    ship(broken, "little-en")
    ended = command("serve", "--port", 0)
    assert "opening little-en" in ended.err
    assert "model.safetensors has 4 bytes, its manifest says" in ended.refusal(1)
    assert "opening a" in command("serve", "--model", f"a={broken}", "--port", 0).err
    shutil.rmtree(tmp_path / "package")
    assert command("serve", "--port", 0).refusal(2).startswith("no model is given; name a folder")


def test_a_service_answers_to_its_own_names_only(service) -> None:
    for host, status in (("localhost", 200), ("127.0.0.1:1", 200), ("evil.example", 421)):
        connection = http.client.HTTPConnection(service.address, timeout=20)
        connection.request("GET", "/readyz", headers={"host": host})
        assert answer_of(connection)[0] == status


@pytest.mark.parametrize(
    ("host", "allowed", "expected"),
    [
        ("127.0.0.1", (), (*OWN_HOSTS, "127.0.0.1")),
        ("127.8.0.1", (), (*OWN_HOSTS, "127.8.0.1")),
        ("127.0.0.1", ("www.example.org",), (*OWN_HOSTS, "127.0.0.1", "www.example.org")),
        ("0.0.0.0", (), ("*",)),
        ("0.0.0.0", ("a.example", "[::2]"), (*OWN_HOSTS, "0.0.0.0", "a.example", "[::2]")),
        ("::1", ("*",), (*OWN_HOSTS, "::1", "*")),
    ],
)
def test_other_names_are_those_that_are_allowed(host, allowed, expected) -> None:
    assert _hosts(host, allowed) == expected


@pytest.mark.parametrize("name", ["http://a.example", "a.example/x", "*.example", "a b"])
def test_what_is_no_name_of_a_host_is_refused(command, moods, name: str) -> None:
    ended = command("serve", "--model", moods, "--allowed-hosts", name, "--port", 0)
    assert f"--allowed-hosts {name} is no name of a host" in ended.refusal(2)


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
