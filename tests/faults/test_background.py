"""Saving in the background: not a bit differs, whatever happens meanwhile."""

import hashlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.training.run import whole_checkpoints

BACKGROUND = ("save_in_background",)
SLOWLY = ("save_in_background", "sync_slowly")
CHECKPOINT_EVERY = 3
Words = Callable[..., list[str]]
Whole = Callable[..., Path]
IsSame = Callable[[Path, Path], bool]
Counted = Callable[..., None]


def checkpoints_of(out: Path) -> dict[str, str]:
    """Hash the tensors of every checkpoint and of all best weights."""
    files = [*whole_checkpoints(out), *(out / "best").iterdir()]
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in files
        for path in folder.glob("*.safetensors")
    }


@pytest.mark.shows("T10")
@pytest.mark.parametrize("switches", [BACKGROUND, SLOWLY], ids=["quickly", "slowly"])
def test_a_run_that_saves_in_the_background_ends_in_the_same_bits(
    switches: tuple[str, ...],
    commands: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    counted: Counted,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    ended = commands.run(pretrain(out, dropout=0.1), switches=switches)
    assert ended.code == 0, ended.said
    assert is_same(out, whole(dropout=0.1))
    assert checkpoints_of(out) == checkpoints_of(whole(dropout=0.1))
    counted(runs=1)


@pytest.mark.shows("T10")
def test_a_run_that_is_killed_while_it_saves_in_the_background_ends_in_the_same_bits(
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
    words = pretrain(out, dropout=0.1)
    for event, number in (("sync", 4), ("step", 7), ("rename", 2), ("write", 1), ("sync", 9)):
        ended = commands.run(words, fate=make_fate(event, number), switches=SLOWLY)
        assert ended.code == -signal.SIGKILL, ended.said
        # A save may be under way when the next is due, which then waits for it.
        assert num_lost(out) <= 2 * CHECKPOINT_EVERY
        counted(kills=1)
    assert commands.run(words, switches=SLOWLY).code == 0
    assert is_same(out, whole(dropout=0.1))


@pytest.mark.shows("T10")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_for_what_is_saved_in_the_background(
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
    words = pretrain(out, dropout=0.1)
    for step in (4, 9):
        ended = commands.run(words, fate=make_fate("step", step, number), switches=SLOWLY)
        assert ended.code == 128 + number, ended.said
        assert num_lost(out) == 0
        counted(signals=1)
    assert commands.run(words).code == 0
    assert is_same(out, whole(dropout=0.1))


@pytest.mark.control("T10")
def test_saving_the_very_tensors_that_go_on_learning_would_be_noticed(
    commands: Any, pretrain: Words, whole: Whole, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    switches = ("save_in_background", "copy_nothing")
    assert commands.run(pretrain(out, dropout=0.1), switches=switches).code == 0
    assert checkpoints_of(out) != checkpoints_of(whole(dropout=0.1))
