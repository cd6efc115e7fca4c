"""The model that another one's weights are told against: noted, and found again."""

import hashlib
import json
import os
from pathlib import Path

from bertworks.core.artifact import check_artifact, read_object, sha256_of
from bertworks.core.errors import ArtifactError
from bertworks.core.shipped import is_shipped, shipped_models
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.model.weights import DIFFERENCE, find_weights

NOTE = "base.json"


def note_base(folder: Path, base: Path) -> None:
    """Write down, in a folder that is being saved, which model its weights are told against."""
    # From beside the folder, so that both may go elsewhere together.
    place = os.path.relpath(base.resolve(), folder.parent.resolve())
    named = {"name": base.name} if is_shipped(base) else {"place": place}
    told = {**named, "sha256": _sha256_of_weights(base)}
    (folder / NOTE).write_text(json.dumps(told, indent=1, ensure_ascii=False), encoding="utf-8")


def find_base(folder: Path) -> Path:
    """Return the model that the weights of a folder are told against, if it is still the same."""
    told = read_object(folder / NOTE)
    name, place = told.get("name"), told.get("place")
    if isinstance(name, str):
        base, where = shipped_models().get(name), f"the model {name} that comes with bertworks"
    elif isinstance(place, str) and not Path(place).is_absolute():
        base = Path(os.path.normpath(folder.resolve().parent / place))
        where = f"the model {base}"
    else:
        raise ArtifactError(f"{folder / NOTE} names no model; make or fetch the folder again")
    if base is None or not base.is_dir():
        remedy = "put it there" if base else "this version has none of this name, so install one"
        raise ArtifactError(
            f"{folder} holds how far its weights are from those of {where}, which is not there; "
            f"{remedy}, or fetch this model whole"
        )
    if _sha256_of_weights(base) != told.get("sha256"):
        raise ArtifactError(
            f"{base} has other weights than the model that {folder} was made against (their "
            "sha256 differs); put that one there, or fetch this one whole"
        )
    return base


def _sha256_of_weights(model: Path) -> str:
    """Check a model and return by what its weights are known: its other files may change."""
    known = check_artifact(model, "model")
    files = find_weights(encoder_folder(model))
    if files[0].name == DIFFERENCE:
        files.append(files[0].with_name(NOTE))
    shas = []
    for file in files:
        if not file.is_file():
            raise ArtifactError(f"there is no {file}; fetch the folder again")
        told = known.get(file.relative_to(model).as_posix())
        shas.append(told["sha256"] if told else sha256_of(file))
    return shas[0] if len(shas) == 1 else hashlib.sha256("".join(shas).encode()).hexdigest()
