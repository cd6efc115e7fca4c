"""`kill -9` at any moment: the run goes on by itself and ends in the same bits."""

import itertools
import random
import shutil
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

SOURCES = Path(bertworks.__file__).parents[1]
CHECKPOINT_EVERY = 3
SYNCS_PER_SAVE = 8
Words = Callable[..., list[str]]
Whole = Callable[..., Path]
Outcome = Callable[[Path], dict[str, str]]
IsSame = Callable[[Path, Path], bool]
Ledger = Callable[[Path], dict[int, list[int]]]
Counted = Callable[..., None]
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
SHORT_CELLS = [(0.1, 4, 2, True), (0.0, 1, 0, False)]
OTHER_KINDS = (
    {"average": 0.9, "optimizer": "muon"},
    {"optimizer": "lamb", "schedule": "cosine"},
    {"objectives": ("replaced_token",)},
    {"objectives": ("replaced_token",), "shared_table": "generator"},
    {"objectives": ("fill_mask", "next_piece"), "causal_share": 0.4},
    {"objectives": ("fill_mask", "sentence_order"), "mask_rate": "0.3..0.15"},
    {"batch_tokens": "200..400", "short_longest": 16, "mask_kind": "word"},
)


def check_killed(
    commands: Any, words: list[str], fate: Any, out: Path, num_lost: Any, **how: Any
) -> bool:
    """Run until killed; tell whether it was, and check that little was lost."""
    ended = commands.run(words, fate=fate, **how)
    assert ended.code in (0, -signal.SIGKILL), ended.said
    assert ended.code == 0 or num_lost(out) <= CHECKPOINT_EVERY
    return ended.code != 0


def is_inside_a_save(out: Path) -> bool:
    """Tell whether a killed run left a checkpoint half made."""
    return any(out.rglob(".*.tmp-*"))


# At any moment


@pytest.mark.shows("T1")
def test_a_run_killed_again_and_again_ends_in_the_same_bits(
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
    for event, number in KILLS:
        assert check_killed(commands, words, make_fate(event, number), out, num_lost)
        counted(kills=1, in_a_save=is_inside_a_save(out))
    ended = commands.run(words)
    assert ended.code == 0, ended.said
    assert is_same(out, whole(dropout=0.1))
    left = [path.name for path in out.rglob(".*")] + [path.name for path in tmp_path.glob(".*")]
    assert not left


@pytest.mark.shows("T1")
@pytest.mark.parametrize("nth", range(1, SYNCS_PER_SAVE + 2))
def test_a_kill_at_any_sync_of_a_save_is_survived(
    nth: int,
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
    words = pretrain(out)
    first_save = SYNCS_PER_SAVE
    fate = make_fate("sync", first_save + nth)  # in the second save, or just behind it
    assert check_killed(commands, words, fate, out, num_lost)
    counted(kills=1, in_a_save=is_inside_a_save(out))
    assert len(whole_checkpoints(out)) >= 1
    assert commands.run(words).code == 0
    assert is_same(out, whole())


@pytest.mark.shows("T1")
def test_a_kill_while_the_finished_model_is_put_in_its_place_is_survived(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    counted: Counted,
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
        counted(kills=1)
        if (out / "manifest.json").exists():
            break
        if {path.name for path in out.iterdir()} > {"best", "checkpoints", "log.jsonl"}:
            num_half_placed += 1
            assert commands.run(pretrain(out)).code == 0
            assert is_same(out, whole())
    assert num_half_placed >= 4  # the files of a model, before its manifest
    assert is_same(out, whole())


@pytest.mark.shows("T1")
def test_a_command_of_its_own_killed_from_outside_ends_in_the_same_bits(
    pretrain: Words, whole: Whole, is_same: IsSame, counted: Counted, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "bertworks", *pretrain(out, dropout=0.1)]
    process = subprocess.Popen(command, cwd=SOURCES, stderr=subprocess.DEVNULL)
    while process.poll() is None and num_lines_of(out / "log.jsonl") < 4:
        time.sleep(0.001)
    process.kill()
    process.wait()
    counted(kills=1)
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, check=False)
    assert done.returncode == 0 or b"holds a finished run" in done.stderr, done.stderr
    assert is_same(out, whole(dropout=0.1))


def num_lines_of(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


@pytest.mark.slow
@pytest.mark.shows("T1")
def test_a_hundred_kills_at_random_moments_are_survived(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    num_lost: Callable[[Path], int],
    counted: Counted,
    tmp_path: Path,
) -> None:
    chance = random.Random(6)
    num_kills = num_in_saves = 0
    for number in itertools.count():
        if num_kills >= 100 and num_in_saves >= 30:
            break
        out = tmp_path / f"run-{number}"
        words = pretrain(out, dropout=0.1)
        while not (out / "manifest.json").exists():
            fate = make_fate("seconds", chance.uniform(0.02, 0.8))
            is_killed = check_killed(
                commands, words, fate, out, num_lost, switches=("sync_slowly",)
            )
            num_kills += is_killed
            num_in_saves += is_killed and is_inside_a_save(out)
        assert is_same(out, whole(dropout=0.1))
    counted(kills=num_kills, in_a_save=num_in_saves)


@pytest.mark.control("T1")
def test_another_seed_would_be_noticed(whole: Whole, outcome: Outcome, is_same: IsSame) -> None:
    assert is_same(whole(), whole())
    same, other = outcome(whole()), outcome(whole(seed=1))
    assert same.keys() == other.keys()
    for name in ("model.safetensors", "log.jsonl", "best/model.safetensors"):
        assert same[name] != other[name]


@pytest.mark.control("T1")
def test_dropout_that_forgets_its_seed_would_be_noticed(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words = pretrain(out, dropout=0.1)
    assert commands.run(words, fate=make_fate("record", 8)).code == -signal.SIGKILL
    assert commands.run(words, switches=("forget_seeds",)).code == 0
    assert not is_same(out, whole(dropout=0.1))


# Every kind of run


def edge_of(ledger: dict[int, list[int]]) -> int:
    """Return the last step before a text comes for the second time."""
    seen: set[int] = set()
    for step, ids in ledger.items():
        if seen & set(ids):
            return step - 1
        seen |= set(ids)
    raise AssertionError("the run ends within its first epoch")


def check_kind(
    kind: dict[str, Any],
    workers: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    read_ledger: Ledger,
    counted: Counted,
    tmp_path: Path,
    switches: tuple[str, ...] = (),
) -> bool:
    """Kill a run one step after it began, in mid-epoch, at its edge, in a save, after a resume."""
    expected = whole(**kind)  # made without workers, whatever is here
    edge = edge_of(read_ledger(expected.parent / "ledger.jsonl"))
    out = tmp_path / "run"
    words = pretrain(out, **kind, workers=workers)
    moments = (("step", edge - 2), ("step", edge), ("sync", 4), ("record", 1))
    for event, number in moments:
        ended = commands.run(words, fate=make_fate(event, number))
        assert ended.code == -signal.SIGKILL, ended.said
    counted(kinds=1, kills=len(moments))
    ended = commands.run(words, switches=switches)
    assert ended.code == 0, ended.said
    return is_same(out, expected)


def as_kind(cell: tuple[float, int, int, bool]) -> dict[str, Any]:
    dropout, accumulate, _, pairs = cell
    objectives = ("fill_mask", "next_sentence") if pairs else ("fill_mask",)
    return {"dropout": dropout, "accumulate": accumulate, "objectives": objectives}


@pytest.fixture
def survives(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    read_ledger: Ledger,
    counted: Counted,
    tmp_path: Path,
) -> Callable[..., bool]:
    """Tell whether a kind of run, killed here and there, ends in the same bits."""

    def check(kind: dict[str, Any], workers: int, switches: tuple[str, ...] = ()) -> bool:
        return check_kind(
            kind,
            workers,
            commands,
            make_fate,
            pretrain,
            whole,
            is_same,
            read_ledger,
            counted,
            tmp_path,
            switches,
        )

    return check


@pytest.mark.shows("T2")
@pytest.mark.parametrize("cell", SHORT_CELLS, ids=str)
def test_every_kind_of_run_ends_in_the_same_bits(
    cell: tuple[float, int, int, bool], survives: Callable[..., bool]
) -> None:
    assert survives(as_kind(cell), cell[2])


@pytest.mark.slow
@pytest.mark.shows("T2")
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell not in SHORT_CELLS], ids=str)
def test_every_other_kind_of_run_ends_in_the_same_bits(
    cell: tuple[float, int, int, bool], survives: Callable[..., bool]
) -> None:
    assert survives(as_kind(cell), cell[2])


@pytest.mark.shows("T2")
def test_a_run_with_an_average_and_another_optimizer_ends_in_the_same_bits(
    survives: Callable[..., bool],
) -> None:
    assert survives(OTHER_KINDS[0], 0)


@pytest.mark.slow
@pytest.mark.shows("T2")
@pytest.mark.parametrize("kind", OTHER_KINDS[1:], ids=str)
def test_runs_with_other_objectives_and_ramps_end_in_the_same_bits(
    kind: dict[str, Any], survives: Callable[..., bool]
) -> None:
    assert survives(kind, 2)


@pytest.mark.control("T2")
def test_an_order_that_forgets_its_seed_would_be_noticed(survives: Callable[..., bool]) -> None:
    assert not survives(as_kind((0.0, 1, 0, False)), 0, ("forget_order",))


# Again and again in the first save


def check_killed_in_first_saves(
    moments: tuple[int, ...],
    commands: Any,
    make_fate: Any,
    words: list[str],
    out: Path,
    num_lost: Callable[[Path], int],
) -> None:
    """Kill a run, and then each resume in its first save, at these syncs."""
    assert check_killed(commands, words, make_fate("record", 5), out, num_lost)
    for nth in moments:  # the first sync is that of the log, cut back
        assert check_killed(commands, words, make_fate("sync", nth), out, num_lost)


@pytest.mark.shows("T3")
def test_a_run_killed_again_in_the_first_save_after_each_resume_goes_on(
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
    words = pretrain(out)
    check_killed_in_first_saves((3, 5, 8), commands, make_fate, words, out, num_lost)
    counted(double_and_triple=1)
    assert commands.run(words).code == 0
    assert is_same(out, whole())


@pytest.mark.slow
@pytest.mark.shows("T3")
@pytest.mark.parametrize("count", [1, 2])
def test_double_and_triple_kills_at_every_sync_of_the_first_save_are_survived(
    count: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    num_lost: Callable[[Path], int],
    counted: Counted,
    tmp_path: Path,
) -> None:
    syncs = range(2, SYNCS_PER_SAVE + 2)
    for moments in itertools.product(syncs, repeat=count):
        out = tmp_path / str(moments)
        words = pretrain(out)
        check_killed_in_first_saves(moments, commands, make_fate, words, out, num_lost)
        counted(double_and_triple=1)
        assert commands.run(words).code == 0
        assert is_same(out, whole())


@pytest.mark.control("T3")
def test_checkpoints_written_in_place_and_trusted_would_be_noticed(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    num_lost: Callable[[Path], int],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    words, broken = pretrain(out), ("write_in_place", "trust_files")
    assert commands.run(words, fate=make_fate("record", 5), switches=broken).code < 0
    fate = make_fate("write", 2)
    assert commands.run(words, fate=fate, switches=broken).code < 0
    ended = commands.run(words, switches=broken)
    assert ended.code != 0  # it takes the torn checkpoint for a good one
