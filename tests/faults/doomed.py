"""A process that runs commands in forked children, each of which may meet a fault on its way.

Importing torch is paid once, here. One JSON line in: the words of the command, the file for what it
says, the fault, and the switches that break a promise on purpose. One JSON line out: the exit code,
negative for the signal that killed it.
"""

import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

import torch
from torch import nn

from bertworks.cli.main import main
from bertworks.core import artifact
from bertworks.core.seeds import derive, random_at
from bertworks.data import corpus_batches, shards
from bertworks.model import weights
from bertworks.serving import predictor
from bertworks.stages import embed, finetune, outputs, predict, pretrain  # noqa: F401 (imports)
from bertworks.training import gradients, loop, run, together
from bertworks.training.optimizer import make_optimizer
from bertworks.training.run import Run
from bertworks.training.saver import Saver

SECONDS_PER_SLOW_SYNC = 0.015


class Fate:
    """What is to happen, and when: at the n-th event of a kind, or at a step."""

    def __init__(
        self, event: str, number: float, signal_number: int, whom: str, error: int
    ) -> None:
        self.event, self.number, self.signal, self.whom = event, number, signal_number, whom
        self.error = error
        self.seen: Counter[str] = Counter()

    def meet(self, event: str) -> bool:
        """Count an event and tell whether it is the fatal one."""
        self.seen[event] += 1
        return event == self.event and self.seen[event] == self.number

    def strike(self, event: str) -> None:
        """Do what is to be done when the fatal event has come."""
        if self.meet(event):
            self.send()

    def send(self) -> None:
        """Fail, or send the signal: to this process, or also to its workers, from a stranger."""
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
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
        around_rename = _before if self.error else _after
        os.fsync = _before(os.fsync, lambda: self.strike("sync"))
        os.rename = around_rename(os.rename, lambda: self.strike("rename"))
        os.replace = around_rename(os.replace, lambda: self.strike("rename"))
        os.unlink = _after(os.unlink, lambda: self.strike("unlink"))
        Run.record = self._watching(Run.record)
        Run.restore = _after(Run.restore, lambda: self.strike("restore"))
        Run.go_back = _after(Run.go_back, lambda: self.strike("go back"))
        weights.save_file = self._tearing(weights.save_file)

    def _wait(self) -> None:
        time.sleep(self.number)
        self.send()

    def _watching(self, record: Callable[..., None]) -> Callable[..., None]:
        def watched(training: Run, entry: dict[str, Any]) -> None:
            record(training, entry)
            self.strike("record")
            if self.event == "step" and entry["step"] == self.number and "lr" in entry:
                self.send()

        return watched

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


# Switches: other ways to run, and the controls, each of which breaks one promise


def sync_slowly() -> None:
    """Make every sync take its time, so that a save is a wide target."""
    os.fsync = _before(os.fsync, lambda: time.sleep(SECONDS_PER_SLOW_SYNC))


def save_in_background() -> None:
    """Save as on a GPU."""
    loop.Saver = lambda training, in_background: Saver(training, in_background=True)


def forget_seeds() -> None:
    """Draw dropout from the process."""
    gradients.derive = lambda seed, *place: derive(os.getpid(), *place)


def forget_order() -> None:
    """Draw the order of the texts from the process."""
    corpus_batches.random_at = lambda seed, *place: random_at(os.getpid(), *place)


def copy_nothing() -> None:
    """Let the background write the very tensors that go on learning, and late."""
    Saver._copy = lambda saver, tensors: tensors
    Run.write = _before(Run.write, lambda: time.sleep(0.2))


def trust_files() -> None:
    """Believe every file, checkpoints and shards alike."""

    def read(folder: Path, *kinds: str) -> Any:
        return json.loads((folder / artifact.MANIFEST).read_text())

    run.open_artifact = shards.open_artifact = read


def write_in_place() -> None:
    """Fill the folder under its own name, its manifest first."""

    @contextmanager
    def fill(folder: Path, *, kind: str, origin: Any, **rest: Any) -> Iterator[Path]:
        folder.mkdir(parents=True)
        artifact.seal(folder, kind, origin)
        yield folder

    run.saving = together.saving = fill


def be_deaf() -> None:
    """Leave signals to what they do by themselves."""
    loop.heeded_signals = lambda **rest: nullcontext([])


def delete_first() -> None:
    """Make room for a checkpoint before it is written."""

    def clear(training: Run) -> None:
        for path in sorted(training.checkpoints.glob("step-*")):
            shutil.rmtree(path)

    write = Run.write
    Run.write = lambda training, *args: (clear(training), write(training, *args))[1]


def answer_a_few() -> None:
    """Answer, and embed, so few texts at once that a small file has many chunks."""
    predictor.CHUNK = embed.CHUNK = 5


def forget_an_answer() -> None:
    """Note one row fewer than was answered."""
    count = outputs.Tally.count

    def miscount(tally: outputs.Tally, *found: Any) -> None:
        count(tally, *found)
        tally.num_seen -= 1

    outputs.Tally.count = miscount


def be_careless() -> None:
    """Let a run go on with another batch size."""
    run.FREE_SETTINGS.add("batch_tokens")


SWITCHES = {
    function.__name__: function
    for function in (
        sync_slowly,
        save_in_background,
        forget_seeds,
        forget_order,
        copy_nothing,
        trust_files,
        write_in_place,
        be_deaf,
        delete_first,
        answer_a_few,
        forget_an_answer,
        be_careless,
    )
}


def keep_ledger(file: Path) -> None:
    """Note which texts each step gets, and the order they come in."""
    load = loop.load

    def noting(batches: Any, *, first: int, **rest: Any) -> Iterator[Any]:
        with closing(load(batches, first=first, **rest)) as made, file.open("a") as ledger:
            for step, parts in enumerate(made, start=first + 1):
                ids = [int(text) for part in parts for text in part.ids]
                ledger.write(json.dumps({"step": step, "ids": ids}) + "\n")
                ledger.flush()
                yield parts

    loop.load = noting


def live(order: dict[str, Any]) -> None:
    """Run the command in this process, which is a fork, with its fault."""
    os.setpgid(0, 0)
    # Shells let what they start in the background ignore the first, nohup the second.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for handle in (1, 2):
        os.dup2(said, handle)
    for name in order["switches"]:
        SWITCHES[name]()
    if order["ledger"]:
        keep_ledger(Path(order["ledger"]))
    if order["fate"]:
        Fate(*order["fate"]).arm()
    if order["largest_file"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["largest_file"],) * 2)
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
