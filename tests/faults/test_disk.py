"""A disk that is full, fails or lies: one sentence, the last good checkpoint, and on again."""

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import bertworks
from bertworks.core import artifact
from bertworks.core.artifact import Origin
from bertworks.training.optimizer import make_optimizer
from bertworks.training.run import Counters, Run, whole_checkpoints

SOURCES = Path(bertworks.__file__).parents[1]
Words = Callable[..., list[str]]
Whole = Callable[..., Path]
IsSame = Callable[[Path, Path], bool]
Counted = Callable[..., None]


def is_unharmed(out: Path, before: list[Path]) -> bool:
    """Tell whether the checkpoints are those of before, and nothing half made is beside them."""
    folders = sorted(path for path in (out / "checkpoints").iterdir() if path.is_dir())
    return whole_checkpoints(out) == before == folders


def check_refused(ended: Any, reason: str) -> None:
    """See that a command failed with one clear sentence, in its last line."""
    assert ended.code == 1, ended.said
    assert "Traceback" not in ended.said
    sentences = [line for line in ended.said.splitlines() if line.startswith("bertworks: ")]
    assert sentences == ended.said.splitlines()[-1:]
    assert reason in sentences[0]
    assert "free some space" in sentences[0]


@pytest.mark.shows("T5")
@pytest.mark.parametrize(
    ("largest_file", "what"),
    [
        (700_000, "checkpoints/step-00000006: optimizer.safetensors"),
        (300_000, "model.safetensors"),
        (500, "log.jsonl"),
    ],
)
def test_a_full_disk_ends_the_run_with_one_sentence_and_loses_nothing(
    largest_file: int,
    what: str,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    counted: Counted,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    assert commands.run(pretrain(out), fate=make_fate("record", 5)).code < 0
    before = whole_checkpoints(out)
    assert len(before) == 1
    ended = commands.run(pretrain(out), largest_file=largest_file)
    check_refused(ended, "File too large")
    assert what in ended.said
    assert is_unharmed(out, before)
    assert not list(out.rglob(".*"))
    counted(full_disks=1)
    assert commands.run(pretrain(out)).code == 0
    assert is_same(out, whole())


@pytest.mark.shows("T5")
def test_a_full_disk_at_the_end_of_the_run_leaves_it_to_be_resumed(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    last = make_fate("rename", 13)
    assert commands.run(pretrain(out), fate=last).code < 0
    assert whole_checkpoints(out)[-1].name == "step-00000014"
    ended = commands.run(pretrain(out), largest_file=300_000)
    check_refused(ended, f"cannot write {out}: model.safetensors")
    assert not (out / "manifest.json").exists()
    assert not list(tmp_path.glob(".*"))
    assert commands.run(pretrain(out)).code == 0
    assert is_same(out, whole())


@pytest.mark.shows("T5")
def test_a_disk_that_is_full_at_once_leaves_nothing_half_written(
    commands: Any, pretrain: Words, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    check_refused(commands.run(pretrain(out), largest_file=300_000), "File too large")
    assert not list(out.rglob("*.safetensors"))
    assert commands.run(pretrain(out)).code == 0


@pytest.mark.shows("T5")
@pytest.mark.parametrize(
    ("event", "number", "switches"),
    [
        ("write", 2, ()),
        ("sync", 3, ()),
        ("rename", 3, ()),
        ("write", 1, ("save_in_background",)),
        ("sync", 8, ("save_in_background",)),
    ],
)
def test_a_disk_that_fails_ends_the_run_with_one_sentence_and_loses_nothing(
    event: str,
    number: int,
    switches: tuple[str, ...],
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    counted: Counted,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    assert commands.run(pretrain(out), fate=make_fate("record", 5)).code < 0
    before = whole_checkpoints(out)
    assert len(before) == 1
    fate = make_fate(event, number, error=errno.EIO)
    ended = commands.run(pretrain(out), fate=fate, switches=switches)
    check_refused(ended, "Input/output error")
    assert is_unharmed(out, before)
    counted(errors=1)
    assert commands.run(pretrain(out)).code == 0
    assert is_same(out, whole())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of two megabytes, where this is allowed; a limit on files stands in for it."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if (
        shutil.which("mount") is None
        or subprocess.run(mount, check=False, capture_output=True).returncode
    ):
        pytest.skip("this process may not mount a disk; the limits on the size of files remain")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.shows("T5")
def test_a_disk_that_is_really_full_ends_the_run_and_loses_nothing(
    commands: Any,
    pretrain: Words,
    whole: Whole,
    is_same: IsSame,
    counted: Counted,
    small_disk: Path,
    tmp_path: Path,
) -> None:
    out = small_disk / "run"
    ended = commands.run(pretrain(out))
    check_refused(ended, "o space left on device")
    assert whole_checkpoints(out)
    assert is_unharmed(out, whole_checkpoints(out))
    counted(full_disks=1)
    moved = shutil.copytree(out, tmp_path / "run")  # to where there is space
    assert commands.run(pretrain(moved)).code == 0
    assert is_same(moved, whole())


@pytest.mark.control("T5")
def test_a_save_in_place_that_fails_would_be_noticed(
    commands: Any, make_fate: Any, pretrain: Words, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert commands.run(pretrain(out), fate=make_fate("record", 5)).code < 0
    before = whole_checkpoints(out)
    fate = make_fate("write", 2, error=errno.EIO)
    assert commands.run(pretrain(out), fate=fate, switches=("write_in_place",)).code
    assert not is_unharmed(out, before)


# The order in which a checkpoint reaches the disk


@pytest.fixture
def learned() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Make a small model that has taken one step."""
    torch.manual_seed(3)
    model = nn.Linear(3, 5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = make_optimizer(model, lr=0.1, weight_decay=0.1)
    optimizer.step()
    return model, optimizer


def order_of_a_save(folder: Path, learned: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what is synced and renamed while a checkpoint is saved."""
    run = Run(folder, origin=Origin(), resume=False)
    run.record({"step": 1})
    events = []
    sync, rename = os.fsync, os.rename

    def note_sync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        events.append(f"sync {path.name.partition('.tmp-')[0]}")
        sync(handle)

    def note_rename(source: Path, target: Path) -> None:
        events.append(f"rename {Path(source).name.partition('.tmp-')[0]} {Path(target).name}")
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", note_sync)
        patch.setattr(os, "rename", note_rename)
        run.save(*learned, Counters(1))
    return events


def is_durable(events: list[str]) -> bool:
    """Tell whether files are synced before their manifest, and all before the name appears."""
    return events == [
        "sync log.jsonl",
        "sync counters.json",
        "sync model.safetensors",
        "sync optimizer.safetensors",
        "sync time.json",
        "sync manifest.json",
        "sync .step-00000001",
        "rename .step-00000001 step-00000001",
        "sync checkpoints",
    ]


@pytest.mark.shows("T6")
def test_a_checkpoint_reaches_the_disk_before_its_name_does(
    learned: Any, counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = order_of_a_save(tmp_path / "run", learned, monkeypatch)
    assert is_durable(events)
    counted(calls=len(events))


@pytest.mark.slow
@pytest.mark.shows("T6")
def test_the_kernel_sees_the_same_order(counted: Counted, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed; the order as the process calls it is tested")
    events = traced(tmp_path)
    if events is None:
        pytest.skip("this process may not be traced; the order as it calls is tested")
    assert is_durable(events)
    counted(calls=len(events))


SAVE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from torch import nn
from bertworks.core.artifact import Origin
from bertworks.training.optimizer import make_optimizer
from bertworks.training.run import Counters, Run
model = nn.Linear(3, 5)
optimizer = make_optimizer(model, lr=0.1, weight_decay=0.1)
model(torch.ones(3)).sum().backward()
optimizer.step()
run = Run(Path(sys.argv[2]), origin=Origin(), resume=False)
run.record({"step": 1})
run.save(model, optimizer, Counters(1))
"""


def traced(folder: Path) -> list[str] | None:
    """Save a checkpoint in a traced process; return its syncs and renames as the kernel saw."""
    trace = folder / "trace"
    calls = "trace=fsync,fdatasync,rename,renameat,renameat2"
    command = ["strace", "-f", "-y", "-s", "500", "-e", calls, "-o", str(trace), sys.executable]
    words = ["-c", SAVE, str(SOURCES), str(folder / "run")]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr.lower():
        return None
    assert done.returncode == 0, done.stderr
    events = []
    for line in trace.read_text().splitlines():
        if found := re.search(r"f(?:data)?sync\(\d+<([^>]+)>", line):
            events.append(f"sync {Path(found[1]).name.partition('.tmp-')[0]}")
        elif "rename" in line:
            source, target = (Path(name).name for name in re.findall(r'"([^"]+)"', line))
            if not target.endswith(".safetensors"):  # within the temporary folder
                events.append(f"rename {source.partition('.tmp-')[0]} {target}")
    return events


@pytest.mark.control("T6")
def test_another_order_would_be_noticed(
    learned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = order_of_a_save(tmp_path / "run", learned, monkeypatch)
    for place in range(1, len(events)):
        swapped = [*events[: place - 1], events[place], events[place - 1], *events[place + 1 :]]
        assert not is_durable(swapped)
        assert not is_durable(events[:place] + events[place + 1 :])


@pytest.mark.control("T6")
def test_a_folder_that_is_not_synced_would_be_noticed(
    learned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact, "sync_folder", lambda folder: None)
    assert not is_durable(order_of_a_save(tmp_path / "run", learned, monkeypatch))
