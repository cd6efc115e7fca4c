"""Files that grow chunk by chunk, and can be gone on with after whatever ended the work.

Until it is whole, `OUT` lies beside its place as `OUT.partial`. `OUT.partial.json` tells how much
of that is surely on the disk, how far the work had come then, and from what it is made; what lies
behind is cut off before the work goes on.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from bertworks.core.artifact import refuse_existing, sync_folder, write_synced
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.lock import hold

HEAD_BYTES = 1 << 16  # of an input, which tell it from another of the same size and time


class Growing:
    """A file that is being written, and how far the work on it has come."""

    def __init__(self, target: Path, file: IO[bytes], begun: dict[str, Any]) -> None:
        self.target = target
        self.file = file
        self.begun = begun
        self.state: dict[str, Any] = {}

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
        note = note_of(self.target)
        fresh = note.with_name(note.name + ".tmp")
        write_synced(fresh, json.dumps(told, ensure_ascii=False).encode())
        fresh.replace(note)
        self.state = state

    def publish(self, made: Path | None = None) -> None:
        """Let the file, or another one that was made of it, appear in its place."""
        partial = partial_of(self.target)
        (made or partial).replace(self.target)
        self.file.close()
        partial.unlink(missing_ok=True)
        note_of(self.target).unlink(missing_ok=True)
        sync_folder(self.target.parent)


def partial_of(target: Path) -> Path:
    """Return where a file lies until it is whole."""
    return target.with_name(target.name + ".partial")


def note_of(target: Path) -> Path:
    """Return what tells how much of an unfinished file is sure."""
    return target.with_name(target.name + ".partial.json")


@contextmanager
def growing(target: Path, begun: dict[str, Any], *, resume: bool, keep: bool) -> Iterator[Growing]:
    """Lend a file to be published when it is whole.

    It goes on from where an earlier one ended that was made from the same. If the block fails, what
    is sure is kept to be gone on with, or nothing is.
    """
    refuse_existing(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        told = _told(target, begun, resume=resume)
        if not hold(partial_of(target)):
            raise UsageError(
                f"another process is writing {target}; wait for it or choose another --out"
            )
        with partial_of(target).open("r+b") as file:
            file.truncate(told.get("size", 0))
            file.seek(0, os.SEEK_END)
            lent = Growing(target, file, begun)
            lent.state = told.get("state", {})
            try:
                yield lent
            finally:
                _leave(lent, keep=keep)
    except OSError as error:
        is_kept = note_of(target).exists()
        raise ArtifactError(
            f"cannot write {target}: {error.strerror or error}; free some space "
            + ("and run it again with --resume auto" if is_kept else "or choose another --out")
        ) from error


def fingerprint(path: Path) -> str:
    """Tell an input from others without reading all of it: by sizes, times and first bytes."""
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            status = file.stat()
            found.update(f"{file.name} {status.st_size} {status.st_mtime_ns}".encode())
            with file.open("rb") as stream:
                found.update(stream.read(HEAD_BYTES))
    return found.hexdigest()


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
    try:
        told: dict[str, Any] = json.loads(note.read_bytes())
        size, before = told["size"], told["begun"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{note} is damaged; remove it and {partial}") from error
    _refuse_change(partial, before, begun)
    if partial.stat().st_size < size:
        raise ArtifactError(
            f"{partial} has {partial.stat().st_size} bytes, but {size} were written; remove it"
        )
    return told


def _refuse_change(partial: Path, before: dict[str, Any], begun: dict[str, Any]) -> None:
    for key in sorted(begun.keys() | before.keys()):
        if before.get(key) != begun.get(key):
            found = f"was begun with {key} = {before.get(key)!r}, now {begun.get(key)!r}"
            if key.startswith("content of "):
                found = f"was begun before the {key} changed"
            raise UsageError(f"{partial} {found}; put that back as it was, or remove {partial}")


def _leave(lent: Growing, *, keep: bool) -> None:
    """Cut off what is not sure, or remove what is not to be gone on with."""
    if lent.file.closed:
        return
    with suppress(OSError):
        lent.file.close()  # a full disk may fail again here
    partial, note = partial_of(lent.target), note_of(lent.target)
    with suppress(OSError, ValueError):
        if keep and lent.state:
            os.truncate(partial, json.loads(note.read_bytes())["size"])
            return
        note.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
