"""The commands behind a folder are found as far as what they made is still there."""

import shutil
from pathlib import Path

import pytest

from bertworks.core import shipped
from bertworks.core.artifact import MANIFEST, Origin, read_manifest, saving
from bertworks.core.lineage import Lineage


def make(folder: Path, *, size: int = 1, **inputs: Path) -> Path:
    origin = Origin(command=f"make {folder.name}", inputs=inputs)
    with saving(folder, kind="documents", origin=origin) as inside:
        for number in range(size):
            (inside / f"part-{number}.txt").write_text(folder.name)
    return folder


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Make shards of documents and a tokenizer that was learned from the same documents."""
    raw = tmp_path / "raw.txt"
    raw.write_text("text")
    text = make(tmp_path / "documents", raw=raw) / "part-0.txt"
    return make(tmp_path / "shards", tokenizer=make(tmp_path / "tokenizer", text=text), text=text)


def behind(folder: Path) -> Lineage:
    return Lineage.of(read_manifest(folder))


def test_commands_come_in_the_order_in_which_they_were_needed(shards: Path) -> None:
    assert behind(shards).commands == ["make documents", "make tokenizer"]
    found = behind(make(shards.parent / "run", shards=shards))
    assert found.commands == ["make documents", "make tokenizer", "make shards"]
    assert found.lost == []


def test_what_has_gone_since_is_named(shards: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "tokenizer")
    found = behind(shards)
    assert found.commands == ["make documents"]
    assert found.lost == [str(tmp_path / "tokenizer")]


def test_what_was_made_again_since_is_named(shards: Path, tmp_path: Path) -> None:
    for name in ("documents", "tokenizer"):
        shutil.rmtree(tmp_path / name)
        make(tmp_path / name, size=2, other=tmp_path / "raw.txt")
    (tmp_path / "documents" / MANIFEST).write_text("{")
    found = behind(shards)
    assert found.commands == []
    assert found.lost == [str(tmp_path / "tokenizer"), str(tmp_path / "documents" / "part-0.txt")]


def test_what_the_disk_refuses_to_look_for_is_named() -> None:
    name = "long" * 100
    assert Lineage.of({"inputs": {"text": {"path": name, "sha256": "ab"}}}).lost == [name]


def test_a_file_that_only_lies_in_a_folder_is_not_of_its_making(tmp_path: Path) -> None:
    guest = make(tmp_path / "documents") / "guest.txt"
    guest.write_text("mine")
    assert behind(make(tmp_path / "shards", text=guest)) == Lineage()


def test_raw_text_and_parallel_lines_have_no_command(tmp_path: Path) -> None:
    for name in ("raw.txt", "train.en", "train.de"):
        (tmp_path / name).write_text("text")
    inputs = {"raw": tmp_path / "raw.txt", "pair": tmp_path / "train.en-de"}
    assert behind(make(tmp_path / "documents", **inputs)) == Lineage()


def test_many_files_of_one_folder_are_followed_once(tmp_path: Path) -> None:
    last = make(tmp_path / "0", size=2)
    for number in range(1, 25):  # where each file was followed, that were two to the power of this
        parts = {str(part): part for part in sorted(last.glob("part-*"))}
        last = make(tmp_path / str(number), size=2, **parts)
    assert behind(last).commands == [f"make {number}" for number in range(24)]


def test_folders_made_of_each_other_come_to_an_end(tmp_path: Path) -> None:
    first = make(tmp_path / "a")
    second = make(tmp_path / "b", text=first / "part-0.txt")
    shutil.rmtree(first)
    make(first, text=second / "part-0.txt")
    assert behind(first).commands == ["make a", "make b"]


def test_a_model_that_comes_with_the_package_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "PLACE", tmp_path / "models")
    run = make(tmp_path / "run")
    own = make(tmp_path / "models" / "little-en", run=run)
    found = make(tmp_path / "tuned", model=own)
    assert read_manifest(found)["inputs"]["model"]["path"] == "little-en"
    assert behind(found).commands == ["make run", "make little-en"]
