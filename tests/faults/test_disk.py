"""A disk that is full, fails or lies: one sentence, the last good checkpoint, and on again."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bertworks.core.artifact import Origin
from bertworks.training.optimizer import make_optimizer
from bertworks.training.run import Counters, Run, whole_checkpoints

Words = Callable[..., list[str]]
Whole = Callable[..., Path]
Outcome = Callable[[Path], dict[str, str]]


def check_refused(ended: Any, reason: str) -> None:
    """See that a command failed with one clear sentence, in its last line."""
    assert ended.code == 1, ended.said
    assert "Traceback" not in ended.said
    sentences = [line for line in ended.said.splitlines() if line.startswith("bertworks: ")]
    assert sentences == ended.said.splitlines()[-1:]
    assert reason in sentences[0]
    assert "free some space" in sentences[0]


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
    outcome: Outcome,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    assert commands.run(pretrain(out), fate=make_fate("record", 5)).code < 0
    before = whole_checkpoints(out)
    assert len(before) == 1
    ended = commands.run(pretrain(out), largest_file=largest_file)
    check_refused(ended, "File too large")
    assert what in ended.said
    assert whole_checkpoints(out) == before
    assert not list(out.rglob(".*"))
    assert commands.run(pretrain(out)).code == 0
    assert outcome(out) == outcome(whole())


def test_a_full_disk_at_the_end_of_the_run_leaves_it_to_be_resumed(
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
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
    assert outcome(out) == outcome(whole())


def test_a_disk_that_is_full_at_once_leaves_nothing_half_written(
    commands: Any, pretrain: Words, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    check_refused(commands.run(pretrain(out), largest_file=300_000), "File too large")
    assert not list(out.rglob("*.safetensors"))
    assert commands.run(pretrain(out)).code == 0


@pytest.mark.parametrize("num_torn", [1, 2])
def test_torn_checkpoints_are_passed_over_and_the_run_ends_in_the_same_bits(
    num_torn: int,
    commands: Any,
    make_fate: Any,
    pretrain: Words,
    whole: Whole,
    outcome: Outcome,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    assert commands.run(pretrain(out), fate=make_fate("record", 9)).code < 0
    checkpoints = whole_checkpoints(out)
    assert [path.name for path in checkpoints] == ["step-00000003", "step-00000006"]
    for path in checkpoints[-num_torn:]:
        os.truncate(path / "optimizer.safetensors", 1234)
    ended = commands.run(pretrain(out))
    assert ended.code == 0, ended.said
    warnings = [line for line in ended.said.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == num_torn
    assert all("optimizer.safetensors has 1234 bytes" in line for line in warnings)
    assert ("resuming after step 3" in ended.said) is (num_torn == 1)
    assert outcome(out) == outcome(whole())


@pytest.mark.parametrize(
    "name", ["tokens-00000.bin", "sentences-00000.bin", "shards.json", "manifest.json"]
)
def test_damaged_shards_are_found_before_the_first_step(
    name: str, commands: Any, shards: Path, pretrain: Words, tmp_path: Path
) -> None:
    damaged = shutil.copytree(shards, tmp_path / "shards")
    data = bytearray((damaged / name).read_bytes())
    data[len(data) // 2] ^= 0x10
    (damaged / name).write_bytes(data)
    out = tmp_path / "run"
    command, _, *rest = pretrain(out)
    ended = commands.run([command, str(damaged), *rest])
    assert ended.code == 1, ended.said
    (sentence,) = ended.said.splitlines()
    assert sentence.startswith("bertworks: ")
    assert name in sentence
    assert not out.exists()


def test_other_shards_in_the_same_place_are_refused_on_resume(
    commands: Any, make_fate: Any, shards: Path, pretrain: Words, tmp_path: Path
) -> None:
    place, out = tmp_path / "shards", tmp_path / "run"
    command, _, *rest = pretrain(out)
    words = [command, str(shutil.copytree(shards, place)), *rest]
    assert commands.run(words, fate=make_fate("record", 5)).code < 0
    shutil.rmtree(place)
    text, tokenizer = (shards.parent / name for name in ("text.txt", "tokenizer"))
    again = ["tokenize", str(text), "--tokenizer", str(tokenizer), "--out", str(place)]
    assert commands.run([*again, "--held-out", "0.3", "--workers", "1"]).code == 0
    ended = commands.run(words)
    assert ended.code == 2
    assert f"{place} has changed since {out} was begun" in ended.said


# The order in which a checkpoint reaches the disk


def order_of_a_save(run: Run, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what is synced and renamed while a checkpoint is saved."""
    model = nn.Linear(3, 5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = make_optimizer(model, lr=0.1, weight_decay=0.1)
    optimizer.step()
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
        run.save(model, optimizer, Counters(1))
    return events


def is_durable(events: list[str]) -> bool:
    """Tell whether files are synced before their manifest, and all before the name appears."""
    return events == [
        "sync log.jsonl",
        "sync counters.json",
        "sync model.safetensors",
        "sync optimizer.safetensors",
        "sync manifest.json",
        "sync .step-00000001",
        "rename .step-00000001 step-00000001",
        "sync checkpoints",
    ]


def test_a_checkpoint_reaches_the_disk_before_its_name_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / "run", origin=Origin(), resume=False)
    assert is_durable(order_of_a_save(run, monkeypatch))


def test_another_order_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = order_of_a_save(Run(tmp_path / "run", origin=Origin(), resume=False), monkeypatch)
    for place in range(1, len(events)):
        swapped = [*events[: place - 1], events[place], events[place - 1], *events[place + 1 :]]
        assert not is_durable(swapped)
        assert not is_durable(events[:place] + events[place + 1 :])
