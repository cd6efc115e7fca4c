"""Artifacts are whole or not there, whatever happens while they are written."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bertworks
from bertworks.core.artifact import (
    MANIFEST,
    Origin,
    check_artifact,
    is_whole,
    open_artifact,
    read_json,
    read_manifest,
    read_object,
    refuse_existing,
    refuse_overwriting,
    saving,
    sha256_of,
    sweep_leftovers,
)
from bertworks.core.errors import ArtifactError, UsageError

FILES = {"one.bin": b"\x00\x01\x02\x03\x04", "inner/two.txt": "zwölf 字\n".encode(), "empty": b""}


def save(folder: Path, files: dict[str, bytes] = FILES) -> None:
    origin = Origin(command="bertworks make", settings={"size": 7, "rate": 0.1}, seed=3)
    with saving(folder, kind="report", origin=origin) as temporary:
        for name, data in files.items():
            (temporary / name).parent.mkdir(exist_ok=True)
            (temporary / name).write_bytes(data)


def save_half(folder: Path, failure: BaseException) -> None:
    with saving(folder, kind="report", origin=Origin()) as temporary:
        (temporary / "one.bin").write_bytes(b"half")
        raise failure


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Save one artifact alone in its parent folder."""
    save(tmp_path / "made")
    return tmp_path / "made"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Make a folder alone in its parent folder that holds something, and is no artifact yet."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "one.bin").write_bytes(b"old")
    (tmp_path / "made" / "log.jsonl").write_bytes(b"{}\n")
    return tmp_path / "made"


@pytest.mark.parametrize("name", ["model.safetensors", "generator/model.safetensors"])
def test_weights_that_the_manifest_does_not_name_are_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with saving(folder, kind="model", origin=Origin()) as inside:
        (inside / "model.int8.safetensors").write_bytes(b"ours")
    open_artifact(folder, "model")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"theirs")
    with pytest.raises(ArtifactError, match=r"is none of the files .*; remove it"):
        open_artifact(folder, "model")
    (folder / name).rename((folder / name).with_name("._model.safetensors"))
    open_artifact(folder, "model")  # which nobody reads


@pytest.mark.parametrize("told", [[], {"a.txt": []}, {"a.txt": {"size": 1}}])
def test_a_manifest_that_tells_no_sizes_is_another_format(told: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with saving(folder, kind="report", origin=Origin()) as inside:
        (inside / "a.txt").write_text("a")
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "files": told}))
    with pytest.raises(ArtifactError, match="make the folder again"):
        open_artifact(folder, "report")


def test_what_was_written_is_there_and_whole(folder: Path) -> None:
    manifest = open_artifact(folder, "report")
    found = contents(folder)
    del found[MANIFEST]
    assert found == FILES
    assert is_whole(folder, "report")
    assert {name: entry["size"] for name, entry in manifest["files"].items()} == {
        name: len(data) for name, data in FILES.items()
    }
    assert manifest["files"]["one.bin"]["sha256"] == sha256_of(folder / "one.bin")


def test_a_folder_from_elsewhere_passes_the_check_that_ours_must_pass(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    check_artifact(tmp_path / "theirs", "model")
    check_artifact(folder, "model", "report")
    with pytest.raises(ArtifactError, match="holds a report, but a model is needed"):
        check_artifact(folder, "model")
    (folder / "one.bin").write_bytes(b"torn")
    with pytest.raises(ArtifactError, match=r"one\.bin"):
        check_artifact(folder, "report")


def test_the_manifest_tells_where_the_artifact_comes_from(tmp_path: Path, folder: Path) -> None:
    plain = tmp_path / "text.txt"
    plain.write_text("some text")
    inputs = {"text": plain, "report": folder, "gone": tmp_path / "gone"}
    with saving(tmp_path / "next", kind="report", origin=Origin(inputs=inputs)):
        pass
    manifest = read_manifest(tmp_path / "next")
    assert manifest["version"] == bertworks.__version__
    assert manifest["inputs"] == {
        "text": {"path": str(plain), "sha256": sha256_of(plain)},
        "report": {"path": str(folder), "sha256": sha256_of(folder / MANIFEST)},
        "gone": {"path": str(tmp_path / "gone"), "sha256": None},
    }
    first = read_manifest(folder)
    assert (first["kind"], first["command"], first["seed"]) == ("report", "bertworks make", 3)
    assert first["settings"] == {"size": 7, "rate": 0.1}


def test_a_failure_inside_the_block_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="half way"):
        save_half(tmp_path / "made", RuntimeError("half way"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_the_old_state(run: Path, stop: type[BaseException]) -> None:
    before = contents(run.parent)
    with pytest.raises(stop):
        save_half(run, stop())
    assert contents(run.parent) == before


def test_a_full_disk_is_one_sentence_and_leaves_the_old_state(run: Path) -> None:
    before = contents(run.parent)
    with pytest.raises(ArtifactError, match=r"cannot write .*made: No space left .*--out"):
        save_half(run, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert contents(run.parent) == before


def test_a_disk_that_fails_to_sync_leaves_the_old_state(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = contents(run.parent)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ArtifactError, match="Input/output error"):
        save(run)
    with pytest.raises(ArtifactError, match="Input/output error"):
        save(run.parent / "other")
    assert contents(run.parent) == before


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactError, match="cannot write"):
        save(tmp_path / "file" / "made")


def test_data_is_on_the_disk_before_the_manifest_and_the_name_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, rename = os.fsync, Path.rename

    def recording_sync(handle: int) -> None:
        events.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        sync(handle)

    def recording_rename(path: Path, target: Path) -> Path:
        events.append(f"rename to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", recording_sync)
    monkeypatch.setattr(Path, "rename", recording_rename)
    save(tmp_path / "made")
    data = [f"sync {name}" for name in ("empty", "two.txt", "one.bin")]
    folders = ["sync inner", f"sync .made.tmp-{os.getpid()}"]
    last = ["rename to made", f"sync {tmp_path.name}"]
    assert sorted(events[:3]) == sorted(data)
    assert events[3:] == [f"sync {MANIFEST}", *folders, *last]


def test_the_manifest_is_not_there_while_files_are_written(tmp_path: Path) -> None:
    with saving(tmp_path / "made", kind="report", origin=Origin()) as temporary:
        (temporary / "one.bin").write_bytes(b"1")
        assert not (temporary / MANIFEST).exists()
        assert not (tmp_path / "made").exists()
    assert (tmp_path / "made" / MANIFEST).exists()


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_noticed(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name} is missing; make the folder again"):
        open_artifact(folder, "report")


@pytest.mark.parametrize("name", FILES)
def test_a_grown_file_is_noticed(folder: Path, name: str) -> None:
    (folder / name).write_bytes(FILES[name] + b"\0")
    with pytest.raises(ArtifactError, match=f"{name} has .* bytes, its manifest says"):
        open_artifact(folder, "report")


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_file_cut_anywhere_is_noticed(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    for length in range(len(whole)):
        (folder / name).write_bytes(whole[:length])
        with pytest.raises(ArtifactError):
            open_artifact(folder, "report")
        assert not is_whole(folder, "report")
    (folder / name).write_bytes(whole)
    assert is_whole(folder, "report")


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_flipped_bit_anywhere_is_noticed(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        (folder / name).write_bytes(flipped)
        with pytest.raises(ArtifactError):
            open_artifact(folder, "report")


def test_another_kind_is_named(folder: Path) -> None:
    with pytest.raises(ArtifactError, match="holds a report, but a tokenizer is needed"):
        open_artifact(folder, "tokenizer")
    assert not is_whole(folder, "tokenizer")


def test_one_of_several_kinds_is_enough(folder: Path) -> None:
    assert open_artifact(folder, "tokenizer", "report")["kind"] == "report"
    with pytest.raises(ArtifactError, match="but a tokenizer or model is needed here; check"):
        open_artifact(folder, "tokenizer", "model")


def test_another_format_is_named(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(ArtifactError, match="has format 99, this version reads 1"):
        open_artifact(folder, "report")


@pytest.mark.parametrize("text", ["", "[]", "7", '"kind"', "{}", '{"kind": "report"}', "\xff"])
def test_a_manifest_that_is_none_is_torn(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_bytes(text.encode("latin-1"))
    with pytest.raises(ArtifactError, match="make the folder again"):
        open_artifact(folder, "report")


def test_inputs_whose_names_are_not_unicode_are_told_as_they_are(tmp_path: Path) -> None:
    data = tmp_path / os.fsdecode(b"caf\xe9 \xe5\xad\x97.txt")
    data.write_text("one")
    origin = Origin(command=f"bertworks x {data}", inputs={"data": data})
    with saving(tmp_path / "made", kind="report", origin=origin) as folder:
        (folder / "one").write_text("1")
    manifest = open_artifact(tmp_path / "made", "report")
    assert manifest["inputs"]["data"] == {"path": str(data), "sha256": sha256_of(data)}
    assert manifest["command"] == f"bertworks x {data}"
    assert "caf\\udce9 字.txt" in (tmp_path / "made" / MANIFEST).read_text(encoding="utf-8")


def test_a_folder_that_other_libraries_could_not_open_is_refused_before_work_begins(
    tmp_path: Path,
) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    for out in (odd, odd / "inner"):
        with pytest.raises(UsageError, match="is not Unicode; choose another --out"):
            refuse_existing(out)
    refuse_existing(tmp_path / "café")
    refuse_overwriting(odd / "file")


def test_a_missing_folder_and_a_bare_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="there is no folder"):
        open_artifact(tmp_path / "gone", "report")
    with pytest.raises(ArtifactError, match="has no manifest"):
        open_artifact(tmp_path, "report")


def test_an_artifact_is_not_overwritten(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(UsageError, match="exists already; choose another --out"):
        save(folder, {"one.bin": b"other"})
    assert contents(folder) == before


def test_a_file_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "made").write_text("someone's")
    with pytest.raises(UsageError, match="exists already"):
        save(tmp_path / "made")
    with pytest.raises(UsageError, match="exists already"):
        refuse_existing(tmp_path / "made")
    assert (tmp_path / "made").read_text() == "someone's"


def test_a_folder_with_anything_in_it_is_refused_before_work_begins(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "missing")
    refuse_existing(tmp_path)
    (tmp_path / "someone's").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        refuse_existing(tmp_path)


def test_a_run_folder_becomes_an_artifact_and_keeps_what_it_holds(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "log.jsonl").write_text("{}\n")
    (run / "inner").mkdir()
    (run / "inner" / "stale").write_text("from a save that was killed")
    save(run)
    assert is_whole(run, "report")
    assert (run / "log.jsonl").read_text() == "{}\n"
    assert (run / "checkpoints").is_dir()
    assert not (run / "inner" / "stale").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_moving_into_a_run_folder_is_not_whole_until_its_end(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace
    moved: list[str] = []

    def checking_replace(path: Path, target: Path) -> Path:
        assert not is_whole(run, "report")
        moved.append(target.name)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", checking_replace)
    save(run, {"one.bin": b"new", "z": b"after the manifest by name"})
    assert sorted(moved[:-1]) == ["one.bin", "z"]
    assert moved[-1] == MANIFEST
    assert is_whole(run, "report")
    assert contents(run)["one.bin"] == b"new"


def test_the_current_folder_can_be_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    save(Path())
    assert is_whole(tmp_path / "here", "report")
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_leftovers_of_dead_processes_are_swept_and_of_living_ones_kept(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    dead = tmp_path / f".made.tmp-{int(child.stdout)}"
    alive = tmp_path / f".made.tmp-{os.getppid()}"
    neighbour = tmp_path / f".other.tmp-{int(child.stdout)}"
    for leftover in (dead, alive, neighbour):
        leftover.mkdir()
        (leftover / "half").write_text("written")
    save(tmp_path / "made")
    assert {path.name for path in tmp_path.iterdir()} == {"made", alive.name, neighbour.name}


@pytest.mark.parametrize(
    "name",
    [
        ".made.tmp-notes",
        ".made.tmp-",
        ".made.tmp-99999999999999999999",
        ".made.tmp-1x",
        ".made.tmp-²",
    ],
)
def test_what_no_process_has_left_is_not_swept(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    save(tmp_path / "made")
    sweep_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"made", name}


@pytest.mark.parametrize("name", ["run[1]", "a*", "?", "two\nlines", "made.tmp-7"])
def test_leftovers_are_swept_whatever_the_name_is(tmp_path: Path, name: str) -> None:
    for leftover in (f".{name}.tmp-999999999", ".ab.tmp-999999999", ".run1.tmp-999999999"):
        (tmp_path / leftover).mkdir()
    save(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {
        name,
        ".ab.tmp-999999999",
        ".run1.tmp-999999999",
    }
    sweep_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    sweep_leftovers(tmp_path / "missing")


def test_a_copied_folder_stays_whole(folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "copy")
    assert is_whole(folder.parent / "copy", "report")


@pytest.mark.parametrize("data", [{"a": [1, "字"]}, [1], None, 3.5, "word"])
def test_json_that_others_wrote_is_read_as_it_is(tmp_path: Path, data: object) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    assert read_json(file) == data
    if isinstance(data, dict):
        assert read_object(file) == data
    else:
        with pytest.raises(
            ArtifactError, match=r"config\.json is not a JSON object; make or fetch"
        ):
            read_object(file)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"{'a': 1}", b"[" * 100_000])
def test_a_file_that_is_not_json_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    for read in (read_json, read_object):
        with pytest.raises(ArtifactError, match=r"config\.json is not JSON \(.*; make or fetch"):
            read(file)


def test_a_json_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for place in (tmp_path / "config.json", tmp_path):
        for read in (read_json, read_object):
            with pytest.raises(ArtifactError, match=f"there is no {place}; fetch the folder again"):
                read(place)
