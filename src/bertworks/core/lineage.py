"""Which commands led to a folder: manifests name what they were made of, and so on to the first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertworks.core.artifact import MANIFEST, read_manifest, sha256_of
from bertworks.core.errors import ArtifactError
from bertworks.core.file_pairs import is_pair
from bertworks.core.shipped import shipped_models

REWRITING = ("export", "import", "extend-positions", "vocab extend", "vocab shrink")


@dataclass
class Lineage:
    """The commands behind a folder, each once and the first one first."""

    commands: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # inputs that have gone or changed since
    _seen: set[Path] = field(default_factory=set, repr=False, compare=False)

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> "Lineage":
        """Follow the inputs of a folder as far as what made them is known."""
        found = cls()
        found._follow(manifest)
        return found

    def _follow(self, manifest: Mapping[str, Any]) -> None:
        for told in manifest["inputs"].values():
            path = _place(told["path"])
            try:
                folder = path if path.is_dir() else path.parent
                if folder in self._seen:
                    continue
                before = _manifest_of(folder, path, sha256=told["sha256"])
            except (ArtifactError, OSError):
                self.lost.append(told["path"])
                continue
            if before is not None:
                self._seen.add(folder)
                self._follow(before)
                self.commands.append(before["command"])


def names_of(folder: Path, *, through: tuple[str, ...] = ("export",)) -> list[str]:
    """Return by which sha256 a model is named as an input: its own, and of what it was made.

    That is what went through these commands to become it.
    """
    found, manifest = [sha256_of(folder / MANIFEST)], read_manifest(folder)
    commands = tuple(f"bertworks {name} " for name in through)
    while manifest["command"].startswith(commands) and "model" in manifest["inputs"]:
        told = manifest["inputs"]["model"]
        path = _place(told["path"])
        found.append(told["sha256"])
        if not (path / MANIFEST).is_file() or sha256_of(path / MANIFEST) != told["sha256"]:
            break
        manifest = read_manifest(path)
    return [name for name in found if name is not None]


def _place(path: str) -> Path:
    """Return where an input lies: models that come with the package are told by their names."""
    return shipped_models().get(path, Path(path))


def _manifest_of(folder: Path, path: Path, *, sha256: str | None) -> dict[str, Any] | None:
    """Return the manifest of an input, or of the folder that made it; None: it was made elsewhere.

    What has gone, or is not what it was, is an error.
    """
    if is_pair(path):
        return None  # two files of parallel lines, which no command writes
    if not path.exists():
        raise ArtifactError(f"{path} has gone")
    if not (folder / MANIFEST).is_file():
        return None
    manifest = read_manifest(folder)
    if path == folder:
        found = sha256_of(folder / MANIFEST)
    elif (name := path.relative_to(folder).as_posix()) in manifest["files"]:
        found = manifest["files"][name]["sha256"]
    else:
        return None  # a guest in that folder
    if found != sha256:
        raise ArtifactError(f"{path} has changed")
    return manifest
