"""Work that goes on: after a kill at any moment the artifact ends in the same bytes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bertworks
from bertworks.core import work as work_module
from bertworks.core.artifact import MANIFEST, Origin, is_whole
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.work import was_done, working

SOURCES = str(Path(bertworks.__file__).parents[1])
LINES = 11


def write(out: Path, *, resume: bool = True, stop: int | None = None, **settings: Any) -> int:
    """Write numbered lines into two files, committing every third; return where it began."""
    origin = Origin(settings={"size": 1, "workers": 2, **settings}, inputs=INPUTS)
    with working(out, kind="documents", origin=origin, resume=resume) as work:
        begun = at = 0 if work.state is None else work.state["lines"]
        while at < LINES:
            with (work.out / f"part-{at // 5}").open("a") as file:
                file.write(f"{at}\n")
            with (work.folder / "notes").open("a") as file:
                file.write(f"{at * at}\n")
            at += 1
            if at == stop:
                raise RuntimeError("stopped")
            if at % 3 == 0:
                work.commit({"lines": at})
        assert (work.folder / "notes").read_text().split() == [str(n * n) for n in range(LINES)]
    return begun


INPUTS: dict[str, Path] = {}


def parts(out: Path) -> list[str]:
    """Return what an artifact holds, after checking that it is whole and alone."""
    assert is_whole(out, "documents")
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    return [path.read_text() for path in sorted(out.glob("part-*"))]


WHOLE = ["0\n1\n2\n3\n4\n", "5\n6\n7\n8\n9\n", "10\n"]


@pytest.mark.parametrize("resume", [True, False])
def test_work_that_ends_well_becomes_an_artifact(resume: bool, tmp_path: Path) -> None:
    assert write(tmp_path / "out", resume=resume) == 0
    assert parts(tmp_path / "out") == WHOLE


@pytest.mark.parametrize("stop", range(1, LINES + 1))
def test_work_goes_on_from_its_last_commit(stop: int, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write(tmp_path / "out", stop=stop)
    assert not (tmp_path / "out").exists()
    assert write(tmp_path / "out", workers=5) == (stop - 1) // 3 * 3
    assert parts(tmp_path / "out") == WHOLE


def test_work_that_is_not_to_be_resumed_begins_anew_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write(tmp_path / "out", stop=8)
    assert [path.name for path in tmp_path.iterdir()] == [".out.work"]
    with pytest.raises(RuntimeError):
        write(tmp_path / "out", resume=False, stop=8)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("event", ["fsync", "replace"])
def test_a_kill_at_any_sync_or_rename_is_survived(event: str, tmp_path: Path) -> None:
    script = (
        f"import os, signal, sys; sys.path[:0] = [{SOURCES!r}, {str(Path(__file__).parent)!r}]\n"
        "from pathlib import Path\nimport test_work\n"
        f"count, real = 0, os.{event}\n"
        "def fatal(*args, **kwargs):\n"
        "    global count\n    count += 1\n"
        "    if count == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(*args, **kwargs)\n"
        f"os.{event} = fatal\n"
        "test_work.write(Path(sys.argv[1]))\n"
    )
    for number in range(1, 60, 4):
        out = tmp_path / str(number) / "out"
        out.parent.mkdir()
        done = subprocess.run([sys.executable, "-c", script, str(out), str(number)], check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        if not was_done(out, kind="documents", origin=Origin(settings={"size": 1})):
            write(out)
        assert parts(out) == WHOLE
        if done.returncode == 0:
            break
    assert number > 1


def test_work_with_other_settings_or_inputs_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("a")
    INPUTS["source"] = source
    out = tmp_path / "made" / "out"
    try:
        with pytest.raises(RuntimeError):
            write(out, stop=8)
        with pytest.raises(UsageError, match=r"begun with size = 1, now 2.*--resume never"):
            write(out, size=2)
        source.write_text("b")
        with pytest.raises(UsageError, match=r"source has changed since .*out was begun"):
            write(out)
        source.write_text("a")
        del INPUTS["source"]
        with pytest.raises(UsageError, match=r"source has gone since .*out was begun; put it back"):
            write(out)
        INPUTS.update(source=source, other=source)
        with pytest.raises(UsageError, match=r"source has come since .*out was begun; take it"):
            write(out)
        del INPUTS["other"]
        assert write(out) == 6
    finally:
        INPUTS.clear()


def test_work_begun_by_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(work_module, "__version__", "0.0.7")
        with pytest.raises(RuntimeError):
            write(tmp_path / "out", stop=8)
    with pytest.raises(UsageError, match=r"begun by version 0\.0\.7; go on with that version"):
        write(tmp_path / "out")


@pytest.mark.parametrize("damage", ["torn", "lost", "short", "gone"])
def test_damaged_work_begins_anew(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError):
        write(tmp_path / "out", stop=8)
    folder = tmp_path / ".out.work"
    acts: dict[str, Callable[[], object]] = {
        "torn": lambda: os.truncate(folder / "journal.json", 40),
        "gone": lambda: (folder / "journal.json").unlink(),
        "lost": lambda: (folder / "out" / "part-0").unlink(),
        "short": lambda: os.truncate(folder / "notes", 3),
    }
    acts[damage]()
    assert write(tmp_path / "out") == 0
    assert parts(tmp_path / "out") == WHOLE
    assert ("beginning again" in capsys.readouterr().err) == (damage != "gone")


def test_two_processes_do_not_work_at_one_place(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\nfrom pathlib import Path\n"
        "from bertworks.core.artifact import Origin\nfrom bertworks.core.work import working\n"
        "with working(Path(sys.argv[1]), kind='documents', origin=Origin(), resume=True):\n"
        "    print('begun', flush=True)\n    sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", script, str(out)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"begun\n"
        for resume in (True, False):
            with pytest.raises(UsageError, match=r"another process is writing .*out now"):
                write(out, resume=resume)
    assert is_whole(out, "documents")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter").write_text("dear")
    with pytest.raises(UsageError, match="exists already"):
        write(tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "letter"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    assert parts(tmp_path / "out") == WHOLE


@pytest.mark.parametrize("resume", [True, False])
def test_a_disk_that_refuses_is_one_sentence(
    resume: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        calls = iter(range(9))

        def refuse(path: Path) -> None:
            if next(calls) > 3:
                raise OSError(28, "No space left on device")

        broken.setattr(work_module, "_sync", refuse)
        with pytest.raises(ArtifactError, match=r"cannot write .*out: No space left on device"):
            write(tmp_path / "out", resume=resume)
    assert bool(list(tmp_path.iterdir())) == resume
    assert (write(tmp_path / "out") > 0) == resume
    assert parts(tmp_path / "out") == WHOLE


def test_what_is_said_to_be_kept_is_there(tmp_path: Path) -> None:
    def fill_the_disk(out: Path, commits: int) -> None:
        with working(out, kind="documents", origin=Origin(), resume=True) as work:
            for number in range(commits):
                work.commit({"lines": number})
            raise OSError(28, "No space left on device")

    for commits, message in ((0, "nothing was written"), (1, "kept for --resume auto")):
        with pytest.raises(ArtifactError, match=message):
            fill_the_disk(tmp_path / "out", commits)
        assert bool(list(tmp_path.iterdir())) == bool(commits)


def test_finished_work_is_known_by_its_settings_and_its_leftovers_are_swept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out)
    (tmp_path / ".out.work").mkdir()
    same, other = Origin(settings={"size": 1, "workers": 9}), Origin(settings={"size": 2})
    with pytest.raises(UsageError, match=r"begun with size = 1, now 2; .*or choose another --out"):
        was_done(out, kind="documents", origin=other)
    assert was_done(out, kind="documents", origin=same)
    assert parts(out) == WHOLE
    assert not was_done(tmp_path / "nowhere", kind="documents", origin=same)
    (out / "part-1").write_text("5\n")
    with pytest.raises(ArtifactError, match="part-1"):
        was_done(out, kind="documents", origin=same)


# The control


def test_files_that_are_not_cut_back_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError):
        write(tmp_path / "out", stop=8)
    monkeypatch.setattr(os, "truncate", lambda path, size: None)
    with pytest.raises(AssertionError):
        write(tmp_path / "out")


def test_the_journal_names_what_the_work_was_begun_with(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write(tmp_path / "out", stop=8)
    journal = json.loads((tmp_path / ".out.work" / "journal.json").read_text())
    assert journal["begun"]["settings"] == {"size": 1, "workers": 2}
    assert journal["state"] == {"lines": 6}
    assert journal["sizes"] == {"notes": 14, "out/part-0": 10, "out/part-1": 2}
    assert MANIFEST not in journal["sizes"]
