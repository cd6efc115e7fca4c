"""Several processes train one model: they decide alike, and the end of one loses nothing."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import bertworks
from bertworks.cli.main import main
from bertworks.core.crew import Crew
from bertworks.core.errors import ArtifactError
from bertworks.stages import pretrain_plan
from bertworks.tasks.task import TaskModel
from bertworks.training import run as run_module
from bertworks.training import together
from bertworks.training.descent import Descent
from bertworks.training.log import read_log
from bertworks.training.run import Run, whole_checkpoints
from bertworks.training.sharding import own_rows, read_parts

SOURCES = str(Path(bertworks.__file__).parents[1])
PARTS = {"accumulate": 4, "dropout": 0.1, "lost_after": 60}
Words = Callable[..., list[str]]
Whole = Callable[..., Path]
Counted = Callable[..., None]


def call(rank: int, words: list[str], faults: dict[str, Any]) -> Any:
    """Run a command in one of several processes; tell how it ended and what was learned from."""
    steps: list[int] = []
    note_updates(steps)
    for name, value in faults.items():
        name, _, wanted = name.partition("@")
        if not wanted or int(wanted) == rank:
            FAULTS[name](value)
    try:
        main(words)
    except SystemExit as end:
        return {"code": end.code, "updates": len(steps), "weights": steps[-1:]}


def note_updates(steps: list[Any]) -> None:
    """Note a fingerprint of the weights after each update."""
    move = Descent.step

    def noting(descent: Descent, rate: float, *, number: int) -> None:
        move(descent, rate, number=number)
        weights = b"".join(own_rows(p.data).numpy().tobytes() for p in descent.model.parameters())
        steps.append(hashlib.sha256(weights).hexdigest())

    Descent.step = noting  # type: ignore[method-assign]


def poison(step: int) -> None:
    """Let the loss of the first part of a step be no number, in this process."""
    forward, num_calls = TaskModel.forward, 0

    def poisoned(model: TaskModel, batch: Any) -> Any:
        nonlocal num_calls
        num_calls += model.training
        losses = forward(model, batch)
        bad = float("nan") if num_calls == 2 * step - 1 else 0.0  # two parts a step
        return {name: loss + bad for name, loss in losses.items()}

    TaskModel.forward = poisoned  # type: ignore[method-assign]


def strike_at_step(how: list[int]) -> None:
    """Send this process a signal when a step is done."""
    step, signal_number = how
    record = Run.record

    def recording(run: Run, entry: dict[str, Any]) -> None:
        record(run, entry)
        if entry["step"] == step and "lr" in entry:
            os.kill(os.getpid(), signal_number)

    Run.record = recording  # type: ignore[method-assign]


def strike_in_save(number: int, *, patience: float = 0) -> None:
    """Kill this process when it has written half of its n-th file, or when that is published."""
    write, num_files = run_module.write_tensors, 0

    def tearing(path: Path, tensors: Any) -> None:
        nonlocal num_files
        write(path, tensors)
        num_files += 1
        if num_files == number:
            os.truncate(path, path.stat().st_size // 2)
            last = time.monotonic() + patience
            while path.exists() and time.monotonic() < last:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

    run_module.write_tensors = tearing


def strike_when_published(number: int) -> None:
    """Leave half of the n-th file, and die only when the others had time to publish it."""
    strike_in_save(number, patience=20)


def refuse_writing(number: int) -> None:
    """Let the disk refuse this process its n-th file."""
    write, num_files = run_module.write_tensors, 0

    def refusing(path: Path, tensors: Any) -> None:
        nonlocal num_files
        num_files += 1
        if num_files == number:
            raise OSError(28, os.strerror(28))
        write(path, tensors)

    run_module.write_tensors = refusing


def hurry(times: float) -> None:
    """Let the clock of this process run so many times as fast."""
    clock = time.monotonic
    pretrain_plan.time = SimpleNamespace(monotonic=lambda: times * clock())  # type: ignore[assignment]


def listen_to_nobody(value: bool) -> None:
    """Judge a step by one's own losses and gradients."""
    Crew.sum = lambda crew, numbers: list(numbers)  # type: ignore[method-assign]
    Crew.add_up = lambda crew, tensors: None  # type: ignore[method-assign]
    Crew.gather = lambda crew, value: [value]  # type: ignore[method-assign]


def wait_for_nobody(value: bool) -> None:
    """Publish all checkpoints but the first without asking whether the others are done."""
    all_well = together._all_well

    @contextmanager
    def hasty(folder: Path, writers: Crew) -> Any:
        if folder.name != "step-00000003":
            yield
            return
        with all_well(folder, writers):
            yield

    together._all_well = hasty


FAULTS = {
    function.__name__: function
    for function in (
        poison,
        strike_at_step,
        strike_in_save,
        strike_when_published,
        refuse_writing,
        hurry,
        listen_to_nobody,
        wait_for_nobody,
    )
}


@pytest.fixture
def together_run(crews: Any, pretrain: Words) -> Callable[..., list[Any]]:
    """Run a pre-training in several processes, with faults in all or, as `name@rank`, in one."""

    def start(out: Path, *, size: int, faults: dict[str, Any] | None = None, **how: Any) -> Any:
        words = pretrain(out, **PARTS | how)
        if "budget" in how:
            at = words.index("--steps")
            del words[at : at + 2]
        return crews.run(call, words, faults or {}, size=size, patience=None)

    return start


def curve_of(out: Path) -> list[dict[str, Any]]:
    return [entry for entry in read_log(out) if "lr" in entry]


def assert_same_curve(out: Path, expected: Path) -> None:
    mine, other = curve_of(out), curve_of(expected)
    assert [entry["step"] for entry in mine] == [entry["step"] for entry in other]
    for a, b in zip(mine, other, strict=True):
        assert a == pytest.approx(b, rel=1e-6)


# The same decisions


@pytest.mark.shows("N4")
def test_a_number_that_is_none_in_one_process_makes_all_skip_the_step(
    together_run: Any, whole: Whole, tmp_path: Path, counted: Counted
) -> None:
    out = tmp_path / "run"
    members = together_run(out, size=2, faults={"poison@1": 4})
    assert [member.result["code"] for member in members] == [0, 0], members
    assert [member.result["updates"] for member in members] == [13, 13]
    assert members[0].result["weights"] == members[1].result["weights"]
    (skipped,) = [entry for entry in read_log(out) if "skipped" in entry]
    assert skipped["step"] == 4
    assert skipped["fill_mask"] == "nan"
    assert len(set(skipped["skipped"])) == len(skipped["skipped"]) > 4  # those of both
    assert members[0].said.count("step 4 is skipped") == 1
    assert "skipped" not in members[1].said
    counted(processes=2)


@pytest.mark.control("N4")
def test_processes_that_judge_by_themselves_would_be_noticed(
    together_run: Any, tmp_path: Path
) -> None:
    faults = {"poison@1": 4, "listen_to_nobody": True}
    members = together_run(tmp_path / "run", size=2, faults=faults)
    assert [member.result["updates"] for member in members] == [14, 13]
    assert members[0].result["weights"] != members[1].result["weights"]


def test_a_signal_to_one_process_ends_all_after_the_same_step(
    together_run: Any, whole: Whole, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    faults = {"strike_at_step@1": [4, signal.SIGTERM]}
    members = together_run(out, size=2, faults=faults)
    assert [member.result["code"] for member in members] == [143, 143], members
    assert "stopped by a signal after step 4" in members[0].said
    assert [path.name for path in whole_checkpoints(out)][-1] == "step-00000004"
    members = together_run(out, size=2)
    assert [member.result["code"] for member in members] == [0, 0], members
    assert_same_curve(out, whole(**PARTS))


def test_a_budget_is_that_of_the_first_clock(together_run: Any, tmp_path: Path) -> None:
    how = {"budget": "2s", "evaluate_every": 0}
    members = together_run(tmp_path / "run", size=2, faults={"hurry@1": 100}, **how)
    assert [member.result["code"] for member in members] == [0, 0], members
    updates = [member.result["updates"] for member in members]
    assert updates[0] == updates[1] == len(curve_of(tmp_path / "run")) > 0
    assert members[0].result["weights"] == members[1].result["weights"]


# Lost processes


@pytest.mark.shows("P1")
@pytest.mark.parametrize("size", [1, 4])
def test_the_loss_of_a_process_ends_all_and_any_number_goes_on(
    size: int, together_run: Any, whole: Whole, counted: Counted, tmp_path: Path
) -> None:
    out, victim = tmp_path / "run", 1 if size == 1 else 0
    faults = {f"strike_at_step@{victim}": [8, signal.SIGKILL]}
    members = together_run(out, size=2, faults=faults)
    assert members[victim].code == -signal.SIGKILL
    other = members[1 - victim]
    assert other.result["code"] == 1
    (said,) = [line for line in other.said.splitlines() if line.startswith("bertworks: ")]
    assert "so one of them is lost or stuck" in said
    assert "--resume auto" in said
    assert whole_checkpoints(out)[-1].name == "step-00000006"
    members = together_run(out, size=size)
    assert [member.result["code"] for member in members] == [0] * size, members
    assert_same_curve(out, whole(**PARTS))
    counted(kills=1)


@pytest.mark.shows("P1")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_kill_while_parts_are_written_leaves_the_checkpoint_before(
    victim: int, together_run: Any, whole: Whole, counted: Counted, tmp_path: Path
) -> None:
    out, how = tmp_path / "run", {"sharding": "full", "evaluate_every": 0}
    faults = {f"strike_in_save@{victim}": 4}
    members = together_run(out, size=2, faults=faults, **how)
    assert members[victim].code == -signal.SIGKILL
    assert members[1 - victim].result["code"] == 1
    assert [path.name for path in whole_checkpoints(out)] == ["step-00000003"]
    members = together_run(out, size=1, **how)
    assert [member.result["code"] for member in members] == [0], members
    assert_same_curve(out, whole(**PARTS))
    assert not list(out.rglob(".*.tmp-*"))
    counted(kills=1, in_a_save=1)


@pytest.mark.shows("P1")
def test_a_disk_that_refuses_one_process_is_told_by_all(together_run: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    members = together_run(out, size=2, faults={"refuse_writing@1": 4}, sharding="full")
    assert [member.result["code"] for member in members] == [1, 1]
    for member in members:
        assert "process 1 cannot write" in member.said
        assert "No space left on device" in member.said
    assert [path.name for path in whole_checkpoints(out)] == ["step-00000003"]


@pytest.mark.control("P1")
def test_a_checkpoint_published_without_waiting_would_be_noticed(
    together_run: Any, tmp_path: Path
) -> None:
    out, how = tmp_path / "run", {"sharding": "full"}
    faults = {"strike_when_published@1": 3, "wait_for_nobody": True}
    together_run(out, size=2, faults=faults, **how)
    last = whole_checkpoints(out)[-1]
    assert last.name == "step-00000006"
    with pytest.raises((ArtifactError, AssertionError)):
        assert all(len(read_parts(last, name)) for name in ("model", "optimizer"))


# Refusals


def test_parts_that_the_processes_cannot_share_are_refused(
    together_run: Any, tmp_path: Path
) -> None:
    members = together_run(tmp_path / "run", size=2, accumulate=3)
    assert [member.result["code"] for member in members] == [2, 2]
    for member in members:
        assert "a step has 3 parts, which 2 processes cannot share evenly" in member.said
    assert not (tmp_path / "run").exists()


def test_processes_with_different_flags_are_refused(
    crews: Any, pretrain: Words, tmp_path: Path
) -> None:
    words = [pretrain(tmp_path / "run", **PARTS, lr=lr) for lr in (0.001, 0.002)]
    members = crews.run(call_own, words, size=2, patience=None)
    assert [member.result for member in members] == [2, 2]
    assert "process 1 has lr = 0.002, process 0 has 0.001" in members[0].said


def call_own(rank: int, words: list[list[str]]) -> Any:
    try:
        main(words[rank])
    except SystemExit as end:
        return end.code


# Started by torchrun, on one machine and on two


def torchrun(*flags: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", *flags, "-m", "bertworks"]


def environment() -> dict[str, str]:
    return {"PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}


def test_torchrun_starts_processes_that_train_as_one(
    pretrain: Words, whole: Whole, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = [*torchrun("--standalone", "--nproc-per-node", "2"), *pretrain(out, **PARTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("model: ") == 1
    assert_same_curve(out, whole(**PARTS))


@pytest.fixture
def namespaces() -> Any:
    """Make two network namespaces that see each other, or skip where that is not allowed."""
    names = [f"bertworks-{os.getpid()}-{number}" for number in range(2)]
    ends = [f"bw{os.getpid() % 100_000}v{number}" for number in range(2)]
    made = [ip("netns", "add", name) for name in names]
    if not all(made):
        for name, is_made in zip(names, made, strict=True):
            if is_made:
                ip("netns", "del", name)
        pytest.skip("this user may not make network namespaces")
    try:
        is_linked = ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for number, (name, end) in enumerate(zip(names, ends, strict=True)):
            is_linked &= ip("link", "set", end, "netns", name)
            is_linked &= ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", end)
            is_linked &= ip("-n", name, "link", "set", end, "up")
            is_linked &= ip("-n", name, "link", "set", "lo", "up")
        if not is_linked:
            pytest.skip("this user may not link network namespaces")
        yield list(zip(names, ends, strict=True))
    finally:
        for name in names:
            ip("netns", "del", name)


def ip(*words: str) -> bool:
    try:
        return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_two_machines_with_their_own_addresses_train_as_one(
    namespaces: list[tuple[str, str]], pretrain: Words, whole: Whole, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    started = []
    for number, (name, end) in enumerate(namespaces):
        flags = ("--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "1")
        where = ("--master-addr", "10.77.0.1", "--master-port", "29555")
        words = [*torchrun(*flags, *where), *pretrain(out, **PARTS, sharding="full")]
        # Names of machines lead nowhere in a namespace; the interface is told instead.
        variables = environment() | {"GLOO_SOCKET_IFNAME": end}
        command = ["ip", "netns", "exec", name, *words]
        started.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables
            )
        )
    ended = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0], ended
    last = whole_checkpoints(out)[-1]
    assert len(list(last.glob("model-*-of-00002.safetensors"))) == 2
    assert_same_curve(out, whole(**PARTS))
    assert json.loads((out / "manifest.json").read_text())["kind"] == "model"
    assert torch.isfinite(torch.tensor([entry["gradient_norm"] for entry in curve_of(out)])).all()
