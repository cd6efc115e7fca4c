"""What several processes do together at the disk: begin the same run, write one checkpoint."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertworks.core.artifact import Kind, Origin, name_input, saving
from bertworks.core.crew import Crew
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.training.sharding import part_name

MAY_DIFFER = {"device", "workers", "threads", "lost_after"}  # from machine to machine


def refuse_strangers(crew: Crew, origin: Origin) -> None:
    """Fail where the processes were started with different settings or inputs."""
    if crew.size == 1:
        return
    inputs = {name: name_input(path)["sha256"] for name, path in origin.inputs.items()}
    own = {k: v for k, v in origin.settings.items() if k not in MAY_DIFFER} | inputs
    for rank, others in enumerate(crew.gather(own)):
        for name, value in own.items():
            if others.get(name) != value:
                raise UsageError(
                    f"process {rank} has {name} = {others.get(name)!r}, process {crew.rank} has "
                    f"{value!r}; start all with the same flags and files"
                )


@contextmanager
def saving_together(folder: Path, writers: Crew, *, kind: Kind, origin: Origin) -> Iterator[Path]:
    """Lend one temporary folder to all writers; when each is done, it becomes the artifact."""
    if writers.size == 1:
        with saving(folder, kind=kind, origin=origin) as temporary:
            yield temporary
    elif writers.is_first:
        with saving(folder, kind=kind, origin=origin) as temporary, _all_well(folder, writers):
            writers.agree(str(temporary))
            yield temporary
        writers.agree(None)
    else:
        with _all_well(folder, writers):
            temporary = Path(writers.agree(""))
            yield temporary
            _sync_own(temporary, writers)
        writers.agree(None)  # it is in its place


@contextmanager
def _all_well(folder: Path, writers: Crew) -> Iterator[None]:
    """Fail in all processes if the disk has refused one of them something."""
    refusal = ""
    try:
        yield
    except OSError as error:
        refusal = error.strerror or str(error)
    for rank, found in enumerate(writers.gather(refusal)):
        if found:
            raise ArtifactError(
                f"process {rank} cannot write {folder}: {found}; free some space and continue with "
                "--resume auto"
            )


def _sync_own(folder: Path, writers: Crew) -> None:
    for path in folder.glob(f"{part_name('*', writers)}.safetensors"):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
