"""Which commands led to a folder: manifests name what they were made of, and so on to the first."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertworks.core.artifact import MANIFEST, name_input, read_manifest
from bertworks.core.errors import ArtifactError


def commands_behind(manifest: Mapping[str, Any]) -> list[str]:
    """Return the commands that made the inputs of a folder, each once and the first one first.

    Inputs that were not made here have none; of those that have gone or changed it is not known.
    """
    found: dict[str, None] = {}
    for told in manifest["inputs"].values():
        before = _manifest_of(Path(told["path"]), sha256=told["sha256"])
        if before is not None:
            found |= dict.fromkeys([*commands_behind(before), before["command"]])
    return list(found)


def _manifest_of(path: Path, *, sha256: str) -> dict[str, Any] | None:
    """Return the manifest of an input, or of the folder that it is a file of."""
    folder = path if path.is_dir() else path.parent
    if not (folder / MANIFEST).is_file() or name_input(path)["sha256"] != sha256:
        return None
    try:
        manifest = read_manifest(folder)
    except ArtifactError:
        return None
    is_part = path == folder or path.relative_to(folder).as_posix() in manifest["files"]
    return manifest if is_part else None
