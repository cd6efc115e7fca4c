"""The machine is chosen once and set up so that arithmetic is safe and fast."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertworks.core import device
from bertworks.core.device import (
    ALONE,
    Machine,
    Seat,
    begin_int8_trial,
    cpu_runs_bf16,
    cpu_runs_int8,
    find_seat,
    prepare,
)
from bertworks.core.errors import UsageError

SOURCE = Path(__file__).parents[2] / "src"
COUNT_DENORMALS = """
import torch
from bertworks.core.device import prepare
{before}
small = torch.full((1 << 20,), 1e-30)
print(int((small * 1e-10 != 0).sum()))
"""


def denormals_after(before: str) -> int:
    """Count the denormal numbers that a fresh process with two threads makes of a million."""
    script = COUNT_DENORMALS.format(before=before)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE)},
    )
    return int(done.stdout)


def test_every_thread_flushes_denormal_numbers() -> None:
    assert denormals_after("prepare('cpu', threads=2)") == 0


def test_without_care_denormal_numbers_are_made() -> None:
    assert denormals_after("torch.set_num_threads(2)") == 1 << 20
    too_late = "torch.set_num_threads(2); torch.ones(1 << 20).exp(); torch.set_flush_denormal(True)"
    assert denormals_after(too_late) > 0


def test_trying_bf16_leaves_this_process_alive_and_tells_the_truth() -> None:
    if cpu_runs_bf16():
        assert prepare("cpu", precision="bf16").precision == "bf16"
    else:
        with pytest.raises(UsageError, match="choose the precision fp32"):
            prepare("cpu", precision="bf16")


def test_trying_int8_tells_whether_the_sums_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(cpu_runs_int8(), bool)
    saturated = device.INT8_TRIAL.replace("- 64", "- 32")
    for trial, answer in (("", True), ("raise SystemExit(3)", False), (saturated, False)):
        monkeypatch.setattr(device, "INT8_TRIAL", trial)
        begin_int8_trial.cache_clear()
        assert cpu_runs_int8.__wrapped__() is answer
    begin_int8_trial.cache_clear()


def test_a_cpu_computes_in_single_precision_unless_told() -> None:
    assert prepare("cpu") == Machine(torch.device("cpu"), "fp32")
    assert prepare("cpu", precision="fp32").precision == "fp32"


def test_the_number_of_threads_is_taken() -> None:
    before = torch.get_num_threads()
    try:
        prepare("cpu", threads=3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_missing_gpu_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert prepare("auto").device.type == "cpu"
    with pytest.raises(UsageError, match="no CUDA device is visible here; choose the device cpu"):
        prepare("cuda")


def test_only_half_precision_changes_the_forward_pass() -> None:
    with Machine(torch.device("cpu"), "fp32").autocast():
        assert not torch.is_autocast_enabled("cpu")
    with Machine(torch.device("cpu"), "bf16").autocast():
        assert torch.is_autocast_enabled("cpu")


def test_a_machine_tells_what_it_is_and_the_most_memory_that_was_in_use() -> None:
    machine = Machine(torch.device("cpu"), "fp32")
    torch.set_num_threads(2)
    assert str(machine) == "CPU, 2 threads, fp32"
    torch.set_num_threads(1)
    assert str(machine) == "CPU, 1 thread, fp32"
    before = machine.peak_memory()
    filled = torch.ones(2**24)  # 64 MiB
    after = machine.peak_memory()
    if before is not None and after is not None:  # not every system tells
        assert after >= before > 4 * filled.numel()


def test_torchrun_gives_a_process_its_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert find_seat() == Seat(rank=5, size=8, local_rank=1)


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "8")  # some clusters say so to every process
    assert find_seat() == ALONE


@pytest.mark.gpu
def test_a_process_without_a_gpu_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "99"), ("WORLD_SIZE", "100"), ("LOCAL_RANK", "99")):
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="process 100 of this machine has no GPU of its own"):
        prepare("cuda")


def test_a_cpu_reads_few_tokens_at_once_unless_batches_are_cut_behind_it() -> None:
    cpu = Machine(torch.device("cpu"), "fp32")
    assert cpu.batch_tokens == 1024
    assert replace(cpu, cuts_batches=True).batch_tokens == 4096
    assert Machine(torch.device("cuda"), "bf16").batch_tokens == 65536


def test_batches_are_read_side_by_side_only_where_torch_shares_out_its_threads() -> None:
    cpu, before = Machine(torch.device("cpu"), "fp32"), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert cpu.num_lanes == 3
        assert replace(cpu, cuts_batches=True).num_lanes == 1
        assert Machine(torch.device("cuda"), "bf16").num_lanes == 1
    finally:
        torch.set_num_threads(before)


def test_a_trial_that_nobody_asks_about_ends_with_the_process() -> None:
    script = (
        "from bertworks.core import device; device.INT8_TRIAL = 'import time; time.sleep(60)'; "
        "print(device.begin_int8_trial().pid)"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    assert "still running" not in done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
