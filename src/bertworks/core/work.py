"""Work that goes on after a kill: an unfinished artifact beside its place, and how far it is good.

    .NAME.work/out/...        the files of the artifact; they only grow
    .NAME.work/...            files that the work needs and the artifact does not
    .NAME.work/journal.json   what the work was begun with, its state, and the size of every file

The journal is replaced in one step after the files are on the disk. Going on means cutting every
file to the size that the journal knows, so the end is the same however often the work was killed.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertworks.core import __version__
from bertworks.core.artifact import (
    MANIFEST,
    Kind,
    Origin,
    first_change,
    half_written,
    name_input,
    open_artifact,
    publish,
    refuse_existing,
    replace_synced,
    seal,
    sync_folder,
)
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.lock import hold
from bertworks.core.progress import say

JOURNAL = "journal.json"
LOCK = "lock"
FREE_SETTINGS = {"resume", "out", "workers"}


class Work:
    """A folder for files that only grow, and the state that belongs to them."""

    def __init__(self, folder: Path, begun: dict[str, Any]) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.begun = begun
        self.state: dict[str, Any] | None = None  # of the last commit; None: at the beginning
        self._synced: dict[str, tuple[int, int]] = {}  # size and time of files on the disk

    def commit(self, state: dict[str, Any]) -> None:
        """Put all files on the disk, then the state that they are in."""
        found = {name: _size_and_time(path) for name, path in self._files().items()}
        for name in found:
            if found[name] != self._synced.get(name):
                _sync(self.folder / name)
        for folder in (self.out, self.folder):
            sync_folder(folder)
        sizes = {name: size for name, (size, _) in found.items()}
        journal = {"begun": self.begun, "state": state, "sizes": sizes}
        replace_synced(self.folder / JOURNAL, json.dumps(journal).encode())
        sync_folder(self.folder)
        self.state, self._synced = state, found

    def clear(self) -> None:
        """Throw away all that was done."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
        self.out.mkdir()

    def rewind(self, journal: dict[str, Any]) -> bool:
        """Cut the files back to what a journal says; tell whether all of it is there."""
        files, sizes = self._files(), journal["sizes"]
        if any(name not in files or files[name].stat().st_size < sizes[name] for name in sizes):
            return False
        for name, path in files.items():
            if name in sizes:
                os.truncate(path, sizes[name])
            else:
                path.unlink()
        self.state = journal["state"]
        return True

    def _files(self) -> dict[str, Path]:
        own = (JOURNAL, half_written(Path(JOURNAL)).name, LOCK)
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {str(p.relative_to(self.folder)): p for p in paths if p.name not in own}


@contextmanager
def working(target: Path, *, kind: Kind, origin: Origin, resume: bool) -> Iterator[Work]:
    """Lend a work that becomes the artifact `target` when the block ends well.

    With `resume` it goes on where another stopped, and is left for the next when it fails.
    """
    refuse_existing(target)
    place = target.resolve()
    folder = _folder(place)
    is_done = is_kept = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = _begin(folder, target, origin, resume=resume)
        try:
            yield work
            seal(work.out, kind, origin)
            publish(work.out, place)
            is_done = True
        finally:
            is_kept = resume and not is_done and work.state is not None
            if not is_kept:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        rest = "what was done is kept for --resume auto" if is_kept else "nothing was written"
        raise ArtifactError(
            f"cannot write {target}: {error.strerror or error}; free some space or choose another "
            f"--out ({rest})"
        ) from error


def was_done(target: Path, *, kind: Kind, origin: Origin) -> bool:
    """Tell whether a folder is the whole result of these settings and inputs; refuse one of others.

    What a kill in the last moment left beside it is swept away.
    """
    if not (target / MANIFEST).exists():
        return False
    if change := first_change(target, open_artifact(target, kind), origin, free=FREE_SETTINGS):
        raise UsageError(f"{change}, or choose another --out")
    shutil.rmtree(_folder(target.resolve()), ignore_errors=True)
    return True


def _folder(place: Path) -> Path:
    return place.with_name(f".{place.name}.work")


def _begin(folder: Path, target: Path, origin: Origin, *, resume: bool) -> Work:
    if not hold(folder / LOCK):
        raise UsageError(
            f"another process is writing {target} now; wait for its end or choose another --out"
        )
    inputs = {name: name_input(path) for name, path in origin.inputs.items()}
    work = Work(folder, {"version": __version__, "settings": origin.settings, "inputs": inputs})
    journal = _read_journal(folder) if resume else None
    if journal is not None:
        _check(journal["begun"], target, origin)
        if work.rewind(journal):
            return work
        say(f"warning: {folder} has lost files; beginning again")
    work.clear()
    return work


def _check(begun: dict[str, Any], target: Path, origin: Origin) -> None:
    if begun["version"] != __version__:
        change = f"{target} was begun by version {begun['version']}; go on with that version"
    elif not (change := first_change(target, begun, origin, free=FREE_SETTINGS) or ""):
        return
    raise UsageError(f"{change}, or begin again with --resume never")


def _read_journal(folder: Path) -> dict[str, Any] | None:
    try:
        return json.loads((folder / JOURNAL).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        say(f"warning: {folder / JOURNAL} is torn; beginning again")
        return None


def _size_and_time(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
