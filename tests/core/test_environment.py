"""Threads give their cores away, unless the user says otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bertworks
from bertworks.core.environment import SPINS, share_cores


def test_the_spinning_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    share_cores()
    assert os.environ["GOMP_SPINCOUNT"] == SPINS["GOMP_SPINCOUNT"]  # noqa: TID251


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "17")
    share_cores()
    assert os.environ["GOMP_SPINCOUNT"] == "17"  # noqa: TID251


def test_the_command_line_sets_it_before_torch_is_there() -> None:
    seen = (
        "import sys, os\n"
        "import bertworks.cli.commands as commands\n"
        "commands.Command.run = lambda *_: print('torch' in sys.modules, "
        "'GOMP_SPINCOUNT' in os.environ) or {}\n"
        "from bertworks.cli.main import main\n"
        "main(['quickstart'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", seen],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(bertworks.__file__).parents[1])},
    )
    assert done.stdout.split() == ["False", "True"]
