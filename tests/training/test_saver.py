"""Saving behind the back of a run: the same files, in their order, and no error swallowed."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from bertworks.core.errors import ArtifactError
from bertworks.training.optimizer import make_optimizer
from bertworks.training.run import Counters, Run, state_of, whole_checkpoints
from bertworks.training.saver import MOST_PENDING, Saver

MakeRun = Callable[..., Run]


def take_steps(saver: Saver, count: int) -> nn.Module:
    """Train a small model; save a checkpoint and the best weights after each step."""
    torch.manual_seed(5)
    model = nn.Linear(3, 5)
    optimizer = make_optimizer(model, lr=0.1, weight_decay=0.1)
    random = torch.Generator().manual_seed(6)
    for step in range(1, count + 1):
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=random)
        optimizer.step()
        saver.run.record({"step": step})
        saver.save_best(dict(model.named_parameters()), step)
        saver.save(state_of(model, optimizer), Counters(step, best_step=step))
        saver.check()
    return model


def files(run: Run) -> dict[str, bytes]:
    found = [path for path in run.folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(run.folder)): path.read_bytes() for path in found}


def hold_syncs(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make the disk wait until it may go on."""
    may_sync, really_sync = threading.Event(), os.fsync

    def wait_and_sync(handle: int) -> None:
        assert may_sync.wait(60)
        really_sync(handle)

    monkeypatch.setattr(os, "fsync", wait_and_sync)
    return may_sync


def test_the_files_are_those_of_a_run_that_waits_for_the_disk(make_run: MakeRun) -> None:
    made = []
    for in_background in (False, True):
        run = make_run(f"{in_background}")
        with Saver(run, in_background=in_background) as saver:
            take_steps(saver, 7)
        made.append(files(run))
    assert made[0] == made[1]
    assert "checkpoints/step-00000007/optimizer.safetensors" in made[0]
    assert "best/step-00000007/model.safetensors" in made[0]


def test_what_is_learned_meanwhile_is_not_in_the_files(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    may_sync = hold_syncs(monkeypatch)
    with Saver(run, in_background=True) as saver:
        model = take_steps(saver, 1)
        kept = model.weight.detach().clone()
        with torch.no_grad():
            model.weight.fill_(7.0)
        assert whole_checkpoints(run.folder) == []
        may_sync.set()
    run.load_best(model, 1)
    assert model.weight.equal(kept)


def test_without_a_copy_it_would_be_noticed(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Saver, "_copy", lambda saver, tensors: tensors)
    run = make_run()
    may_begin = threading.Event()
    with Saver(run, in_background=True) as saver:
        saver._do(may_begin.wait)
        model = nn.Linear(3, 5)
        kept = model.weight.detach().clone()
        saver.save_best(dict(model.named_parameters()), 1)
        with torch.no_grad():
            model.weight.fill_(7.0)
        may_begin.set()
    run.load_best(model, 1)
    assert not model.weight.equal(kept)


def test_only_so_many_copies_are_in_memory(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Saver(make_run(), in_background=True) as saver:
        most = 0
        for step in range(1, 6):
            saver.save_best(dict(nn.Linear(3, 5).named_parameters()), step)
            most = max(most, len(saver._pending))
        assert most <= MOST_PENDING


def test_a_checkpoint_waits_for_the_one_before(make_run: MakeRun) -> None:
    run = make_run()
    with Saver(run, in_background=True) as saver:
        for step in range(1, 5):
            model = nn.Linear(3, 5)
            saver.save({"model": dict(model.named_parameters())}, Counters(step))
            names = [path.name for path in whole_checkpoints(run.folder)]
            assert step == 1 or f"step-{step - 1:08d}" in names


@pytest.mark.parametrize("moment", ["check", "wait", "the next save", "the end"])
def test_a_failed_save_comes_to_light(
    moment: str, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def go(saver: Saver) -> None:
        weights = dict(nn.Linear(3, 5).named_parameters())
        saver.save_best(weights, 1)
        if moment == "check":
            saver._pending[0].exception()  # it is over
            saver.check()
        elif moment == "wait":
            saver.wait()
        elif moment == "the next save":
            for step in range(2, 3 + MOST_PENDING):
                saver.save_best(weights, step)

    monkeypatch.setattr(os, "fsync", fail)
    run = make_run()
    with (
        pytest.raises(ArtifactError, match="No space left on device"),
        Saver(run, in_background=True) as saver,
    ):
        go(saver)
    assert not list(Path(run.folder).rglob("*.safetensors"))


def test_the_error_that_ended_the_training_is_the_one_that_is_seen(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_sync = hold_syncs(monkeypatch)
    run = make_run()

    def go() -> None:
        with Saver(run, in_background=True) as saver:
            take_steps(saver, 1)
            may_sync.set()
            raise ValueError("the training")

    with pytest.raises(ValueError, match="the training"):
        go()
    assert len(whole_checkpoints(run.folder)) == 1  # what was begun is finished
