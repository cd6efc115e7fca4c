"""What the fault tests share: a small corpus, commands that meet faults, and what they leave."""

import hashlib
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

import bertworks
from bertworks.training.run import whole_checkpoints

SOURCES = Path(bertworks.__file__).parents[1]


PROMISES = {
    "T1": ("kill -9 at any moment", "100 kills, 30 in a save; the same bits, at most 1 interval"),
    "T2": ("every kind of run killed", "24 kinds, 3 kills each; the same bits"),
    "T3": ("killed again in the first save", "the same bits after 2 and 3 kills"),
    "T4": ("torn checkpoints", "all found, the one before is used, one warning"),
    "T5": ("disk full or failing", "one sentence, exit 1, the checkpoint before whole"),
    "T6": ("order of the syncs", "files, manifest, folder, name, parent; none missing"),
    "T7": ("SIGTERM and SIGINT", "50; saved, exit code 143 or 130, no step lost"),
    "T8": ("what is kept", "2 good checkpoints, 1 at the least at any kill"),
    "T9": ("resumed with other settings", "the same order of texts, or refused by name"),
    "T10": ("saving in the background", "no bit differs"),
    "D1": ("order of the texts", "3 epochs, each text once, the same after a resume"),
    "D2": ("poisoned files", "no crash, every bad row named, the others in order"),
    "D3": ("damaged shards", "all found before the first step"),
    "N1": ("numbers that are none", "no update, logged with ids, bounded, then exit 1"),
    "N2": ("spikes of the loss", "left out; within 1 % of the clean loss, the same after kills"),
    "N3": ("they show", "in the log and in the metrics, never filtered"),
    "N4": ("such numbers in one process", "all of several processes decide the same"),
    "A1": ("predict and embed killed", "the same bytes; no answer twice, none missing"),
    "P1": ("one of several processes lost", "one sentence, exit 1, a whole checkpoint, resumed"),
}


@dataclass(frozen=True)
class Fate:
    """A signal, or an error, at the n-th event: a log line, a sync, a tensor file half written.

    `step` is the log line of that step, `seconds` a moment, `error` what the disk answers.
    """

    event: Literal[
        "record", "step", "restore", "go back", "sync", "rename", "unlink", "write", "seconds"
    ]
    number: float
    signal_number: int = signal.SIGKILL
    whom: Literal["process", "group"] = "process"
    error: int = 0


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
        switches: tuple[str, ...] = (),
        ledger: Path | None = None,
    ) -> Ended:
        """Run one command, perhaps with a fault on its way; the switches are those of doomed.py."""
        order = {
            "words": words,
            "said": str(self.said),
            "fate": None if fate is None else list(vars(fate).values()),
            "largest_file": largest_file,
            "switches": switches,
            "ledger": None if ledger is None else str(ledger),
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
            ended = commands.run(pretrain(out, **changed), ledger=out.parent / "ledger.jsonl")
            assert ended.code == 0, ended.said
            done[key] = out
        return done[key]

    return run


@pytest.fixture(scope="session")
def read_ledger() -> Callable[[Path], dict[int, list[int]]]:
    """Read which texts each step got; a step that was done again must have got the same."""

    def read(file: Path) -> dict[int, list[int]]:
        steps: dict[int, list[int]] = {}
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            assert steps.setdefault(entry["step"], entry["ids"]) == entry["ids"]
        return steps

    return read


# They tell --resume, --out and how long a run took.
SAYS_HOW = {"manifest.json", "report.html", "report.md", "report.json", "time.json"}


@pytest.fixture(scope="session")
def outcome() -> Callable[[Path], dict[str, str]]:
    """Hash all that a finished run left: its model, its log, its last checkpoint, its best."""

    def hashes(out: Path) -> dict[str, str]:
        last = whole_checkpoints(out)[-1]
        best = json.loads((last / "counters.json").read_text())["best_step"]
        folders = {"": out, "last/": last}
        if best:  # some objectives have no score that could be best
            folders["best/"] = out / "best" / f"step-{best:08d}"
        if (out / "generator").exists():  # an ELECTRA has no best moment
            folders |= {"best/": out / "generator"}
        files = {
            place + path.name: path
            for place, folder in folders.items()
            for path in folder.iterdir()
            if path.is_file() and path.name not in SAYS_HOW
        }
        expected = {"model.safetensors", "log.jsonl", "last/optimizer.safetensors"}
        assert expected | {f"{place}model.safetensors" for place in folders} <= files.keys()
        made = {name: hashlib.sha256(own.read_bytes()).hexdigest() for name, own in files.items()}
        return made | {"report": timeless_report(out)}

    return hashes


def timeless_report(out: Path) -> str:
    """Return what the report of a run tells besides its time and its command."""
    told = json.loads((out / "report.json").read_text())
    told["speed"] = told["speed"]["counts"]
    return json.dumps({name: told[name] for name in told if name != "again"})


@pytest.fixture(scope="session")
def is_same(outcome: Callable[[Path], dict[str, str]]) -> Callable[[Path, Path], bool]:
    """Tell whether two finished runs ended in the same bits."""
    return lambda first, second: outcome(first) == outcome(second)


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
        words += [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]
    return words


# The table of results


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Put numbers of a test into the table, such as how many kills it survived."""

    def count(**numbers: int) -> None:
        request.node.user_properties.append(("counts", numbers))

    return count


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known that tie a test to its line of the table."""
    config.addinivalue_line("markers", "shows(promise): shows that a promise is kept")
    config.addinivalue_line("markers", "control(promise): shows that breaking it is noticed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let every result tell what it is about."""
    for item in items:
        for kind in ("shows", "control"):
            for mark in item.iter_markers(kind):
                item.user_properties.append((kind, mark.args[0]))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table, when nothing but the fault tests was run."""
    if [Path(word.partition("::")[0]).name for word in config.args] != ["faults"]:
        return
    reports = [
        r for kind in ("passed", "failed", "error") for r in terminalreporter.stats.get(kind, [])
    ]
    terminalreporter.section("what is promised, and what was found")
    form = "{:4} {:31} {:6} {:8} {:7} {:46} {}"
    terminalreporter.write_line(
        form.format("", "fault", "tests", "controls", "result", "counts", "target")
    )
    for promise, (what, target) in PROMISES.items():
        terminalreporter.write_line(form.format(promise, what, *_found(reports, promise), target))


def _found(reports: list[Any], promise: str) -> tuple[int, int, str, str]:
    """Return tests, controls, result and counts of one promise."""
    showing, controls = (
        [r for r in reports if (kind, promise) in r.user_properties]
        for kind in ("shows", "control")
    )
    counts: Counter[str] = Counter()
    for report in showing:
        for key, numbers in report.user_properties:
            counts.update(numbers if key == "counts" else {})
    is_kept = bool(showing and controls) and all(r.passed for r in (*showing, *controls))
    said = ", ".join(f"{number:,} {key.replace('_', ' ')}" for key, number in counts.items())
    return len(showing), len(controls), "kept" if is_kept else "BROKEN", said
