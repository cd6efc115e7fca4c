"""What tests of several areas share: a small tokenizer, a small network, a machine, commands."""

import io
import json
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import bertworks
from bertworks.cli.main import main
from bertworks.core.device import Machine, cpu_runs_bf16
from bertworks.model.config import STYLES, EncoderConfig
from bertworks.tasks.task import Task, TaskModel
from bertworks.tokenizer.learn import learn_byte_bpe, learn_unigram, learn_wordpiece
from bertworks.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HAS_HYPOTHESIS = find_spec("hypothesis") is not None
if HAS_HYPOTHESIS:
    from hypothesis import HealthCheck, settings

    # The same examples in every run, no clock in the verdict, nothing written beside the tests.
    settings.register_profile(
        "suite",
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("suite")

# A process that may write nothing whole must not leave half a compiled module.
ENVIRONMENT = {
    "PYTHONPATH": str(Path(bertworks.__file__).parents[1]),
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
}

SENTENCES = (
    "The cat sat on the mat and looked at the dog.",
    "A dog ran over the hill, and the cat stayed where the cat was.",
    "Paris is the capital of France; the river runs through the city.",
    "Die Katze sitzt auf der Matte, und der Hund läuft über den Hügel.",
    "我们今天在北京学习中文。北京是中国的首都。",
    "Numbers such as 3, 14 and 159 are split from words like these!",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files that need hypothesis where it is missing and only the GPU is to be tested."""
    if HAS_HYPOTHESIS or config.option.markexpr != "gpu" or collection_path.suffix != ".py":
        return None
    return "hypothesis" in collection_path.read_text(encoding="utf-8") or None


@pytest.fixture
def hears_signals() -> Iterator[None]:
    """Hear what a shell in the background, or nohup, has the whole suite ignore."""
    told = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in told.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Keep to one thread: tiny tensors gain nothing from more, and wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def denormal_numbers() -> None:
    """Give each test numbers of all sizes again: preparing a device flushes the smallest ones."""
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def half_precision() -> None:
    """Leave out what a CPU without bf16 never does; some announce it and die of it."""
    if not cpu_runs_bf16():
        pytest.skip("this CPU cannot multiply in bf16")


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Learn a vocabulary of a few hundred pieces in three languages."""
    return learn_wordpiece(lambda: SENTENCES * 3, size=307, cased=False)


@pytest.fixture(scope="session")
def kinds(tokenizer: Tokenizer) -> dict[str, Tokenizer]:
    """Learn a small vocabulary of each kind from the same sentences."""
    return {
        "wordpiece": tokenizer,
        "byte-bpe": learn_byte_bpe(lambda: SENTENCES * 3, size=443, cased=True),
        "unigram": learn_unigram(lambda: SENTENCES * 3, size=151, cased=False),
    }


@pytest.fixture(scope="session")
def draw_model(kinds: dict[str, Tokenizer]) -> Callable[..., tuple[TaskModel, Tokenizer]]:
    """Draw a small network of a family, with rows to spare, and the kind of tokenizer it has."""

    def draw(family: str, *tasks: Task, **changes: Any) -> tuple[TaskModel, Tokenizer]:
        kind = {"bert": "wordpiece", "albert": "unigram"}.get(family, "byte-bpe")
        shape = {
            "vocab_size": kinds[kind].vocab_size + 2,
            "hidden_size": 18,
            "num_layers": 4,
            "num_heads": 3,
            "feed_forward_size": 31,
            "max_positions": 67,
        }
        if family == "albert":
            shape["embedding_size"] = 11
        drawn = EncoderConfig(**{**STYLES[family], **shape, **changes})
        return TaskModel(drawn, tasks, seed=3, deviation=0.2).eval(), kinds[kind]

    return draw


@pytest.fixture(scope="session")
def config(tokenizer: Tokenizer) -> EncoderConfig:
    """Describe a network with odd sizes, three heads of seven, for the small tokenizer."""
    return EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=21,
        num_layers=3,
        num_heads=3,
        feed_forward_size=37,
        max_positions=67,
    )


@pytest.fixture(scope="session")
def machine() -> Machine:
    """Compute on the CPU in single precision."""
    return Machine(torch.device("cpu"), "fp32")


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, and what it wrote to either stream."""

    code: int | str | None
    out: str
    err: str

    def refusal(self, code: int) -> str:
        """Return the one sentence with which a command refused, after checking that it is one."""
        assert self.code == code, self
        assert self.out == ""
        assert "Traceback" not in self.err
        *before, sentence = self.err.splitlines()
        assert sentence.startswith("bertworks: "), self.err
        assert not [line for line in before if line.startswith("bertworks: ")]
        return sentence.removeprefix("bertworks: ")


@pytest.fixture(scope="session")
def command() -> Callable[..., Ended]:
    """Run a command in this process."""

    def run(*words: Any, stdin: bytes | io.BytesIO = b"") -> Ended:
        out, err, before = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin)
        try:
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main([str(word) for word in words])
        finally:
            sys.stdin = before
        return Ended(ended.value.code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def process() -> Callable[..., Ended]:
    """Run a command in a process of its own, perhaps one that may not write large files."""

    def run(*words: Any, stdin: bytes = b"", largest_file: int | None = None) -> Ended:
        limited = (
            f"from resource import *; setrlimit(RLIMIT_FSIZE, ({largest_file}, {largest_file}));"
            "from bertworks.cli.main import main; main()"
        )
        begin = ["-m", "bertworks"] if largest_file is None else ["-c", limited]
        done = subprocess.run(
            [sys.executable, *begin, *map(str, words)],
            input=stdin,
            capture_output=True,
            check=False,
            env=ENVIRONMENT,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@dataclass(frozen=True)
class Member:
    """How one process of a crew ended; the result of one that was killed is None."""

    code: int  # negative: the signal that killed it
    result: Any
    said: str


class Crews:
    """Runs functions of test files in several processes at once, each with its place in a crew."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("crews.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), ENVIRONMENT["PYTHONPATH"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    def run(
        self, function: Callable[..., Any], *args: Any, size: int, patience: float | None = 60
    ) -> list[Member]:
        """Call `function(crew, *args)` in so many processes; arguments and results are JSON.

        Without patience the function gets its rank, and joins the crew itself.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {
            "file": function.__code__.co_filename,
            "name": function.__name__,
            "args": args,
            "size": size,
            "patience": patience,
        }
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return [Member(*ended) for ended in json.loads(self.process.stdout.readline())]

    def close(self) -> None:
        """End the process that starts the others."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def crews() -> Iterator[Crews]:
    """Give a starter of crews."""
    started = Crews()
    yield started
    started.close()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Start Debian's Chromium, without a window, for the tests of one file.

    Until it closes an event loop runs in this thread: such a file must not call asyncio.run.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no Chromium to look with: run `make browser` as root")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        plain = ["--no-sandbox", "--disable-gpu"]
        started = driver.chromium.launch(executable_path=chromium, args=plain)
        yield started
        started.close()


@pytest.fixture(scope="session")
def sentencepiece_model() -> Callable[..., bytes]:
    """Write a SentencePiece model: pieces as (text, score, type), and a map of characters."""

    def varint(number: int) -> bytes:
        parts = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
        return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])

    def message(number: int, data: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(data)) + data

    def piece(text: str, score: float, kind: int) -> bytes:
        told = message(1, text.encode()) + b"\x15" + struct.pack("<f", score)
        return message(1, told if kind == 1 else told + bytes([24, kind]))  # 1 goes without saying

    def write(
        pieces: Sequence[tuple[str, float, int]], *, model_type: int = 1, characters: bytes = b""
    ) -> bytes:
        trainer = message(2, message(1, b"text.txt") + bytes([24, model_type]))
        normalizer = message(3, message(1, b"own") + message(2, characters))
        return b"".join(piece(*one) for one in pieces) + trainer + normalizer

    return write


@pytest.fixture(scope="session")
def character_map() -> Callable[[dict[str, str]], bytes]:
    """Write a SentencePiece map of characters: which become which."""

    def write(changes: dict[str, str]) -> bytes:
        # A double array in which every node has a block of 256 places for its children.
        units, blocks, texts = [0] * 256, {b"": 0}, b""
        for key, value in changes.items():
            data, at = key.encode(), 0
            for end in range(1, len(data) + 1):
                at = blocks[data[: end - 1]] ^ data[end - 1]
                if data[:end] not in blocks:
                    blocks[data[:end]] = len(units)
                    units += [0] * 256
                    units[at] = (at ^ blocks[data[:end]]) << 10 | data[end - 1]
            units[at] |= 1 << 8
            units[blocks[data]] = 1 << 31 | len(texts)
            texts += value.encode() + b"\0"
        return struct.pack(f"<{len(units) + 1}I", 4 * len(units), *units) + texts

    return write


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], dict[str, bytes]]:
    """Read all files of a folder, to see whether it stays as it is."""

    def read(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    return read


# Labelled rows of every kind of task


class Samples:
    """Makes rows of any kind of task, from one word to several windows long.

    A kind that has no maker here is found by the tests that go through all kinds.
    """

    animals, places = ("cat", "dog", "Katze", "Hund"), ("hill", "mat", "city", "北京")
    others = ("the", "sat", "and", "ran", "14", "!", "läuft", "unseen")

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def rows(self, kind: str, count: int, *, longest: int = 40) -> list[dict[str, Any]]:
        """Make so many rows; the longest text has so many words."""
        make = getattr(self, f"_{kind}", None)
        assert make, f"{kind} has no sample rows: add a maker to Samples in tests/conftest.py"
        lengths = [1, longest, *(self.chance.randint(1, longest) for _ in range(count))]
        return [make(length) for length in lengths[:count]]

    def _words(self, length: int, *, topic: tuple[str, ...] | None = None) -> list[str]:
        known = (topic or self.animals + self.places) + self.others
        return self.chance.choices(known, k=length)

    def _text(self, length: int, **how: Any) -> str:
        return " ".join(self._words(length, **how))

    def _topic(self) -> tuple[str, tuple[str, ...]]:
        return self.chance.choice((("animal", self.animals), ("place", self.places)))

    def _classify(self, length: int) -> dict[str, Any]:
        label, topic = self._topic()
        return {"text": f"{topic[0]} {self._text(length, topic=topic)}", "label": label}

    def _match(self, length: int) -> dict[str, Any]:
        (first, topic), (second, other) = self._topic(), self._topic()
        texts = {"text": self._text(length, topic=topic), "text_b": self._text(5, topic=other)}
        return {**texts, "label": "same" if first == second else "other"}

    def _next_sentence(self, length: int) -> dict[str, Any]:
        return {"text": self._text(length), "text_b": self._text(7)}

    _sentence_order = _next_sentence

    def _fill_mask(self, length: int) -> dict[str, Any]:
        return {"text": f"{self._text(length)} [MASK] {self._text(3)} [MASK]"}

    def _replaced_token(self, length: int) -> dict[str, Any]:
        return {"text": self._text(length)}

    def _multilabel(self, length: int) -> dict[str, Any]:
        words = self._words(length)
        labels = [name for name in ("cat", "hill") if name in words]
        return {"text": " ".join(words), "labels": labels}

    def _score(self, length: int) -> dict[str, Any]:
        first, second = self._words(length), self._words(4)
        score = round(len({*first} & {*second}) / 4 + self.chance.random() / 9, 2)
        return {"text": " ".join(first), "text_b": " ".join(second), "score": score}

    _embed = _score

    def _aspect(self, length: int) -> dict[str, Any]:
        aspect, mood = self.chance.choice(self.places), self.chance.choice(("good", "bad"))
        text = f"{self._text(length)} the {aspect} {'ran' if mood == 'good' else 'sat'}"
        return {"text": text, "aspect": aspect, "label": mood}

    def _relate(self, length: int) -> dict[str, Any]:
        first, second = self.chance.choice(self.animals), self.chance.choice(self.places)
        verb = self.chance.choice(("sat", "ran"))
        before = self._text(length, topic=("and",)) + " "
        text = f"{before}{first} {verb} {second}"
        at = (len(before), len(text) - len(second))
        places = {"first": [at[0], at[0] + len(first)], "second": [at[1], at[1] + len(second)]}
        return {"text": text, **places, "label": verb}

    def _answer(self, length: int) -> dict[str, Any]:
        question, answer = self._text(3), self.chance.choice(self.animals)
        before = self._text(length, topic=("and",)) + " "
        passage = f"{before}{answer} {self._text(length, topic=('ran',))}"
        answers = [{"text": answer, "start": len(before)}]
        return {"question": question, "passage": passage, "answers": answers}

    def _choose(self, length: int) -> dict[str, Any]:
        choices = [self.chance.choice(self.animals), self.chance.choice(self.places), "14"]
        self.chance.shuffle(choices)
        found = {"question": self._text(3), "choices": choices, "passage": self._text(length)}
        return {**found, "label": next(n for n, c in enumerate(choices) if c in self.animals)}

    def _generate(self, length: int) -> dict[str, Any]:
        words = self._words(min(length, 7))  # what is too long for one window is refused
        return {"source": " ".join(words), "target": " ".join(words[-5:])}

    def _tag(self, length: int) -> dict[str, Any]:
        tokens = ["cat", "hill", *self._words(length)]
        kinds = {**dict.fromkeys(self.animals, "B-ANIMAL"), **dict.fromkeys(self.places, "B-PLACE")}
        return {"tokens": tokens, "tags": [kinds.get(token, "O") for token in tokens]}

    def _intent_slots(self, length: int) -> dict[str, Any]:
        intent, topic = self._topic()
        tokens = self._words(length, topic=topic)
        tags = ["B-thing" if token in topic else "O" for token in tokens]
        return {"tokens": [topic[0], *tokens], "tags": ["B-thing", *tags], "intent": intent}


@pytest.fixture(scope="session")
def make_samples() -> type[Samples]:
    """Make rows of every kind of task."""
    return Samples


@pytest.fixture(scope="session")
def served_models(model_folder: Callable[..., Path]) -> Iterator[Any]:
    """Serve a small model of each kind of task under its name; the first fills masks."""
    from bertworks.service.models import Models

    kinds = ("fill_mask", "classify", "tag", "answer", "choose", "match", "score", "generate")
    models = Models.open([f"{kind}={model_folder(kind)}" for kind in kinds])
    yield models
    models.stop(1.0)


@pytest.fixture(scope="session")
def make_client(served_models: Any) -> Callable[..., Any]:
    """Make a client of the service, which runs in memory."""
    from starlette.testclient import TestClient

    from bertworks.service.http_app import AppSettings, make_app

    def make(**settings: Any) -> TestClient:
        return TestClient(make_app(served_models, AppSettings(**settings)))

    return make


@pytest.fixture(scope="session")
def client(make_client: Callable[..., Any]) -> Any:
    """Ask a service whose settings are the usual ones."""
    return make_client()


@pytest.fixture(scope="session")
def serve_app() -> Callable[[Any], AbstractContextManager[str]]:
    """Serve an application on a port of this machine, and tell where."""
    import uvicorn

    @contextmanager
    def serve(app: Any) -> Iterator[str]:
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        thread.join()

    return serve


@pytest.fixture(scope="session")
def address(served_models: Any, serve_app: Callable[..., Any]) -> Iterator[str]:
    """Ask here for the small models."""
    from bertworks.service.http_app import AppSettings, make_app

    with serve_app(make_app(served_models, AppSettings())) as address:
        yield address


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, str], Path]:
    """Let copies of folders be models that come with the package, in a folder of the test."""
    place = tmp_path / "package" / "models"
    monkeypatch.setattr("bertworks.core.shipped.PLACE", place)

    def copy(folder: Path, name: str) -> Path:
        return Path(shutil.copytree(folder, place / name))

    return copy
