"""A run on disk: what is torn is found, what was good stays, the log never lies."""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bertworks.core.artifact import (
    MANIFEST,
    Origin,
    first_change,
    name_input,
    saving,
    seal,
)
from bertworks.core.crew import Crew
from bertworks.core.errors import ArtifactError, TrainingError, UsageError
from bertworks.training.health import LONGEST_ROLLBACK, Health, Rollback
from bertworks.training.log import read_log
from bertworks.training.optimizer import make_optimizer, optimizer_tensors
from bertworks.training.pace import Spent
from bertworks.training.run import (
    KEPT_CHECKPOINTS,
    Counters,
    Run,
    is_finished,
    whole_checkpoints,
)

MakeRun = Callable[..., Run]
Weights = dict[str, Tensor]
SETTINGS = {"lr": 0.25, "shards": "corpus/shards", "workers": 2, "longest": None}
SYNCS_PER_SAVE = 8  # the log, four files, the manifest, the folder, its parent
FILES = ("counters.json", MANIFEST, "model.safetensors", "optimizer.safetensors", "time.json")


class Walk:
    """A small model with its optimizer that takes one step after another."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = nn.Linear(3, 5)
        self.optimizer = make_optimizer(self.model, lr=0.1, weight_decay=0.1)
        self.at = Counters()

    def step(self, run: Run, *, saving: bool = True) -> None:
        random = torch.Generator().manual_seed(self.at.step)
        for parameter in self.model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=random)
        self.optimizer.step()
        self.at = Counters(self.at.step + 1, best_step=1, best_score=0.5)
        run.record({"step": self.at.step, "loss": 1 / self.at.step})
        if saving:
            run.save(self.model, self.optimizer, self.at)

    def state(self) -> Weights:
        memory = optimizer_tensors(self.model, self.optimizer)
        both = {**dict(self.model.named_parameters()), **memory}
        return {name: tensor.detach().clone() for name, tensor in both.items()}


def is_same(first: Weights, second: Weights) -> bool:
    return first.keys() == second.keys() and all(first[n].equal(second[n]) for n in first)


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Weights]]:
    """Make a run with two good checkpoints; return it with the state at each."""
    folder = tmp_path_factory.mktemp("two-steps") / "run"
    run, walk, states = Run(folder, origin=Origin(settings=SETTINGS), resume=False), Walk(), []
    for _ in range(2):
        walk.step(run)
        states.append(walk.state())
    return folder, states


@pytest.fixture
def copied(two_steps: tuple[Path, list[Weights]], tmp_path: Path) -> Path:
    """Copy that run, to be damaged."""
    return shutil.copytree(two_steps[0], tmp_path / "run")


def reopen(folder: Path, **changed: Any) -> Run:
    return Run(folder, origin=Origin(settings=SETTINGS | changed), resume=True)


def restore(folder: Path) -> tuple[Counters, Weights]:
    walk = Walk(seed=1)
    at = reopen(folder).restore(walk.model, walk.optimizer)
    return at, walk.state()


# Saving and restoring


def test_a_run_goes_on_from_its_newest_checkpoint(
    two_steps: tuple[Path, list[Weights]], capsys: pytest.CaptureFixture[str]
) -> None:
    at, state = restore(two_steps[0])
    assert at == Counters(2, best_step=1, best_score=0.5)
    assert is_same(state, two_steps[1][1])
    assert not is_same(state, two_steps[1][0])
    assert capsys.readouterr().err == "resuming after step 2\n"


def test_a_run_without_checkpoints_begins_at_the_beginning(make_run: MakeRun) -> None:
    run, walk = make_run(resume=True), Walk()
    before = walk.state()
    assert run.restore(walk.model, walk.optimizer) == Counters()
    assert is_same(walk.state(), before)


@given(
    step=st.integers(1, 10**9),
    skipped=st.integers(0, 4),
    best_step=st.integers(0, 10**9),
    score=st.floats(allow_nan=False),
    average=st.floats(0, 1e9),
    rollbacks=st.lists(st.builds(Rollback, st.integers(), st.integers(), st.text()), max_size=3),
)
@settings(max_examples=20)
def test_the_counters_come_back_as_they_were(
    step: int,
    skipped: int,
    best_step: int,
    score: float,
    average: float,
    rollbacks: list[Rollback],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = Run(tmp_path_factory.mktemp("counters"), origin=Origin(), resume=True)
    health = Health({"loss": average}, {"loss": step}, skipped, 1, 2, 3, tuple(rollbacks))
    walk, counters = Walk(), Counters(step, best_step, score, health)
    run.save(walk.model, walk.optimizer, counters)
    assert run.restore(walk.model, walk.optimizer) == counters


def test_a_checkpoint_before_the_first_update_can_be_resumed_from(make_run: MakeRun) -> None:
    run, walk = make_run(), Walk()
    run.save(walk.model, walk.optimizer, Counters(step=1, health=Health(bad_in_a_row=1)))
    other = Walk(seed=1)
    again = make_run(resume=True)
    assert again.restore(other.model, other.optimizer).health.bad_in_a_row == 1
    assert is_same(other.state(), walk.state())


def test_the_best_weights_come_back_by_their_step(make_run: MakeRun) -> None:
    run, walk = make_run(), Walk()
    for seed, step in ((1, 4), (2, 9), (3, 9)):  # the last step was done again
        run.write_best(weights_of(Walk(seed)), step)
        run.save(walk.model, walk.optimizer, Counters(step, best_step=step))
    for seed, step in ((1, 4), (3, 9)):
        model = Walk(seed=5).model
        run.load_best(model, step)
        assert model.weight.equal(Walk(seed).model.weight)


def test_without_checkpoints_only_the_best_weights_stay(make_run: MakeRun) -> None:
    run = make_run()
    for step in (4, 9, 13):
        run.write_best(weights_of(Walk(step)), step)
    assert [path.name for path in (run.folder / "best").iterdir()] == ["step-00000013"]


def test_best_weights_stay_as_long_as_a_checkpoint_names_them(make_run: MakeRun) -> None:
    run, walk = make_run(), Walk()
    for step, best, kept in ((1, 1, [1]), (2, 2, [1, 2]), (3, 2, [2]), (4, 4, [2, 4])):
        far = 100 * step
        if best == step:
            run.write_best(weights_of(walk), far)
        run.save(walk.model, walk.optimizer, Counters(far, best_step=100 * best))
        names = sorted(path.name for path in (run.folder / "best").iterdir())
        assert names == [f"step-{100 * number:08d}" for number in kept]


def test_a_failed_save_of_the_best_weights_leaves_those_before(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, walk = make_run(), Walk()
    run.write_best(weights_of(walk), 1)
    run.save(walk.model, walk.optimizer, Counters(1, best_step=1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        with pytest.raises(ArtifactError, match="No space left"):
            run.write_best(weights_of(Walk(seed=7)), 2)
    model = Walk(seed=5).model
    run.load_best(model, 1)
    assert model.weight.equal(walk.model.weight)


def write_late_and_load(crew: Crew, folder: str) -> bool:
    """Load the best weights in all processes, while the first has yet to write them."""
    run, model = Run(Path(folder), origin=Origin(), resume=True, crew=crew), Walk(seed=5).model
    if crew.is_first:
        time.sleep(0.3)
        run.write_best(weights_of(Walk(seed=1)), 4)
    run.load_best(model, 4)
    return model.weight.equal(Walk(seed=1).model.weight)


def test_no_process_looks_for_best_weights_before_the_first_has_written_them(
    crews: Any, tmp_path: Path
) -> None:
    members = crews.run(write_late_and_load, str(tmp_path / "run"), size=2)
    assert [member.result for member in members] == [True, True]


def weights_of(walk: Walk) -> Weights:
    return dict(walk.model.named_parameters())


def refuse(source: Path, target: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_damaged_best_weights_are_refused(make_run: MakeRun) -> None:
    run = make_run()
    run.write_best(weights_of(Walk()), 7)
    file = run.folder / "best" / "step-00000007" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(ArtifactError, match=r"model\.safetensors is damaged"):
        run.load_best(Walk(seed=1).model, 7)


# At the door


def test_a_finished_run_is_refused(make_run: MakeRun) -> None:
    folder = make_run().folder
    (folder / MANIFEST).write_text("{}")
    for resume in (True, False):
        with pytest.raises(UsageError, match="holds a finished run; choose another --out"):
            make_run(resume=resume)


def test_an_unfinished_run_is_refused_unless_it_is_to_be_resumed(copied: Path) -> None:
    with pytest.raises(UsageError, match="unfinished run; continue it with --resume auto"):
        Run(copied, origin=Origin(settings=SETTINGS), resume=False)
    assert len(whole_checkpoints(copied)) == 2


def test_a_run_that_died_before_its_first_checkpoint_begins_anew(make_run: MakeRun) -> None:
    make_run().record({"step": 1, "loss": 0.5})
    run = make_run(resume=False)
    run.restore(Walk().model, Walk().optimizer)
    assert read_log(run.folder) == []


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"precious")
    for resume in (True, False):
        with pytest.raises(UsageError, match="exists already; choose another --out"):
            Run(tmp_path, origin=Origin(), resume=resume)
    assert (tmp_path / "model.safetensors").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("name", "value"), [("lr", 0.5), ("shards", "corpus/others"), ("longest", 64)]
)
def test_a_changed_setting_is_refused_by_its_name(copied: Path, name: str, value: Any) -> None:
    walk = Walk()
    with pytest.raises(UsageError) as raised:
        reopen(copied, **{name: value}).restore(walk.model, walk.optimizer)
    expected = f"was begun with {name} = {SETTINGS[name]!r}, now {value!r}"
    assert expected in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_setting_that_the_run_did_not_know_is_refused_too(copied: Path) -> None:
    walk = Walk()
    with pytest.raises(UsageError, match=r"begun with dropout = None, now 0\.1"):
        reopen(copied, dropout=0.1).restore(walk.model, walk.optimizer)


@pytest.mark.parametrize("name", ["workers", "threads", "device", "checkpoint_every", "out"])
def test_settings_that_change_no_batch_may_change(copied: Path, name: str) -> None:
    walk = Walk()
    assert reopen(copied, **{name: 1}).restore(walk.model, walk.optimizer).step == 2


def test_a_changed_input_is_refused_by_its_name(make_run: MakeRun, tmp_path: Path) -> None:
    data = tmp_path / "train.jsonl"
    data.write_text("one\n")
    origin = Origin(settings=SETTINGS, inputs={"train": data})
    walk = Walk()
    walk.step(Run(tmp_path / "run", origin=origin, resume=False))
    same = Run(tmp_path / "run", origin=origin, resume=True)
    assert same.restore(walk.model, walk.optimizer).step == 1
    data.write_text("two\n")
    other = Run(tmp_path / "run", origin=origin, resume=True)
    with pytest.raises(UsageError, match=r"train\.jsonl has changed since"):
        other.restore(walk.model, walk.optimizer)


def test_an_input_may_lie_elsewhere_but_not_be_read_in_another_way(
    make_run: MakeRun, tmp_path: Path
) -> None:
    def begin(name: str, *, resume: bool = True) -> Run:
        path = tmp_path / name
        settings = {**SETTINGS, "train": str(path)}
        origin = Origin(settings=settings, inputs={"train": path})
        return Run(tmp_path / "run", origin=origin, resume=resume)

    (tmp_path / "train.tsv").write_text("one\t1\n")
    walk = Walk()
    walk.step(begin("train.tsv", resume=False))
    (tmp_path / "moved").mkdir()
    for name in ("moved/data.tsv", "train.csv"):
        (tmp_path / name).write_bytes((tmp_path / "train.tsv").read_bytes())
    assert begin("moved/data.tsv").restore(walk.model, walk.optimizer).step == 1
    with pytest.raises(UsageError, match=r"begun with train = '.*train\.tsv', now '.*train\.csv'"):
        begin("train.csv").restore(walk.model, walk.optimizer)
    (tmp_path / "moved/data.tsv").write_text("two\t0\n")
    with pytest.raises(UsageError, match=r"begun with train = '.*train\.tsv', now '.*data\.tsv'"):
        begin("moved/data.tsv").restore(walk.model, walk.optimizer)
    (tmp_path / "train.tsv").write_text("two\t0\n")
    with pytest.raises(UsageError, match=r"train\.tsv has changed since"):
        begin("train.tsv").restore(walk.model, walk.optimizer)


def test_compression_does_not_hide_how_a_file_is_read(tmp_path: Path) -> None:
    def change(name: str) -> str | None:
        begun = {"settings": {"train": "a.tsv.gz"}, "inputs": {"train": told}}
        origin = Origin(settings={"train": name}, inputs={"train": tmp_path / name})
        return first_change(tmp_path, begun, origin, free=set())

    for name in ("a.tsv.gz", "b.TSV.gz", "c.csv.gz"):
        (tmp_path / name).write_bytes(b"the same")
    told = name_input(tmp_path / "a.tsv.gz")
    assert change("b.TSV.gz") is None
    assert "begun with train = 'a.tsv.gz', now 'c.csv.gz'" in str(change("c.csv.gz"))


def test_a_run_that_an_earlier_version_has_begun_goes_on(make_run: MakeRun, tmp_path: Path) -> None:
    walk = Walk()
    run = make_run()
    walk.step(run)
    (checkpoint,) = whole_checkpoints(run.folder)
    counters = json.loads((checkpoint / "counters.json").read_text())
    (checkpoint / "counters.json").write_text(json.dumps({**counters, "seconds": 12.5}))
    (checkpoint / "time.json").unlink()
    (checkpoint / MANIFEST).unlink()
    seal(checkpoint, "checkpoint", Origin())
    at = make_run(resume=True).restore(walk.model, walk.optimizer)
    assert (at.step, at.spent) == (1, Spent(12.5, 12.5))


# Going back


def test_a_run_goes_back_to_the_newest_checkpoint_from_before_a_step(make_run: MakeRun) -> None:
    run, walk, states = make_run(), Walk(), []
    for _ in range(2):
        walk.step(run)
        states.append(walk.state())
    walk.step(run, saving=False)
    at = run.go_back(walk.model, walk.optimizer, before=2)
    assert at.step == 1
    assert is_same(walk.state(), states[0])
    assert [path.name for path in whole_checkpoints(run.folder)] == ["step-00000001"]
    assert [entry["step"] for entry in read_log(run.folder)] == [1]


def test_a_run_that_goes_back_before_its_first_update_forgets_all_momentum(
    make_run: MakeRun,
) -> None:
    run, walk = make_run(), Walk()
    before = walk.state()
    run.save(walk.model, walk.optimizer, Counters(1))  # a step that was skipped
    walk.at = Counters(1)
    walk.step(run)
    run.go_back(walk.model, walk.optimizer, before=2)
    assert is_same(walk.state(), before)


def test_going_back_passes_over_torn_checkpoints(
    copied: Path, two_steps: tuple[Path, list[Weights]], capsys: pytest.CaptureFixture[str]
) -> None:
    run, walk = reopen(copied), Walk(seed=1)
    (copied / "checkpoints" / "step-00000002" / "model.safetensors").write_bytes(b"torn")
    assert run.go_back(walk.model, walk.optimizer, before=5).step == 1
    assert is_same(walk.state(), two_steps[1][0])
    assert capsys.readouterr().err.count("is passed over") == 1
    assert not (copied / "checkpoints" / "step-00000002").exists()


def test_without_a_checkpoint_to_go_back_to_the_run_stops(copied: Path) -> None:
    run, walk = reopen(copied), Walk()
    with pytest.raises(TrainingError, match="no checkpoint is left from before step 1; begin"):
        run.go_back(walk.model, walk.optimizer, before=1)
    assert len(whole_checkpoints(copied)) == 2


# The log


def test_the_log_is_cut_back_to_the_checkpoint(copied: Path) -> None:
    run = reopen(copied)
    whole = run.log.read_bytes()
    run.record({"step": 3, "loss": 0.1})
    run.record({"step": 3, "evaluation": {"loss": 0.2}})
    run.record({"step": 4, "loss": 0.1})
    restore(copied)
    assert run.log.read_bytes() == whole


def test_the_log_goes_back_as_far_as_the_checkpoint_does(copied: Path) -> None:
    shutil.rmtree(copied / "checkpoints" / "step-00000002")
    restore(copied)
    assert [entry["step"] for entry in read_log(copied)] == [1]


# Retention


def test_two_checkpoints_are_kept(make_run: MakeRun) -> None:
    run, walk = make_run(), Walk()
    for number in range(1, 6):
        run.save(walk.model, walk.optimizer, Counters(number * (LONGEST_ROLLBACK + 1)))
        assert len(whole_checkpoints(run.folder)) == min(number, KEPT_CHECKPOINTS)
    names = sorted(path.name for path in run.checkpoints.iterdir())
    assert names == ["lock", "step-00000300", "step-00000375"]


@given(gaps=st.lists(st.integers(1, LONGEST_ROLLBACK), min_size=20, max_size=40))
@settings(max_examples=5)
def test_where_checkpoints_are_dense_one_that_a_rollback_could_reach_is_kept_too(
    gaps: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run, walk = Run(tmp_path_factory.mktemp("dense"), origin=Origin(), resume=True), Walk()
    for step in accumulate(gaps):
        run.save(walk.model, walk.optimizer, Counters(step))
        kept = sorted(int(path.name[5:]) for path in run.checkpoints.glob("step-*"))
        assert len(kept) <= KEPT_CHECKPOINTS + 2
        assert step - gaps[0] <= LONGEST_ROLLBACK or kept[0] < step - LONGEST_ROLLBACK


@given(data=st.data())
@settings(max_examples=25)
def test_two_good_checkpoints_are_left_however_many_are_torn(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run, walk = Run(folder, origin=Origin(), resume=False), Walk()
    for _ in range(data.draw(st.integers(0, 4), "steps at first")):
        walk.step(run)
    num_good = len(whole_checkpoints(folder))
    for step in data.draw(st.sets(st.integers(1, 9), max_size=4), "torn"):
        torn = run.checkpoints / f"step-{step:08d}"
        num_good -= torn in whole_checkpoints(folder)
        shutil.rmtree(torn, ignore_errors=True)
        torn.mkdir()
        (torn / "model.safetensors").write_bytes(b"half a tens")
    again, walk = Run(folder, origin=Origin(), resume=True), Walk()
    walk.at = again.restore(walk.model, walk.optimizer)
    for number in range(1, data.draw(st.integers(1, 5), "steps afterwards") + 1):
        walk.step(again)
        newest = whole_checkpoints(folder)[-1]
        assert newest.name == f"step-{walk.at.step:08d}"
        assert len(whole_checkpoints(folder)) >= min(num_good + number, KEPT_CHECKPOINTS)


def test_a_save_that_fails_anywhere_leaves_what_was_there(
    copied: Path, two_steps: tuple[Path, list[Weights]], monkeypatch: pytest.MonkeyPatch
) -> None:
    really_sync = os.fsync
    for fatal in range(1, SYNCS_PER_SAVE + 2):
        num_calls = 0

        def fail_once(handle: int, fatal: int = fatal) -> None:
            nonlocal num_calls
            num_calls += 1
            if num_calls == fatal:
                raise OSError(errno.EIO, "Input/output error")
            really_sync(handle)

        run, walk = reopen(copied), Walk()
        walk.at = run.restore(walk.model, walk.optimizer)
        assert is_same(walk.state(), two_steps[1][1])
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail_once)
            if fatal > SYNCS_PER_SAVE:
                walk.step(run)
                break
            with pytest.raises(ArtifactError, match="Input/output error"):
                walk.step(run)
        assert whole_checkpoints(copied)[:2] == sorted(run.checkpoints.glob("step-*"))[:2]
        shutil.rmtree(run.checkpoints / "step-00000003", ignore_errors=True)
    names = [path.name for path in whole_checkpoints(copied)]
    assert names[-2:] == ["step-00000002", "step-00000003"]


# Torn checkpoints


def truncations(data: bytes) -> Iterator[bytes]:
    size = len(data)
    offsets = {0, 1, 7, 8, 9, size - 1, size - 8, *range(size // 15, size, size // 15)}
    yield from (data[:offset] for offset in sorted(offsets) if 0 <= offset < size)


def bit_flips(data: bytes) -> Iterator[bytes]:
    random = torch.Generator().manual_seed(8)
    bits = torch.randperm(len(data) * 8, generator=random)[:100].tolist()
    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def replacements(data: bytes) -> Iterator[bytes]:
    yield b""
    yield data + b"\0"
    yield bytes(len(data))
    yield b"{}"
    yield b"[]"
    yield b"null"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damages", [truncations, bit_flips, replacements])
def test_a_damaged_file_is_found_and_the_checkpoint_before_is_used(
    name: str,
    damages: Callable[[bytes], Iterator[bytes]],
    copied: Path,
    two_steps: tuple[Path, list[Weights]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    newest = copied / "checkpoints" / "step-00000002"
    kept = shutil.copytree(newest, copied.parent / "kept")
    data = (newest / name).read_bytes()
    for damaged in damages(data):
        shutil.rmtree(newest, ignore_errors=True)
        shutil.copytree(kept, newest)
        (newest / name).write_bytes(damaged)
        at, state = restore(copied)
        assert at.step == 1, damaged
        assert is_same(state, two_steps[1][0])
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 2, said
        assert said[0].startswith(f"warning: checkpoint {newest} is passed over: ")
        assert said[1] == "resuming after step 1"


def test_an_undamaged_copy_passes_the_same_check(copied: Path) -> None:
    for file in (copied / "checkpoints" / "step-00000002").iterdir():
        file.write_bytes(bytes(file.read_bytes()))
    assert restore(copied)[0].step == 2


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_found_and_the_checkpoint_before_is_used(
    name: str,
    copied: Path,
    two_steps: tuple[Path, list[Weights]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (copied / "checkpoints" / "step-00000002" / name).unlink()
    at, state = restore(copied)
    assert at.step == 1
    assert is_same(state, two_steps[1][0])
    said = capsys.readouterr().err
    assert said.count("warning: ") == 1
    assert name in said


def test_when_no_checkpoint_is_whole_the_run_begins_at_the_beginning(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, path in enumerate(sorted((copied / "checkpoints").glob("step-*"))):
        (path / FILES[number]).unlink()
    at, state = restore(copied)
    assert at == Counters()
    assert is_same(state, Walk(seed=1).state())
    assert read_log(copied) == []
    assert capsys.readouterr().err.count("warning: checkpoint ") == 2


def test_files_of_two_checkpoints_in_one_folder_are_found(copied: Path) -> None:
    older, newer = sorted((copied / "checkpoints").glob("step-*"))
    shutil.copy(older / "optimizer.safetensors", newer / "optimizer.safetensors")
    assert restore(copied)[0].step == 1


def test_an_artifact_of_another_kind_is_no_checkpoint(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with saving(copied / "checkpoints" / "step-00000003", kind="report", origin=Origin()):
        pass
    assert restore(copied)[0].step == 2
    assert "holds a report, but a checkpoint is needed here" in capsys.readouterr().err


def test_what_a_dead_process_left_behind_is_no_checkpoint_and_is_swept_away(
    copied: Path, two_steps: tuple[Path, list[Weights]]
) -> None:
    checkpoints = copied / "checkpoints"
    for step in (2, 3, 7):
        stale = checkpoints / f".step-{step:08d}.tmp-999999999"
        shutil.copytree(checkpoints / "step-00000002", stale)
    assert whole_checkpoints(copied) == sorted(checkpoints.glob("step-*"))
    run, walk = reopen(copied), Walk()
    walk.at = run.restore(walk.model, walk.optimizer)
    assert walk.at.step == 2
    assert is_same(walk.state(), two_steps[1][1])
    walk.step(run)
    names = sorted(path.name for path in checkpoints.iterdir())
    assert names == ["lock", *(f"step-{number:08d}" for number in (1, 2, 3))]


def test_a_finished_run_is_known_by_its_settings(tmp_path: Path) -> None:
    origin = Origin(settings={"steps": 5, "out": "here", "workers": 0})
    assert not is_finished(tmp_path / "run", origin)
    with saving(tmp_path / "run", kind="model", origin=origin) as folder:
        (folder / "config.json").write_text("{}")
    assert is_finished(tmp_path / "run", origin)
    elsewhere = Origin(settings={"steps": 5, "out": "there", "workers": 2})
    assert is_finished(tmp_path / "run", elsewhere)
    longer = Origin(settings={"steps": 7, "out": "here", "workers": 0})
    with pytest.raises(UsageError, match=r"steps = 5, now 7; .*: --model \S+run --out NEW$"):
        is_finished(tmp_path / "run", longer)
    other = Origin(settings=longer.settings, command="bertworks pretrain sh")
    assert not is_finished(tmp_path / "run", other)
