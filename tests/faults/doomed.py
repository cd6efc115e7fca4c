"""A process that runs commands in forked children, each of which may meet a fault on its way.

Importing torch is paid once, here. One JSON line in: the words of the command, the file for what it
says, and the fault. One JSON line out: the exit code, negative for the signal that killed it.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

import torch
from torch import nn

from bertworks.cli.main import main
from bertworks.core.seeds import derive
from bertworks.model import weights
from bertworks.stages import finetune, pretrain  # noqa: F401 (for their imports)
from bertworks.tasks.metrics import scikit_learn
from bertworks.training import loop
from bertworks.training.optimizer import make_optimizer
from bertworks.training.run import Run


class Fate:
    """What is to happen, and when: at the n-th event of a kind."""

    def __init__(self, event: str, number: float, signal_number: int, whom: str) -> None:
        self.event, self.number, self.signal, self.whom = event, number, signal_number, whom
        self.seen: Counter[str] = Counter()

    def meet(self, event: str) -> bool:
        """Count an event and tell whether it is the fatal one."""
        self.seen[event] += 1
        return event == self.event and self.seen[event] == self.number

    def strike(self, event: str) -> None:
        """Send the signal when the fatal event has come."""
        if self.meet(event):
            self.send()

    def send(self) -> None:
        """Send the signal to this process, or also to its workers, who then see a stranger."""
        if self.whom == "process":
            os.kill(os.getpid(), self.signal)
            return
        stranger = os.fork()
        if not stranger:
            os.setpgid(0, 0)
            os.killpg(os.getppid(), self.signal)
            os._exit(0)
        os.waitpid(stranger, 0)

    def arm(self) -> None:
        """Put the fate in the way of what touches the disk."""
        if self.event == "seconds":
            threading.Thread(target=self._wait, daemon=True).start()
        os.fsync = _before(os.fsync, lambda: self.strike("sync"))
        os.rename = _after(os.rename, lambda: self.strike("rename"))
        os.replace = _after(os.replace, lambda: self.strike("rename"))
        os.unlink = _after(os.unlink, lambda: self.strike("unlink"))
        Run.record = _after(Run.record, lambda: self.strike("record"))
        Run.restore = _after(Run.restore, lambda: self.strike("restore"))
        weights.save_file = self._tearing(weights.save_file)

    def _wait(self) -> None:
        time.sleep(self.number)
        self.send()

    def _tearing(self, write: Callable[..., None]) -> Callable[..., None]:
        def write_half(tensors: dict[str, Any], path: Path, **kwargs: Any) -> None:
            write(tensors, path, **kwargs)
            if self.meet("write"):
                os.truncate(path, path.stat().st_size // 2)
                self.send()

        return write_half


def _before(function: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        act()
        return function(*args, **kwargs)

    return wrapped


def _after(function: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        act()
        return result

    return wrapped


def live(order: dict[str, Any]) -> None:
    """Run the command in this process, which is a fork, with its fault."""
    os.setpgid(0, 0)
    said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for handle in (1, 2):
        os.dup2(said, handle)
    if order["fate"]:
        Fate(*order["fate"]).arm()
    if order["largest_file"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["largest_file"],) * 2)
    if order["forgetful"]:  # the control: dropout that depends on the process
        loop.derive = lambda seed, *place: derive(os.getpid(), *place)
    code = 70
    try:
        main(order["words"])
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def warm_up() -> None:
    """Import what is imported late; without a backward pass, which a fork cannot follow."""
    scikit_learn("metrics")
    torch.set_num_threads(1)
    model = nn.Linear(3, 5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    make_optimizer(model, lr=0.1, weight_decay=0.1).step()


warm_up()
for line in sys.stdin:
    child = os.fork()
    if not child:
        live(json.loads(line))
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # the workers it left behind
    sys.stdout.write(json.dumps(os.waitstatus_to_exitcode(status)) + "\n")
    sys.stdout.flush()
