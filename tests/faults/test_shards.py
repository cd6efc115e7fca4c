"""Damaged shards: found by name before the first step, and never trained on."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import ArtifactError
from bertworks.data.shards import Shards

Words = Callable[..., list[str]]
Counted = Callable[..., None]


def damage(file: Path, how: str, chance: random.Random) -> None:
    """Flip a bit of a file, cut it, or empty it."""
    data = bytearray(file.read_bytes())
    if how == "flip":
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    kept = {"flip": len(data), "cut": chance.randrange(len(data)), "empty": 0}[how]
    file.write_bytes(data[:kept])


def is_found(shards: Path) -> bool:
    """Tell whether damage keeps shards from being opened."""
    try:
        Shards.open(shards)
    except ArtifactError:
        return True
    return False


def files_of(shards: Path) -> list[str]:
    return sorted(str(p.relative_to(shards)) for p in shards.rglob("*") if p.is_file())


@pytest.mark.shows("D3")
def test_every_damage_to_shards_is_found(shards: Path, counted: Counted, tmp_path: Path) -> None:
    chance = random.Random(7)
    copy = shutil.copytree(shards, tmp_path / "shards")
    assert not is_found(copy)
    for name in files_of(shards):
        for how in ("flip",) * 20 + ("cut",) * 5 + ("empty",):
            damage(copy / name, how, chance)
            assert is_found(copy), (name, how)
            shutil.copyfile(shards / name, copy / name)
            counted(damages=1)
    assert not is_found(copy)


@pytest.mark.shows("D3")
@pytest.mark.parametrize("name", ["tokens-00000.bin", "sentences-00000.bin", "manifest.json"])
def test_damaged_shards_are_found_before_the_first_step(
    name: str, commands: Any, shards: Path, pretrain: Words, tmp_path: Path
) -> None:
    damaged = shutil.copytree(shards, tmp_path / "shards")
    damage(damaged / name, "flip", random.Random(1))
    out = tmp_path / "run"
    command, _, *rest = pretrain(out)
    ended = commands.run([command, str(damaged), *rest])
    assert ended.code == 1, ended.said
    (sentence,) = ended.said.splitlines()
    assert sentence.startswith("bertworks: ")
    assert name in sentence
    assert not out.exists()


@pytest.mark.shows("D3")
@pytest.mark.parametrize("how", ["flip", "cut"])
def test_shards_that_are_damaged_between_a_kill_and_a_resume_are_found(
    how: str, commands: Any, make_fate: Any, shards: Path, pretrain: Words, tmp_path: Path
) -> None:
    place, out = shutil.copytree(shards, tmp_path / "shards"), tmp_path / "run"
    command, _, *rest = pretrain(out)
    words = [command, str(place), *rest]
    assert commands.run(words, fate=make_fate("record", 5)).code < 0
    before = (out / "log.jsonl").read_bytes()
    damage(place / "tokens-00000.bin", how, random.Random(3))
    ended = commands.run(words)
    assert ended.code == 1
    assert "tokens-00000.bin" in ended.said
    assert (out / "log.jsonl").read_bytes() == before


@pytest.mark.shows("D3")
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


@pytest.mark.control("D3")
def test_a_run_that_trusts_its_shards_would_be_noticed(
    commands: Any, shards: Path, pretrain: Words, tmp_path: Path
) -> None:
    damaged = shutil.copytree(shards, tmp_path / "shards")
    data = bytearray((damaged / "tokens-00000.bin").read_bytes())
    data[::2] = b"\7" * len(data[::2])  # the same piece everywhere
    (damaged / "tokens-00000.bin").write_bytes(data)
    assert is_found(damaged)
    out = tmp_path / "run"
    command, _, *rest = pretrain(out)
    ended = commands.run([command, str(damaged), *rest], switches=("trust_files",))
    assert (out / "log.jsonl").exists(), ended.said  # it trains on them
