"""Where and how a run computes: the device, its precision, threads and seat among processes."""

import atexit
import os
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import torch

from bertworks.core.errors import UsageError
from bertworks.core.lanes import own_threads

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

DeviceName = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class Machine:
    """The device and precision of one run."""

    device: torch.device
    precision: Literal["fp32", "bf16"]
    cuts_batches: bool = False  # whether what computes cuts a batch into smaller ones by itself

    @property
    def batch_tokens(self) -> int:
        """How many tokens the device answers at once: enough to keep it busy, in little memory."""
        if self.device.type == "cuda":
            return 65536
        return 4096 if self.cuts_batches else 1024

    @property
    def num_lanes(self) -> int:
        """How many batches the device can read side by side."""
        # What a caller's own autocast says holds for his thread alone.
        is_alone = (
            self.device.type == "cuda" or self.cuts_batches or torch.is_autocast_enabled("cpu")
        )
        return 1 if is_alone else own_threads()

    @property
    def draft_tokens(self) -> int:
        """How many tokens that may be written are remembered at once, those of all beams."""
        return 1 << (19 if self.device.type == "cuda" else 15)

    def autocast(self) -> AbstractContextManager[None]:
        """Return the context in which a forward pass runs."""
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def peak_memory(self) -> int | None:
        """Return the most bytes in use so far, of the GPU or of this process; None: not known."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        if resource is None:
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak  # told in bytes or in kilobytes

    def __str__(self) -> str:
        if self.device.type == "cuda":
            return f"{torch.cuda.get_device_name(self.device)}, {self.precision}"
        count = own_threads()
        return f"CPU, {count} thread{'s' * (count > 1)}, {self.precision}"


@dataclass(frozen=True)
class Seat:
    """Which of the processes that run one command together this is."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those of this machine


ALONE = Seat()


def find_seat() -> Seat:
    """Return the place that torchrun has given this process; without it, that of one alone."""
    found = [os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]  # noqa: TID251
    return Seat(*map(int, filter(None, found))) if all(found) else ALONE


def prepare(
    device: DeviceName = "auto", *, precision: Precision = "auto", threads: int | None = None
) -> Machine:
    """Choose the device and set up its arithmetic; call it before the first tensor."""
    # A peaked softmax makes denormal numbers, which slow CPU products many times over. Worker
    # threads inherit the setting when they are started, which the first large operation does.
    torch.set_flush_denormal(True)
    for name, value, known in (("device", device, DeviceName), ("precision", precision, Precision)):
        if value not in get_args(known):
            raise UsageError(f"{name} is {value!r}, but it must be {' or '.join(get_args(known))}")
    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads is {threads}; the least is 1")
        own_threads()  # known from now on: one is not taken for somebody else's
        torch.set_num_threads(threads)
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("no CUDA device is visible here; choose the device cpu")
    chosen = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    if chosen == "cuda" and (seat := find_seat()).size > 1:
        _take_gpu(seat.local_rank)
    return Machine(torch.device(chosen), _choose_precision(chosen, precision))


def _take_gpu(number: int) -> None:
    """Make one of several GPUs that of this process."""
    count = torch.cuda.device_count()
    if number >= count:
        raise UsageError(
            f"process {number + 1} of this machine has no GPU of its own, for {count} can be seen; "
            f"start at most {count} (--nproc-per-node), or use --device cpu"
        )
    torch.cuda.set_device(number)


def _choose_precision(device: str, wanted: Precision) -> Literal["fp32", "bf16"]:
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = wanted != "fp32"
        return "fp32" if wanted == "fp32" else "bf16"
    if wanted == "bf16" and not cpu_runs_bf16():
        raise UsageError("this CPU announces bf16 but cannot run it; choose the precision fp32")
    return "bf16" if wanted == "bf16" else "fp32"


@cache
def cpu_runs_bf16() -> bool:
    """Try a bf16 product in a child process: some CPUs announce it and die of it."""
    trial = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); (a @ a).sum().item()"
    done = subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False)
    return done.returncode == 0


# The largest products of both kinds: where they are added up in sixteen bits, the sum is too small.
INT8_TRIAL = """
import numpy, onnx, onnxruntime
weight = onnx.numpy_helper.from_array(numpy.full((64, 32), 127, numpy.int8), "weight")
step = onnx.numpy_helper.from_array(numpy.full(32, 1 / 127, numpy.float32), "step")
node = onnx.helper.make_node(
    "DynamicQuantizeMatMul", ["x", "weight", "step"], ["y"], domain="com.microsoft"
)
x, y = (onnx.helper.make_tensor_value_info(name, 1, (None, None)) for name in "xy")
graph = onnx.helper.make_graph([node], "trial", [x], [y], [weight, step])
domains = [onnx.helper.make_opsetid(*domain) for domain in (("", 17), ("com.microsoft", 1))]
model = onnx.helper.make_model(graph, opset_imports=domains, ir_version=8)
onnxruntime.disable_telemetry_events()
session = onnxruntime.InferenceSession(model.SerializeToString())
(found,) = session.run(None, {"x": numpy.ones((16, 64), numpy.float32)})
assert abs(found - 64).max() < 0.1
"""


@cache
def begin_int8_trial() -> "subprocess.Popen[bytes]":
    """Begin to try ONNX Runtime's int8 product in a child process; other work goes on meanwhile."""
    words, nothing = [sys.executable, "-c", INT8_TRIAL], subprocess.DEVNULL
    trial = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing)
    atexit.register(_end, trial)
    return trial


def _end(trial: "subprocess.Popen[bytes]") -> None:
    """Leave no child behind, for nobody may have asked how it went."""
    trial.kill()
    trial.wait()


@cache
def cpu_runs_int8() -> bool:
    """Tell whether the child process that tries int8 lived, and added up right."""
    return begin_int8_trial().wait() == 0
