"""What computes an encoder: torch, or ONNX Runtime where a folder holds an ONNX file."""

from pathlib import Path
from typing import Literal, get_args

from bertworks.core.artifact import read_object
from bertworks.core.device import Machine, begin_int8_trial, cpu_runs_int8
from bertworks.core.errors import MissingPackageError, UsageError
from bertworks.core.optional import is_installed
from bertworks.core.progress import say
from bertworks.interop.onnx import (
    FILE,
    REPORT,
    SessionSettings,
    names_owner,
    open_session,
    owner_of,
)
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.serving.onnx_encoder import OnnxEncoder
from bertworks.tasks.task import TaskModel

Backend = Literal["auto", "torch", "onnx"]
PACKAGES = ("onnx", "onnxruntime")  # the first is for trying int8
NEEDED = "needs: pip install 'bertworks[onnx]'"


def expect_backend(path: Path, machine: Machine, backend: Backend) -> None:
    """Begin what a backend has to know, so that it is known when the model has been read."""
    if backend != "torch" and machine.device.type == "cpu" and _is_int8(encoder_folder(path)):
        begin_int8_trial()


def choose_backend(
    model: TaskModel, path: Path, machine: Machine, *, backend: Backend, threads: int | None
) -> None:
    """Let ONNX Runtime compute the model's encoder where that is asked for or can be."""
    if backend not in get_args(Backend):
        raise UsageError(f"backend is {backend!r}, but it must be {' or '.join(get_args(Backend))}")
    folder = encoder_folder(path)
    if backend == "torch" or (backend == "auto" and not _can_be(folder / FILE, machine)):
        return
    if machine.device.type != "cpu":
        raise UsageError(
            "the backend onnx computes on the CPU; choose the device cpu, or the backend torch"
        )
    if not _has_packages():
        raise MissingPackageError(f"the backend onnx {NEEDED}")
    file, is_int8 = folder / FILE, _is_int8(folder)
    if is_int8 and not cpu_runs_int8():
        say(f"warning: this CPU cannot compute {file} in int8; torch computes in fp32 instead")
        return
    session = open_session(file, SessionSettings(threads=threads), owner=owner_of(folder))
    encoder = OnnxEncoder(model.encoder, session, precision="int8" if is_int8 else "fp32")
    model.encoder = encoder  # type: ignore[assignment]


def _is_int8(folder: Path) -> bool:
    report = folder / REPORT
    return report.is_file() and read_object(report).get("precision") == "int8"


def _can_be(file: Path, machine: Machine) -> bool:
    if machine.device.type != "cpu" or machine.precision != "fp32" or not file.is_file():
        return False
    if not _has_packages():
        say(f"{file} is not used, for that {NEEDED}")
        return False
    if not names_owner(file):
        say(f"{file} is not used, for it does not tell whose weights it holds, as exported ones do")
        return False
    return True


def _has_packages() -> bool:
    return all(map(is_installed, PACKAGES))
