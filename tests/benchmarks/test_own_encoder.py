"""The benchmark of our own encoders: its commands exist, and what is whole is not made again."""

import shlex
import sys
import tomllib
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import Any

import pytest

from bertworks.cli.main import parse
from bertworks.evaluation.model_card import CardNotes

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the benchmark."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("own_encoder")


@pytest.fixture
def asked(tmp_path: Path) -> Namespace:
    return Namespace(out=tmp_path, seeds=2, at_once=1, rehearse=False)


class Maker:
    """Stands for the commands: notes what is made, and leaves what tells that it is whole."""

    def __init__(self, marks: dict[str, tuple[str, ...]]) -> None:
        self.marks = marks
        self.made: list[str] = []
        self.fails = ""

    def run(self, command: list[str], *, cwd: Path, check: bool) -> CompletedProcess[bytes]:
        name = command[command.index("--out") + 1]
        self.made.append(name)
        if name == self.fails:
            return CompletedProcess(command, 1)
        for mark in self.marks[name] if Path(name).suffix == "" else [""]:
            (cwd / name / mark).parent.mkdir(parents=True, exist_ok=True)
            (cwd / name / mark).touch()
        return CompletedProcess(command, 0)


@pytest.fixture
def maker(bench: ModuleType, asked: Namespace, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """Let nothing run."""
    made = Maker({name: step.marks for name, step in bench.steps_of("en", asked).items()})
    monkeypatch.setattr(bench.subprocess, "run", made.run)
    monkeypatch.setattr(bench, "write_lessons", lambda out, public: None)
    return made


@pytest.mark.parametrize("language", ["en", "en-mini", "zh", "zh-mini"])
@pytest.mark.parametrize("rehearse", ["", "--rehearse"])
def test_every_command_is_one_of_ours(
    language: str,
    rehearse: str,
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [language, "--out", "out", "--print", *filter(None, [rehearse])]
    monkeypatch.setattr(sys, "argv", ["own_encoder.py", *words])
    bench.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 6
    for line in lines:
        name, *called = shlex.split(line)
        assert name == "bertworks"
        parse(called)


@pytest.mark.parametrize("language", ["en", "en-mini", "zh", "zh-mini"])
def test_each_step_needs_others_of_the_same_and_each_card_has_its_notes(
    language: str, bench: ModuleType, asked: Namespace
) -> None:
    steps = bench.steps_of(language, asked)
    known: set[str] = {"lessons"}
    for name, step in steps.items():
        assert known.issuperset(step.needs), name
        known.add(name)
    cards = [name for name in steps if name.endswith("README.md")]
    assert len(cards) == {"en": 2, "en-mini": 2, "zh": 1, "zh-mini": 1}[language]
    for card in cards:
        notes = bench.NOTES / f"{Path(card).parent}.toml"
        told = CardNotes.read(tomllib.loads(notes.read_text()), where="notes")
        assert told.language == language[:2]


def test_everything_is_made_once_and_in_order(
    bench: ModuleType, asked: Namespace, maker: Maker
) -> None:
    steps: dict[str, Any] = bench.steps_of("en", asked)
    for name in steps:
        bench.make(name, steps, asked)
    assert maker.made == list(steps)
    for name in steps:
        bench.make(name, steps, asked)
    assert maker.made == list(steps)


def test_what_something_whole_was_made_of_may_be_missing(
    bench: ModuleType, asked: Namespace, maker: Maker
) -> None:
    steps = bench.steps_of("en", asked)
    maker.run(["--out", "shards"], cwd=asked.out, check=False)
    bench.make("bertworks-en", steps, asked)
    assert maker.made == ["shards", "run", "bertworks-en"]


def test_a_suite_of_which_a_task_failed_is_gone_on_with(
    bench: ModuleType, asked: Namespace, maker: Maker
) -> None:
    steps = bench.steps_of("en", asked)
    bench.make("bertworks-en", steps, asked)
    (asked.out / "glue" / "cola").mkdir(parents=True)
    (asked.out / "glue" / "cola" / "result.json").touch()
    maker.fails = "glue"
    with pytest.raises(SystemExit):
        bench.make("glue", steps, asked)
    maker.fails = ""
    bench.make("glue", steps, asked)
    assert maker.made[-2:] == ["glue", "glue"]


def test_a_folder_is_for_one_encoder_and_one_corpus(bench: ModuleType, tmp_path: Path) -> None:
    mark, link = tmp_path / "encoder.txt", tmp_path / "corpus"
    for _ in range(2):
        bench.claim(mark, "en")
    with pytest.raises(SystemExit, match="is that of en; choose another --out for en-mini"):
        bench.claim(mark, "en-mini")
    texts, others = tmp_path / "texts", tmp_path / "others"
    for folder in (texts, others):
        folder.mkdir()
    link.symlink_to(tmp_path / "gone")
    for folder in (None, texts, texts, None):
        bench.point(link, folder)
    assert link.resolve() == texts
    with pytest.raises(SystemExit, match="remove it, or choose another --out"):
        bench.point(link, others)
