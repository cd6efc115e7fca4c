"""Locks: one process at a time, and none from the grave."""

import signal
import subprocess
import sys
from pathlib import Path

import bertworks
from bertworks.core.lock import hold

SOURCES = Path(bertworks.__file__).parents[1]
HOLD = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from bertworks.core.lock import hold
sys.stdout.write(f"{hold(Path(sys.argv[2]))}\\n")
sys.stdout.flush()
if os.fork():
    time.sleep(60)
else:  # a worker, which outlives a killed parent
    sys.stdin.read()
"""


def start(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(SOURCES), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def finish(process: "subprocess.Popen[str]") -> None:
    """Let the worker go too."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_another_process_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    first = start(tmp_path / "lock")
    assert said(first) == "True"
    assert not hold(tmp_path / "lock")
    end(first)  # its worker lives on, and has no part in the lock
    assert hold(tmp_path / "lock")
    second = start(tmp_path / "lock")
    assert said(second) == "False"
    end(second)
    for process in (first, second):
        finish(process)


def test_the_same_process_may_lock_again(tmp_path: Path) -> None:
    assert hold(tmp_path / "lock")
    assert hold(tmp_path / "lock")
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_file_that_a_dead_process_left_is_free(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("")
    assert hold(tmp_path / "lock")
