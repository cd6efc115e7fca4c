"""Torn checkpoints: every damage is found, and the checkpoint before is used.

There is no pointer to the newest checkpoint that could be missing or dangle: the newest whole
folder is the newest checkpoint.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bertworks.core import artifact
from bertworks.core.artifact import is_whole
from bertworks.training.run import whole_checkpoints

FILES = (
    "counters.json",
    "manifest.json",
    "model.safetensors",
    "optimizer.safetensors",
    "time.json",
)
NUM_CUTS, NUM_FLIPS = 20, 100
Words = Callable[..., list[str]]
Whole = Callable[..., Path]
IsSame = Callable[[Path, Path], bool]
Counted = Callable[..., None]


@pytest.fixture(scope="module")
def begun(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Kill a run that has two checkpoints."""
    out = tmp_path_factory.mktemp("torn") / "run"
    assert commands.run(pretrain(out), fate=make_fate("step", 8)).code < 0
    names = [path.name for path in whole_checkpoints(out)]
    assert names == ["step-00000003", "step-00000006"]
    return out


def cuts(data: bytes) -> Iterator[bytes]:
    """Cut a file short, at its ends and in between; an empty one is the shortest."""
    edges = {0, 1, 7, 8, 9, len(data) - 1}
    chance = random.Random(len(data))
    while len(edges) < NUM_CUTS + 1:
        edges.add(chance.randrange(len(data)))
    yield from (data[:edge] for edge in sorted(edges))


def flips(data: bytes) -> Iterator[bytes]:
    """Flip one bit."""
    for bit in random.Random(8).sample(range(8 * len(data)), NUM_FLIPS):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def missed(checkpoint: Path, name: str, damages: Iterator[bytes]) -> tuple[int, int]:
    """Damage a file in every way; return the tries, and how many passed for a whole checkpoint."""
    file = checkpoint / name
    data = file.read_bytes()
    results = []
    for damaged in damages:
        file.write_bytes(damaged)
        results.append(is_whole(checkpoint, "checkpoint"))
    file.unlink()
    results.append(is_whole(checkpoint, "checkpoint"))
    file.write_bytes(data)
    assert is_whole(checkpoint, "checkpoint")
    return len(results), sum(results)


@pytest.mark.shows("T4")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [cuts, flips])
def test_every_damage_to_a_file_is_found(
    name: str,
    damage: Callable[[bytes], Iterator[bytes]],
    begun: Path,
    counted: Counted,
    tmp_path: Path,
) -> None:
    checkpoint = shutil.copytree(whole_checkpoints(begun)[-1], tmp_path / "step")
    num_tries, num_missed = missed(checkpoint, name, damage((checkpoint / name).read_bytes()))
    counted(damages=num_tries, missed=num_missed)
    assert num_tries > 20
    assert num_missed == 0


@pytest.mark.shows("T4")
@pytest.mark.parametrize(
    "torn", ["cut", "empty", "flipped", "missing", "all missing", "two checkpoints"]
)
def test_a_run_with_a_torn_checkpoint_goes_on_from_the_one_before(
    torn: str,
    begun: Path,
    commands: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    counted: Counted,
    tmp_path: Path,
) -> None:
    out = shutil.copytree(begun, tmp_path / "run")
    tear(out, torn)
    ended = commands.run(pretrain(out))
    assert ended.code == 0, ended.said
    warnings = [line for line in ended.said.splitlines() if "is passed over" in line]
    num_torn = 2 if torn == "two checkpoints" else 1
    assert len(warnings) == num_torn
    assert ("resuming after step 3" in ended.said) is (num_torn == 1)
    counted(torn_runs=1)
    assert is_same(out, whole())


def tear(out: Path, torn: str) -> None:
    """Damage the newest checkpoint of a run, or both."""
    older, newer = whole_checkpoints(out)
    file = newer / "optimizer.safetensors"
    data = file.read_bytes()
    if torn == "missing":
        file.unlink()
    elif torn == "all missing":
        shutil.rmtree(newer)
        newer.mkdir()
    else:
        flipped = data[:-9] + bytes([data[-9] ^ 4]) + data[-8:]
        file.write_bytes({"empty": b"", "flipped": flipped}.get(torn, data[:1234]))
    if torn == "two checkpoints":
        (older / "counters.json").write_text("{}")


@pytest.mark.shows("T4")
def test_what_dead_processes_left_is_never_taken_for_a_checkpoint(
    begun: Path,
    commands: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    tmp_path: Path,
) -> None:
    out = shutil.copytree(begun, tmp_path / "run")
    checkpoints = out / "checkpoints"
    for step in (6, 7, 99):
        stale = checkpoints / f".step-{step:08d}.tmp-999999999"
        shutil.copytree(checkpoints / "step-00000006", stale)
    ended = commands.run(pretrain(out))
    assert ended.code == 0, ended.said
    assert "resuming after step 6" in ended.said
    assert is_same(out, whole())
    assert not list(checkpoints.glob(".*"))


@pytest.mark.control("T4")
def test_a_check_of_sizes_alone_would_miss_flipped_bits(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = shutil.copytree(whole_checkpoints(begun)[-1], tmp_path / "step")
    data = (checkpoint / "model.safetensors").read_bytes()

    def look_at_size(path: Path, expected: dict[str, Any], *, remedy: str) -> None:
        if not path.is_file() or path.stat().st_size != expected["size"]:
            raise artifact.ArtifactError(str(path))

    monkeypatch.setattr(artifact, "_verify", look_at_size)
    num_tries, num_missed = missed(checkpoint, "model.safetensors", flips(data))
    assert num_missed == num_tries - 1  # all but the missing file


@pytest.mark.control("T4")
def test_a_run_that_trusts_its_files_would_be_noticed(
    begun: Path,
    commands: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    tmp_path: Path,
) -> None:
    out = shutil.copytree(begun, tmp_path / "run")
    tear(out, "flipped")
    ended = commands.run(pretrain(out), switches=("trust_files",))
    assert ended.code != 0 or not is_same(out, whole())
