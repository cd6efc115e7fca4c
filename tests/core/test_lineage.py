"""The commands behind a folder are found as far as what they made is still there."""

import shutil
from pathlib import Path

import pytest

from bertworks.core.artifact import MANIFEST, Origin, read_manifest, saving
from bertworks.core.lineage import commands_behind


def make(folder: Path, **inputs: Path) -> Path:
    origin = Origin(command=f"make {folder.name}", inputs=inputs)
    with saving(folder, kind="documents", origin=origin) as inside:
        (inside / "part.txt").write_text(folder.name)
    return folder


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Make shards of documents and a tokenizer that was learned from the same documents."""
    raw = tmp_path / "raw.txt"
    raw.write_text("text")
    documents = make(tmp_path / "documents", raw=raw)
    tokenizer = make(tmp_path / "tokenizer", text=documents / "part.txt")
    return make(tmp_path / "shards", tokenizer=tokenizer, text=documents / "part.txt")


def behind(folder: Path) -> list[str]:
    return commands_behind(read_manifest(folder))


def test_commands_come_in_the_order_in_which_they_were_needed(shards: Path) -> None:
    assert behind(shards) == ["make documents", "make tokenizer"]
    assert behind(make(shards.parent / "run", shards=shards)) == [
        "make documents",
        "make tokenizer",
        "make shards",
    ]


def test_what_has_gone_or_changed_since_tells_nothing(shards: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "tokenizer")
    assert behind(shards) == ["make documents"]
    (tmp_path / "documents" / "part.txt").write_text("other")
    assert behind(shards) == []


def test_a_manifest_that_is_torn_tells_nothing(shards: Path, tmp_path: Path) -> None:
    for name in ("documents", "tokenizer"):
        (tmp_path / name / MANIFEST).write_text("{")
    assert behind(shards) == []


def test_a_file_that_only_lies_in_a_folder_is_not_of_its_making(tmp_path: Path) -> None:
    guest = make(tmp_path / "documents") / "guest.txt"
    guest.write_text("mine")
    assert behind(make(tmp_path / "shards", text=guest)) == []


def test_raw_text_has_no_command(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("text")
    assert behind(make(tmp_path / "documents", raw=tmp_path / "raw.txt")) == []
