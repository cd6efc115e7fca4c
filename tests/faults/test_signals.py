"""SIGTERM, SIGINT and SIGHUP: the step at hand is saved, the exit code tells, nothing is lost."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bertworks
from bertworks.training.run import whole_checkpoints

pytestmark = pytest.mark.usefixtures("hears_signals")
SOURCES = Path(bertworks.__file__).parents[1]
EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
Words = Callable[..., list[str]]
Whole = Callable[..., Path]
IsSame = Callable[[Path, Path], bool]
Counted = Callable[..., None]


def check_stopped(ended: Any, number: int, out: Path, num_lost: Callable[[Path], int]) -> None:
    assert ended.code == EXIT_CODES[signal.Signals(number)], ended.said
    step = int(whole_checkpoints(out)[-1].name[5:])
    last = ended.said.splitlines()[-1]
    expected = f"bertworks: stopped by a signal after step {step}; continue with --resume auto"
    assert last == expected
    assert num_lost(out) == 0


def check_stopped_or_over(
    ended: Any, number: int, out: Path, num_lost: Callable[[Path], int]
) -> None:
    """When the last step is saved, there is nothing left to save: the signal ends the command."""
    if whole_checkpoints(out)[-1].name != "step-00000014":
        check_stopped(ended, number, out, num_lost)
    assert ended.code in (-number, EXIT_CODES[signal.Signals(number)])
    assert "Traceback" not in ended.said
    assert num_lost(out) == 0


@pytest.mark.shows("T7")
@pytest.mark.parametrize("number", EXIT_CODES)
def test_a_signal_saves_the_step_at_hand_and_the_run_goes_on_from_there(
    number: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    num_lost: Callable[[Path], int],
    counted: Counted,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, dropout=0.1, checkpoint_every=100)
    for event, nth in (("step", 2), ("step", 7), ("write", 1)):
        ended = commands.run(words, fate=make_fate(event, nth, number))
        check_stopped(ended, number, out, num_lost)
        assert event != "step" or whole_checkpoints(out)[-1].name == f"step-{nth:08d}"
        counted(signals=1)
    assert commands.run(words).code == 0
    assert is_same(out, whole(dropout=0.1))


@pytest.mark.shows("T7")
@pytest.mark.parametrize("number", EXIT_CODES)
def test_a_signal_before_the_first_step_ends_the_command_and_loses_nothing(
    number: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    assert commands.run(pretrain(out), fate=make_fate("record", 4)).code == -signal.SIGKILL
    before = whole_checkpoints(out)
    ended = commands.run(pretrain(out), fate=make_fate("restore", 1, number))
    assert ended.code in (-number, EXIT_CODES[signal.Signals(number)])
    assert "Traceback" not in ended.said
    assert whole_checkpoints(out) == before
    assert commands.run(pretrain(out)).code == 0
    assert is_same(out, whole())


@pytest.mark.shows("T7")
@pytest.mark.parametrize("number", EXIT_CODES)
@pytest.mark.parametrize("nth", [2, 5])
def test_a_signal_in_the_middle_of_a_save_waits_for_its_end(
    number: int,
    nth: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    ended = commands.run(pretrain(out), fate=make_fate("sync", nth, number))
    check_stopped(ended, number, out, num_lost)
    assert commands.run(pretrain(out)).code == 0
    assert is_same(out, whole())


@pytest.mark.shows("T7")
@pytest.mark.parametrize("number", EXIT_CODES)
def test_a_signal_to_the_workers_too_saves_the_step_at_hand(
    number: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, workers=2)
    fate = make_fate("record", 4, number, "group")  # as a terminal or a scheduler sends it
    check_stopped(commands.run(words, fate=fate), number, out, num_lost)
    assert commands.run(words).code == 0
    assert is_same(out, whole())


@pytest.mark.shows("T7")
def test_a_command_of_its_own_ends_with_its_workers(
    pretrain: Words, num_lost: Callable[[Path], int], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, workers=2, steps=1_000_000, evaluate_every=1_000_000)
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "bertworks", *words],
            cwd=SOURCES,
            stderr=said,
            start_new_session=True,
        )
        log = out / "log.jsonl"
        while process.poll() is None and not (log.exists() and log.stat().st_size):
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        said.seek(0)
        assert "stopped by a signal" in said.read()
    assert process.returncode == EXIT_CODES[signal.SIGTERM]
    assert num_lost(out) == 0
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.shows("T7")
@pytest.mark.slow
def test_fifty_signals_at_random_moments_lose_nothing(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    num_lost: Callable[[Path], int],
    counted: Counted,
    tmp_path: Path,
) -> None:
    chance = random.Random(9)
    num_stops = 0
    while num_stops < 50:
        out = tmp_path / f"after-{num_stops}"
        words = pretrain(out, dropout=0.1, workers=chance.choice((0, 2)))
        while not (out / "manifest.json").exists():
            number = chance.choice(list(EXIT_CODES))
            event = chance.choice(("record", "sync", "rename"))
            fate = make_fate(
                event, chance.randint(2, 5), number, chance.choice(("process", "group"))
            )
            ended = commands.run(words, fate=fate)
            if ended.code:
                check_stopped_or_over(ended, number, out, num_lost)
                num_stops += 1
        assert is_same(out, whole(dropout=0.1))
    counted(signals=num_stops)


@pytest.mark.control("T7")
@pytest.mark.parametrize("number", EXIT_CODES)
def test_a_run_that_is_deaf_to_signals_would_be_noticed(
    number: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    fate = make_fate("step", 5, number)
    ended = commands.run(pretrain(out), fate=fate, switches=("be_deaf",))
    with pytest.raises(AssertionError):
        check_stopped(ended, number, out, num_lost)
    assert num_lost(out) == 2
