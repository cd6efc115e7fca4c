"""Files that grow chunk by chunk, and can be gone on with after whatever ended the work.

Until it is whole, `OUT` lies beside its place as `OUT.partial`. `OUT.partial.json` tells how much
of that is surely on the disk, how far the work had come then, and from what it is made; what lies
behind is cut off before the work goes on. Of a file that may be asked for again, `OUT.made.json`
tells from what it was made.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from bertworks.core.artifact import (
    MANIFEST,
    read_manifest,
    refuse_overwriting,
    replace_synced,
    sha256_of,
    sync_folder,
)
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.lock import hold

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
HEAD_BYTES = 1 << 16  # of an output, which tell it from another of the same size and time


class Growing:
    """A file that is being written, and how far the work on it has come."""

    def __init__(
        self, target: Path, file: IO[bytes], begun: dict[str, Any], *, is_told: bool
    ) -> None:
        self.target = target
        self.file = file
        self.begun = begun
        self.is_told = is_told  # beside the whole file, from what it was made
        self.state: dict[str, Any] = {}
        self.result: dict[str, Any] = {}  # what is said of the whole file, also when asked again

    def write(self, data: bytes) -> None:
        """Add to the end of the file."""
        self.file.write(data)

    def commit(self, state: dict[str, Any], *, head: bytes = b"") -> None:
        """Put all that was written on the disk, then the note that it is there.

        A head stands in place of the first bytes.
        """
        size = self.file.tell()
        if head:
            self.file.seek(0)
            self.file.write(head)
            self.file.seek(size)
        self.file.flush()
        os.fsync(self.file.fileno())
        told = {"begun": self.begun, "size": size, "state": state}
        _write_note(note_of(self.target), told)
        self.state = state

    def publish(self, made: Path | None = None) -> None:
        """Let the file, or another one that was made of it, appear in its place."""
        partial = partial_of(self.target)
        self._tell(made)
        (made or partial).replace(self.target)
        self.file.close()
        partial.unlink(missing_ok=True)
        note_of(self.target).unlink(missing_ok=True)
        sync_folder(self.target.parent)

    def _tell(self, made: Path | None) -> None:
        """Note from what the file is made that is about to appear."""
        note = made_of(self.target)
        if not self.is_told:
            note.unlink(missing_ok=True)
            return
        # To open and close the file that grows once more would free the lock on it.
        with made.open("rb") if made else nullcontext(self.file) as file:
            likeness = _likeness(file)
        _write_note(note, {"begun": self.begun, "file": likeness, "result": self.result})


def partial_of(target: Path) -> Path:
    """Return where a file lies until it is whole."""
    return target.with_name(target.name + ".partial")


def note_of(target: Path) -> Path:
    """Return what tells how much of an unfinished file is sure."""
    return target.with_name(target.name + ".partial.json")


def made_of(target: Path) -> Path:
    """Return what tells from what a whole file was made."""
    return target.with_name(target.name + ".made.json")


def finished(target: Path, begun: dict[str, Any]) -> dict[str, Any] | None:
    """Return what was said of a whole file that was made from the same; None: there is no file."""
    if not target.is_file():
        return None
    told = _read_note(made_of(target), "file", "begun", "result")
    with target.open("rb") as file:
        is_made = told is not None and told["file"] == _likeness(file)
    if told is None or not is_made:
        raise UsageError(
            f"{target} exists already, and nothing beside it tells that this made it; choose "
            "another --out or remove it first"
        )
    if change := _change(told["begun"], begun):
        raise UsageError(f"{target} {change}; choose another --out or remove it first")
    with suppress(OSError):  # a kill may have left them
        note_of(target).unlink(missing_ok=True)
        partial_of(target).unlink(missing_ok=True)
    return dict(told["result"])


@contextmanager
def growing(target: Path, begun: dict[str, Any], *, resume: bool, keep: bool) -> Iterator[Growing]:
    """Lend a file to be published when it is whole.

    It goes on from where an earlier one ended that was made from the same. If the block fails, what
    is sure is kept to be gone on with, or nothing is.
    """
    refuse_overwriting(target)
    if target.is_dir():
        raise UsageError(f"{target} is a folder; name a file in it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        told = _told(target, begun, resume=resume)
        _claim(target)
        told = told and _told(target, begun, resume=resume)
        with partial_of(target).open("r+b") as file:
            file.truncate(told.get("size", 0))
            file.seek(0, os.SEEK_END)
            lent = Growing(target, file, begun, is_told=resume)
            lent.state = told.get("state", {})
            try:
                yield lent
            finally:
                _leave(lent, keep=keep)
    except OSError as error:
        is_kept = note_of(target).exists()
        remedy = "free some space" if error.errno in FULL else "mend that"
        raise ArtifactError(
            f"cannot write {target}: {error.strerror or error}; {remedy} "
            + ("and run it again with --resume auto" if is_kept else "or choose another --out")
        ) from error


def fingerprint(path: Path) -> str:
    """Tell an input from others by its content alone; a manifest speaks for the files it names."""
    if not path.is_dir():
        return sha256_of(path) if path.is_file() else ""
    told = {
        name: sha for folder in path.rglob(MANIFEST) for name, sha in _told_files(folder.parent)
    }
    files = sorted(file for file in path.rglob("*") if file.is_file())
    parts = [[str(f.relative_to(path)), told.get(f) or sha256_of(f)] for f in files]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _told_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files that a manifest names, with their sha256."""
    with suppress(ArtifactError):  # a torn one names none
        for name, file in read_manifest(folder)["files"].items():
            yield folder / name, file["sha256"]


def _likeness(file: IO[bytes]) -> str:
    """Tell an open file from others whatever its name."""
    status = os.fstat(file.fileno())
    head = hashlib.sha256(os.pread(file.fileno(), HEAD_BYTES, 0)).hexdigest()
    return f"{status.st_size} {status.st_mtime_ns} {head}"


def _write_note(note: Path, told: dict[str, Any]) -> None:
    replace_synced(note, json.dumps(told).encode())


def _read_note(note: Path, *keys: str) -> dict[str, Any] | None:
    """Return what a note tells, if it is there and tells these."""
    try:
        told = json.loads(note.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and told.keys() >= set(keys) else None


def _claim(target: Path) -> None:
    """Keep other processes from writing a file."""
    partial = partial_of(target)
    if not hold(partial):
        raise UsageError(
            f"another process is writing {target}; wait for it or choose another --out"
        )
    if target.is_file():  # another process has made it just now
        partial.unlink(missing_ok=True)
        refuse_overwriting(target)


def _told(target: Path, begun: dict[str, Any], *, resume: bool) -> dict[str, Any]:
    """Return what an earlier note tells, of work that may go on."""
    partial, note = partial_of(target), note_of(target)
    if not partial.exists() or not note.exists():
        return {}
    if not resume:
        raise UsageError(
            f"{partial} is the beginning of an unfinished {target.name}; go on with --resume auto "
            f"or remove it"
        )
    told = _read_note(note, "size", "begun", "state")
    if told is None:
        raise ArtifactError(f"{note} is damaged; remove it and {partial}")
    if change := _change(told["begun"], begun):
        raise UsageError(f"{partial} {change}; put that back as it was, or remove {partial}")
    size = told["size"]
    if partial.stat().st_size < size:
        raise ArtifactError(
            f"{partial} has {partial.stat().st_size} bytes, but {size} were written; remove it"
        )
    return told


def _change(before: dict[str, Any], begun: dict[str, Any]) -> str | None:
    """Say what was another when the work was begun, if anything was."""
    for key in sorted(begun.keys() | before.keys()):
        if before.get(key) != begun.get(key):
            if key.startswith("content of "):
                return f"was begun before the {key} changed"
            return f"was begun with {key} = {before.get(key)!r}, now {begun.get(key)!r}"
    return None


def _leave(lent: Growing, *, keep: bool) -> None:
    """Cut off what is not sure, or remove what is not to be gone on with."""
    if lent.file.closed:
        return
    with suppress(OSError):
        lent.file.flush()  # a full disk may fail again here
    note = note_of(lent.target)
    with suppress(OSError, ValueError):
        told = _read_note(note, "size") or {}
        if keep and told.get("size"):
            os.truncate(lent.file.fileno(), told["size"])
        else:
            note.unlink(missing_ok=True)
            partial_of(lent.target).unlink(missing_ok=True)
    with suppress(OSError):
        lent.file.close()  # last, because it frees the lock: now the file may be another's
