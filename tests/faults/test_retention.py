"""What is kept: two good checkpoints, and one at the least whenever the run is killed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.training.run import KEPT_CHECKPOINTS, whole_checkpoints

Words = Callable[..., list[str]]
Counted = Callable[..., None]
FEW = (("rename", 1), ("sync", 5), ("unlink", 1), ("unlink", 4), ("unlink", 6), ("write", 1))
ALL = [
    *(("rename", number) for number in range(1, 6)),
    *(("sync", number) for number in range(1, 20)),
    *(("unlink", number) for number in range(1, 14)),
    *(("write", number) for number in range(1, 8)),
]


@pytest.fixture(scope="module")
def begun(
    commands: Any, make_fate: Any, pretrain: Words, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Kill a run in its eleventh step, when old checkpoints have begun to go."""
    out = tmp_path_factory.mktemp("kept") / "run"
    fate = make_fate("step", 11)
    assert commands.run(pretrain(out, checkpoint_every=1), fate=fate).code < 0
    assert len(whole_checkpoints(out)) >= KEPT_CHECKPOINTS
    return out


def num_good_at_worst(
    commands: Any,
    make_fate: Any,
    words: list[str],
    begun: Path,
    out: Path,
    *,
    moments: Any,
    switches: tuple[str, ...] = (),
) -> tuple[int, int]:
    """Kill the run at each of these moments; return the kills, and the fewest good checkpoints."""
    counts = []
    for event, number in moments:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(begun, out)
        ended = commands.run(words, fate=make_fate(event, number), switches=switches)
        if ended.code < 0:
            counts.append(len(whole_checkpoints(out)))
    return len(counts), min(counts)


@pytest.mark.shows("T8")
@pytest.mark.parametrize("moments", [FEW, pytest.param(ALL, marks=pytest.mark.slow)], ids=len)
def test_at_every_kill_good_checkpoints_are_left(
    moments: Any,
    begun: Path,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    counted: Counted,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, checkpoint_every=1)
    num_kills, fewest = num_good_at_worst(commands, make_fate, words, begun, out, moments=moments)
    counted(kills=num_kills)
    assert num_kills >= len(moments) * 2 // 3
    assert fewest >= KEPT_CHECKPOINTS


@pytest.mark.shows("T8")
def test_two_good_checkpoints_are_there_at_the_end(whole: Callable[..., Path]) -> None:
    assert len(whole_checkpoints(whole())) >= KEPT_CHECKPOINTS == 2


@pytest.mark.control("T8")
def test_making_room_before_saving_would_be_noticed(
    begun: Path, commands: Any, make_fate: Any, pretrain: Words, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, checkpoint_every=1)
    num_kills, fewest = num_good_at_worst(
        commands, make_fate, words, begun, out, moments=FEW, switches=("delete_first",)
    )
    assert num_kills >= 4
    assert fewest == 0
