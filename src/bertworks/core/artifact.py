"""Artifacts: folders that are whole or not there.

A stage fills a temporary folder beside the target. Its files are synced, `manifest.json` (names,
sizes, sha256, settings, inputs) is written last, and a rename makes the folder appear at once.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bertworks.core import __version__
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.file_pairs import is_pair, sides_of
from bertworks.core.lines import is_unicode, plain_suffix
from bertworks.core.shipped import is_shipped, shown

MANIFEST = "manifest.json"
FORMAT = 1
WEIGHTS = ("*.safetensors*", "generator/*.safetensors*")  # of a model, whatever their form
ESCAPED = (
    "backslashreplace"  # names of files need not be Unicode; JSON reads them back as they were
)
TEMPORARY = re.compile(r"\.(?P<name>.+)\.tmp-(?P<owner>[0-9]{1,9})", re.DOTALL)
Kind = Literal["documents", "pairs", "tokenizer", "shards", "model", "checkpoint", "report"]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an artifact comes from: enough to make it again."""

    command: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    inputs: dict[str, Path] = field(default_factory=dict)


@contextmanager
def saving(folder: Path, *, kind: Kind, origin: Origin) -> Iterator[Path]:
    """Lend a temporary folder; when the block ends well, it becomes the artifact `folder`."""
    if (folder / MANIFEST).exists() or folder.is_file():
        raise _exists_already(folder)
    target = folder.resolve()  # `.` and `..` have no name to put a temporary folder beside
    temporary = target.with_name(f".{target.name}.tmp-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep_leftovers(target.parent, target.name)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        yield temporary
        seal(temporary, kind, origin)
        publish(temporary, target)
    except OSError as error:
        raise ArtifactError(
            f"cannot write {folder}: {error.strerror or error}; free some space or choose another "
            "--out (what was there before is untouched)"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_artifact(folder: Path, *kinds: Kind) -> dict[str, Any]:
    """Return the manifest of a whole artifact of one of these kinds, after checking every file."""
    manifest = read_manifest(folder)
    if manifest["kind"] not in kinds:
        raise ArtifactError(
            f"{folder} holds {_named(manifest['kind'])}, but {_named(' or '.join(kinds))} "
            f"{'are' if _is_plural(kinds[-1]) else 'is'} needed here; check the path"
        )
    for name, expected in manifest["files"].items():
        _verify(folder / name, expected, remedy=_remedy(folder))
    if manifest["kind"] == "model":
        _refuse_strange_weights(folder, manifest["files"])
    return manifest


def check_artifact(folder: Path, *kinds: Kind) -> dict[str, Any]:
    """Check a folder as `open_artifact` does, and return what is known of its files by their names.

    One from elsewhere has no manifest and passes.
    """
    if (folder / MANIFEST).exists() or is_shipped(folder):
        return dict(open_artifact(folder, *kinds)["files"])
    return {}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder without looking at its files."""
    if not folder.is_dir():
        raise ArtifactError(f"there is no folder {folder}; check the path")
    path = folder / MANIFEST
    if not path.is_file():
        remedy = "reinstall bertworks" if is_shipped(folder) else "make it again"
        raise ArtifactError(f"{folder} has no {MANIFEST}: it is not whole, or not ours; {remedy}")
    try:
        manifest = json.loads(path.read_bytes())
        kind, files = manifest["kind"], manifest["files"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{path} is torn ({error}); {_remedy(folder)}") from error
    if manifest.get("format") != FORMAT or not _is_table(files) or not isinstance(kind, str):
        raise ArtifactError(
            f"{path} has format {manifest.get('format')}, this version reads {FORMAT}; "
            f"{_remedy(folder)}"
        )
    if manifest.get("sha256") != _digest(manifest):
        raise ArtifactError(f"{path} is damaged (its sha256 differs); {_remedy(folder)}")
    return manifest


def is_whole(folder: Path, kind: Kind) -> bool:
    """Tell whether the folder is an undamaged artifact of this kind."""
    try:
        open_artifact(folder, kind)
    except ArtifactError:
        return False
    return True


def read_json(file: Path) -> Any:
    """Read a JSON file of a folder that others may have written."""
    if not file.is_file():
        raise ArtifactError(f"there is no {file}; fetch the folder again, with all of its files")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(
            f"{file} is not JSON ({error}); make or fetch the folder again"
        ) from error


def read_object(file: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    data = read_json(file)
    if not isinstance(data, dict):
        raise ArtifactError(f"{file} is not a JSON object; make or fetch the folder again")
    return data


def first_change(
    folder: Path, begun: dict[str, Any], origin: Origin, *, free: Set[str]
) -> str | None:
    """Return what differs from the work that `begun` tells of, and what to do, or None.

    `begun` has settings and named inputs as a manifest has; settings that are free may differ, and
    so may where an input lies, for what it holds is compared.
    """
    before, now = begun["settings"], origin.settings
    found = {name: name_input(path) for name, path in origin.inputs.items()}
    for key in now:
        # One that was not there yet and is empty or off changes nothing.
        was = before.get(key) if key in before or now[key] else now[key]
        has_moved = key in found and _is_same(begun["inputs"].get(key, {}), found[key])
        if key not in free and was != now[key] and not has_moved:
            both = f"{folder} was begun with {key} = {was!r}, now {now[key]!r}"
            return f"{both}; resume with the same settings"
    for name, path in origin.inputs.items():
        if begun["inputs"].get(name, {}).get("sha256") != found[name]["sha256"]:
            if name not in begun["inputs"]:
                return f"{path} has come since {folder} was begun; take it away"
            return f"{path} has changed since {folder} was begun; put it back as it was"
    if gone := sorted(begun["inputs"].keys() - origin.inputs.keys()):
        path = begun["inputs"][gone[0]]["path"]
        return f"{path} has gone since {folder} was begun; put it back as it was"
    return None


def _is_same(told: dict[str, Any], found: dict[str, Any]) -> bool:
    """Tell whether two inputs are known to hold the same, and are read in the same way.

    Files are read by their suffix; of folders without a manifest it is not known what they hold.
    """
    if not told.get("sha256") or told["sha256"] != found["sha256"]:
        return False
    before, now = Path(told["path"]), Path(found["path"])
    return now.is_dir() or plain_suffix(before) == plain_suffix(now)


def refuse_existing(folder: Path) -> None:
    """Stop before work begins whose folder is not free, or could not be opened again."""
    if not is_unicode(str(folder.resolve())):
        raise UsageError(f"the name of {folder.resolve()} is not Unicode; choose another --out")
    refuse_overwriting(folder)


def refuse_overwriting(path: Path) -> None:
    """Stop before work begins that would have to overwrite something."""
    is_free = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    if not is_free:
        raise _exists_already(path)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file so that it is on the disk when this returns."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_synced(path: Path, data: bytes) -> None:
    """Put a file on the disk in one step, in place of the old one."""
    temporary = half_written(path)
    write_synced(temporary, data)
    temporary.replace(path)


def half_written(path: Path) -> Path:
    """Return where a file is written before it is put in its place, and may be left by a kill."""
    return path.with_name(f".{path.name}.tmp")


def sync_folder(folder: Path) -> None:
    """Put a folder's list of names on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove the temporary folders that dead processes left in a folder, for a name or for all."""
    for leftover in folder.iterdir() if folder.is_dir() else ():
        found = TEMPORARY.fullmatch(leftover.name)
        if found and name in (None, found["name"]) and not _is_alive(int(found["owner"])):
            shutil.rmtree(leftover, ignore_errors=True)


def name_input(path: Path) -> dict[str, Any]:
    """Name an input by its manifest's hash, or by its own when it is a plain file or two."""
    if is_pair(path):
        both = "".join(map(sha256_of, sides_of(path)))
        return {"path": str(path), "sha256": hashlib.sha256(both.encode()).hexdigest()}
    named = path / MANIFEST if path.is_dir() else path
    return {"path": shown(path), "sha256": sha256_of(named) if named.is_file() else None}


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path, kind: Kind, origin: Origin) -> None:
    """Put a folder's files on the disk, then the manifest that names them."""
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        files[str(path.relative_to(folder))] = _fingerprint(path)
    manifest: dict[str, Any] = {
        "kind": kind,
        "format": FORMAT,
        "version": __version__,
        **asdict(origin),
        "inputs": {name: name_input(path) for name, path in origin.inputs.items()},
        "files": files,
    }
    manifest["sha256"] = _digest(manifest)
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    write_synced(folder / MANIFEST, text.encode(errors=ESCAPED))
    for inner in filter(Path.is_dir, folder.rglob("*")):
        sync_folder(inner)
    sync_folder(folder)


def publish(temporary: Path, folder: Path) -> None:
    """Let a sealed folder appear in its place."""
    if folder.is_dir():
        _publish_inside(temporary, folder)
    else:
        temporary.rename(folder)
    sync_folder(folder.parent)


def _publish_inside(temporary: Path, folder: Path) -> None:
    """Move the files into an existing folder; while they move it has no manifest."""
    (folder / MANIFEST).unlink(missing_ok=True)
    names = sorted((path.name for path in temporary.iterdir()), key=lambda name: name == MANIFEST)
    for name in names:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        (temporary / name).replace(folder / name)
    sync_folder(folder)


def _named(kind: str) -> str:
    return kind if _is_plural(kind) else f"a {kind}"


def _is_plural(kind: str) -> bool:
    return kind.endswith("s")


def _exists_already(folder: Path) -> UsageError:
    return UsageError(f"{folder} exists already; choose another --out or remove it first")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _digest(manifest: dict[str, Any]) -> str:
    """Return the sha256 of all that a manifest says but this."""
    said = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _fingerprint(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": sha256_of(path)}


def _is_table(files: Any) -> bool:
    """Tell whether files are told by their names, each with its size and sha256."""
    return isinstance(files, dict) and all(
        isinstance(told, dict) and told.keys() >= {"size", "sha256"} for told in files.values()
    )


def _remedy(folder: Path) -> str:
    is_ours = any(map(is_shipped, (folder, *folder.parents)))
    return "reinstall bertworks" if is_ours else "make the folder again"


def _refuse_strange_weights(folder: Path, known: Mapping[str, Any]) -> None:
    """Stop at weights that the manifest does not name, for they may be read in place of others."""
    found = (path for place in WEIGHTS for path in sorted(folder.glob(place)))
    for path in found:
        if path.name[0] != "." and path.relative_to(folder).as_posix() not in known:
            raise ArtifactError(
                f"{path} is none of the files that the manifest of {folder} names, but weights are "
                "read by such a name; remove it"
            )


def _verify(path: Path, expected: dict[str, Any], *, remedy: str) -> None:
    if not path.is_file():
        raise ArtifactError(f"{path} is missing; {remedy}")
    size = path.stat().st_size
    if size != expected["size"]:
        raise ArtifactError(
            f"{path} has {size} bytes, its manifest says {expected['size']}; {remedy}"
        )
    if sha256_of(path) != expected["sha256"]:
        raise ArtifactError(f"{path} is damaged (its sha256 differs); {remedy}")
