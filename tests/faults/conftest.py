"""What the fault tests share: a small corpus, commands that meet faults, and what they leave."""

import hashlib
import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

import bertworks
from bertworks.training.run import whole_checkpoints

SOURCES = Path(bertworks.__file__).parents[1]


@dataclass(frozen=True)
class Fate:
    """A signal at the n-th event: a log line, a sync, a rename, a tensor file half written."""

    event: Literal["record", "restore", "sync", "rename", "unlink", "write", "seconds"]
    number: float
    signal_number: int = signal.SIGKILL
    whom: Literal["process", "group"] = "process"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int  # negative: the signal that killed it
    said: str  # on standard output and standard error


class Commands:
    """Runs commands in processes of their own, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.said = folder / "said"
        script = Path(__file__).with_name("doomed.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(SOURCES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        words: list[str],
        *,
        fate: Fate | None = None,
        largest_file: int | None = None,
        forgetful: bool = False,
    ) -> Ended:
        """Run one command, perhaps with a fault on its way."""
        order = {
            "words": words,
            "said": str(self.said),
            "fate": None if fate is None else list(vars(fate).values()),
            "largest_file": largest_file,
            "forgetful": forgetful,
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        code = json.loads(self.process.stdout.readline())
        return Ended(code, self.said.read_text())

    def close(self) -> None:
        """End the process that starts the others."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Give a starter of processes."""
    started = Commands(tmp_path_factory.mktemp("commands"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def make_fate() -> type[Fate]:
    """Make a fate."""
    return Fate


@pytest.fixture(scope="session")
def shards(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sixty small documents of made-up words, and tokenize them."""
    folder = tmp_path_factory.mktemp("corpus")
    chance = random.Random(4)
    words = [a + b for a in ("ba", "ke", "mi", "so", "tu", "ra", "ne") for b in "lnrst"]
    documents = []
    for _ in range(60):
        topic = chance.sample(words, 12)
        lengths = [chance.randint(3, 9) for _ in range(chance.randint(3, 8))]
        sentences = [" ".join(chance.choices(topic, k=length)) + "." for length in lengths]
        documents.append("\n".join(sentences))
    text, tokenizer, out = (str(folder / name) for name in ("text.txt", "tokenizer", "shards"))
    Path(text).write_text("\n\n".join(documents) + "\n")
    learn = ["learn-vocab", text, "--out", tokenizer, "--size", "120"]
    assert commands.run(learn).code == 0
    cut = ["tokenize", text, "--tokenizer", tokenizer, "--out", out, "--held-out", "0.1"]
    assert commands.run([*cut, "--workers", "1"]).code == 0
    return Path(out)


@pytest.fixture(scope="session")
def pretrain(shards: Path) -> Callable[..., list[str]]:
    """Say the words of a short pre-training that passes the corpus twice."""

    def words(out: Path, **changed: Any) -> list[str]:
        flags = {
            "size": "2x64",
            "longest": 24,
            "steps": 14,
            "batch_tokens": 400,
            "evaluate_every": 5,
            "checkpoint_every": 3,
            "device": "cpu",
            "threads": 1,
            "resume": "auto",
        }
        return ["pretrain", str(shards), "--out", str(out), *_as_words(flags | changed)]

    return words


@pytest.fixture(scope="session")
def whole(
    commands: Commands, pretrain: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Run a pre-training without any fault, once for each of its kinds."""
    done: dict[str, Path] = {}

    def run(**changed: Any) -> Path:
        key = json.dumps(changed, sort_keys=True)
        if key not in done:
            out = tmp_path_factory.mktemp("whole") / "run"
            ended = commands.run(pretrain(out, **changed))
            assert ended.code == 0, ended.said
            done[key] = out
        return done[key]

    return run


@pytest.fixture(scope="session")
def outcome() -> Callable[[Path], dict[str, str]]:
    """Hash all that a finished run left: its model, its log, its last checkpoint, its best."""

    def hashes(out: Path) -> dict[str, str]:
        last = whole_checkpoints(out)[-1]
        kept = [path for path in out.rglob("*") if path.is_file()]
        files = [
            path
            for path in kept
            if path.name != "manifest.json"  # it names the command, which says --resume
            and ("checkpoints" not in path.parts or path.parent == last)
        ]
        names = {str(path.relative_to(out)) for path in files}
        assert {"model.safetensors", "log.jsonl", "best/model.safetensors"} <= names
        assert f"checkpoints/{last.name}/optimizer.safetensors" in names
        return {
            str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }

    return hashes


@pytest.fixture(scope="session")
def num_lost() -> Callable[[Path], int]:
    """Count the steps in a killed run's log that no whole checkpoint holds."""

    def count(out: Path) -> int:
        log = out / "log.jsonl"
        if not log.exists():
            return 0
        lines = log.read_text().splitlines(keepends=True)
        steps = [json.loads(line)["step"] for line in lines if line.endswith("\n")]
        saved = [int(path.name[5:]) for path in whole_checkpoints(out)]
        return max(steps, default=0) - max(saved, default=0)

    return count


@pytest.fixture(scope="session")
def as_words() -> Callable[[dict[str, Any]], list[str]]:
    """Turn flags into words."""
    return _as_words


def _as_words(flags: dict[str, Any]) -> list[str]:
    words = []
    for name, value in flags.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", str(value)]
    return words
