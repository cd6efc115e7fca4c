"""Commands in processes of their own: what they say, how they fail, and that they end."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import bertworks
from bertworks.core.errors import BertworksError, FullMemoryError, TrainingError
from bertworks.stages.children import Children

SECONDS_TO_WAIT = 60


@pytest.fixture
def endless(pretrained: Path, labelled: dict[str, Path], tmp_path: Path) -> list[str]:
    """Return the words of a command that takes longer than any test waits."""
    files = ["--train", labelled["train"], "--dev", labelled["dev"], "--out", tmp_path / "out"]
    return [*map(str, ["finetune", "--model", pretrained, *files, "--epochs", 100_000])]


def test_a_command_says_what_it_says_behind_whose_it_is(
    pretrained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Children() as children:
        children.run(["models", str(pretrained)], whose="ours 3")
    said = capsys.readouterr().err.splitlines()
    assert f"$ bertworks models {pretrained}" in said
    assert "ours 3: models:" in said


def test_what_a_command_says_last_is_why_it_fails(tmp_path: Path) -> None:
    with Children() as children, pytest.raises(BertworksError) as failed:
        children.run(["models", str(tmp_path / "none")])
    assert str(failed.value).startswith("models ended with code 1: ")
    assert str(tmp_path / "none") in str(failed.value)


def test_a_training_that_comes_apart_is_told_from_other_failures(endless: list[str]) -> None:
    with Children() as children, pytest.raises(TrainingError):
        children.run([*endless, "--lr", "1e38"])


def test_too_little_memory_is_told_from_other_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data.json"
    data.write_text("[\n" + '{"text": "a", "label": "b"},\n' * 5000)
    os.truncate(data, 2**40)  # which is read as a whole
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**36, 2**36))"
    (tmp_path / "sitecustomize.py").write_text(limit)
    path = [str(tmp_path), str(Path(bertworks.__file__).parents[1])]
    with Children() as children, monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        with pytest.raises(FullMemoryError, match="the memory was full in check"):
            children.run(["check", str(data), "--task", "classify"])


def test_who_leaves_ends_what_runs_and_lets_nothing_begin(
    endless: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor() as pool:
        with Children() as children:
            run: Any = pool.submit(children.run, endless)
            started = time.monotonic()
            while not (tmp_path / "out").exists():
                assert time.monotonic() - started < SECONDS_TO_WAIT
                time.sleep(0.02)
        assert isinstance(run.exception(SECONDS_TO_WAIT), BertworksError)
    capsys.readouterr()
    with pytest.raises(BertworksError, match="is not begun any more"):
        children.run(endless)
    assert capsys.readouterr().err == ""  # what does not begin is not told
