"""Threads give their cores away, unless the user says otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bertworks
from bertworks.core.environment import SPINS, chose_malloc, share_cores


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


def test_it_is_known_whether_a_user_has_decided_about_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:  # noqa: TID251
        monkeypatch.delenv(name)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.rtld.nns=3")
    assert not chose_malloc()
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.rtld.nns=3:glibc.malloc.mmap_max=3")
    assert chose_malloc()
    monkeypatch.delenv("GLIBC_TUNABLES")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    assert chose_malloc()
