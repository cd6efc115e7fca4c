"""The command for a process that shall not outlive its starter."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import bertworks

CHILD = [sys.executable, "-m", "bertworks.cli.child"]
ENVIRONMENT = {"PYTHONPATH": str(Path(bertworks.__file__).parents[1])}


def start(*words: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*CHILD, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=ENVIRONMENT,
    )


def test_it_is_the_command_with_its_answer_and_its_exit_code() -> None:
    for words, code, said in (
        (["--version"], 0, bertworks.__version__),
        (["pretrian"], 2, "bertworks: there is no command 'pretrian' (did you mean pretrain?)"),
    ):
        with start(*words) as process:
            assert process.stdout is not None
            assert process.stdout.read().decode().startswith(said)
            assert process.wait() == code


def test_it_ends_when_its_input_is_closed_whatever_it_does(tmp_path: Path) -> None:
    (tmp_path / "text.txt").touch()
    os.truncate(tmp_path / "text.txt", 2**40)  # to read so many zeros takes very long
    with start("learn-vocab", tmp_path / "text.txt", "--out", tmp_path / "out") as process:
        assert process.stdin is not None
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(timeout=60) == 1
        assert process.stdout is not None
        assert b"bertworks: " not in process.stdout.read()  # it did not end by an error
