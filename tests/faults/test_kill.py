"""`kill -9` at any moment: the run goes on by itself and ends in the same bits."""

import itertools
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bertworks
from bertworks.training.run import whole_checkpoints

SOURCES = Path(bertworks.__file__).parents[1]
CHECKPOINT_EVERY = 3
SYNCS_PER_SAVE = 7
Words = Callable[..., list[str]]
Whole = Callable[..., Path]
Outcome = Callable[[Path], dict[str, str]]
# Mid-epoch, at its edge, one step after a resume; while a file, a manifest, a folder is written;
# between the names of a new checkpoint and of an old one; while the model is put in its place.
KILLS = (
    ("record", 2),
    ("sync", 4),
    ("record", 1),
    ("write", 2),
    ("rename", 3),
    ("unlink", 3),
    ("restore", 1),
    ("sync", 6),
)
CELLS = list(itertools.product((0.0, 0.1), (1, 4), (0, 2, 4), (True, False)))
SHORT_CELLS = [(0.1, 4, 2, True), (0.0, 1, 0, False), (0.1, 1, 2, False), (0.0, 4, 0, True)]


def check_killed(commands: Any, words: list[str], fate: Any, out: Path, num_lost: Any) -> bool:
    """Run until killed; tell whether it was, and check that little was lost."""
    ended = commands.run(words, fate=fate)
    assert ended.code in (0, -signal.SIGKILL), ended.said
    assert ended.code == 0 or num_lost(out) <= CHECKPOINT_EVERY
    return ended.code != 0


def test_a_run_killed_again_and_again_ends_in_the_same_bits(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, dropout=0.1)
    for event, number in KILLS:
        assert check_killed(commands, words, make_fate(event, number), out, num_lost)
    ended = commands.run(words)
    assert ended.code == 0, ended.said
    assert outcome(out) == outcome(whole(dropout=0.1))
    left = [path.name for path in out.rglob(".*")] + [path.name for path in tmp_path.glob(".*")]
    assert not left


@pytest.mark.parametrize("nth", range(1, SYNCS_PER_SAVE + 2))
def test_a_kill_at_any_sync_of_a_save_is_survived(
    nth: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words = pretrain(out)
    first_save = SYNCS_PER_SAVE
    fate = make_fate("sync", first_save + nth)  # in the second save, or just behind it
    assert check_killed(commands, words, fate, out, num_lost)
    assert len(whole_checkpoints(out)) >= 1
    assert commands.run(words).code == 0
    assert outcome(out) == outcome(whole())


def test_a_run_killed_again_in_the_first_save_after_each_resume_goes_on(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words = pretrain(out)
    assert check_killed(commands, words, make_fate("record", 5), out, num_lost)
    for nth in (3, 5, 8):  # the first sync is that of the log, cut back
        assert check_killed(commands, words, make_fate("sync", nth), out, num_lost)
    assert commands.run(words).code == 0
    assert outcome(out) == outcome(whole())


def test_a_kill_while_the_finished_model_is_put_in_its_place_is_survived(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    tmp_path: Path,
) -> None:
    begun = tmp_path / "begun"
    fate = make_fate("record", 14 + 3)  # steps and evaluations: just before the last checkpoint
    assert commands.run(pretrain(begun), fate=fate).code == -signal.SIGKILL
    num_half_placed = 0
    for nth in range(4, 20):
        out = shutil.copytree(begun, tmp_path / f"killed-{nth}")
        ended = commands.run(pretrain(out), fate=make_fate("rename", nth))
        assert ended.code == -signal.SIGKILL, ended.said
        if (out / "manifest.json").exists():
            break
        if {path.name for path in out.iterdir()} > {"best", "checkpoints", "log.jsonl"}:
            num_half_placed += 1
            assert commands.run(pretrain(out)).code == 0
            assert outcome(out) == outcome(whole())
    assert num_half_placed >= 4  # the files of a model, before its manifest
    assert outcome(out) == outcome(whole())


@pytest.mark.parametrize("cell", SHORT_CELLS, ids=str)
def test_every_kind_of_run_ends_in_the_same_bits(
    cell: tuple[float, int, int, bool],
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    check_cell(cell, commands, make_fate, pretrain, whole, outcome, num_lost, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell not in SHORT_CELLS], ids=str)
def test_every_other_kind_of_run_ends_in_the_same_bits(
    cell: tuple[float, int, int, bool],
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    check_cell(cell, commands, make_fate, pretrain, whole, outcome, num_lost, tmp_path)


def check_cell(
    cell: tuple[float, int, int, bool],
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    """Kill a run in mid-epoch, in a save, and one step after a resume."""
    dropout, accumulate, workers, pairs = cell
    out = tmp_path / "run"
    kind = {"dropout": dropout, "accumulate": accumulate, "next_sentence": pairs}
    words = pretrain(out, **kind, workers=workers)
    for event, number in (("record", 5), ("sync", 4), ("record", 1)):
        assert check_killed(commands, words, make_fate(event, number), out, num_lost)
    ended = commands.run(words)
    assert ended.code == 0, ended.said
    assert outcome(out) == outcome(whole(**kind))  # made without workers, whatever is here


def test_the_number_of_workers_may_change_on_the_way(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    for workers in (2, 0, 3):
        words = pretrain(out, workers=workers)
        assert commands.run(words, fate=make_fate("record", 4)).code == -signal.SIGKILL
    assert commands.run(pretrain(out, workers=1)).code == 0
    assert outcome(out) == outcome(whole())


def test_a_command_of_its_own_killed_from_outside_ends_in_the_same_bits(
    pretrain: Words, whole: Whole, outcome: Outcome, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "bertworks", *pretrain(out, dropout=0.1)]
    for num_lines in (4, 9):
        process = subprocess.Popen(command, cwd=SOURCES, stderr=subprocess.DEVNULL)
        while process.poll() is None and num_lines_of(out / "log.jsonl") < num_lines:
            time.sleep(0.001)
        process.kill()
        process.wait()
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, check=False)
    assert done.returncode == 0 or b"holds a finished run" in done.stderr, done.stderr
    assert outcome(out) == outcome(whole(dropout=0.1))


def num_lines_of(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


@pytest.mark.slow
def test_a_hundred_kills_at_random_moments_are_survived(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    chance = random.Random(6)
    expected = outcome(whole(dropout=0.1))
    kills: Counter[str] = Counter()
    for number in itertools.count():
        if kills.total() >= 100 and kills.total() - kills["seconds"] >= 30:
            break
        out = tmp_path / f"run-{number}"
        words = pretrain(out, dropout=0.1)
        for _ in range(7):
            fate = random_fate(make_fate, chance)
            kills[fate.event] += check_killed(commands, words, fate, out, num_lost)
            if (out / "manifest.json").exists():
                break
        else:
            assert commands.run(words).code == 0
        assert outcome(out) == expected


def random_fate(make_fate: Any, chance: random.Random) -> Any:
    """Draw a moment: any time, or an event inside a save."""
    if chance.random() < 0.5:
        return make_fate("seconds", chance.uniform(0.02, 0.5))
    event = chance.choice(("sync", "write", "rename", "unlink"))
    return make_fate(event, chance.randint(2, 12))


# The controls


def test_another_seed_would_be_noticed(whole: Whole, outcome: Outcome) -> None:
    same, other = outcome(whole()), outcome(whole(seed=1))
    assert same.keys() == other.keys()
    for name in ("model.safetensors", "log.jsonl", "best/model.safetensors"):
        assert same[name] != other[name]


def test_dropout_that_forgets_its_seed_would_be_noticed(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, dropout=0.1)
    assert commands.run(words, fate=make_fate("record", 8)).code == -signal.SIGKILL
    assert commands.run(words, forgetful=True).code == 0
    assert outcome(out)["log.jsonl"] != outcome(whole(dropout=0.1))["log.jsonl"]
