"""Models that come with the package: folders of `bertworks.models`, given by their names."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from bertworks.core.progress import say

PLACE = Path(str(files("bertworks"))) / "models"


def shipped_models() -> dict[str, Path]:
    """Return the folders of the models that come with the package, by their names."""
    files = ("manifest.json", "config.json")  # one of both may have been lost, which is then said
    found = sorted({path.parent for name in files for path in PLACE.glob(f"*/{name}")})
    return {folder.name: folder for folder in found}


def find_model(path: Path) -> Path:
    """Return the folder of a model that is given by its path, or by its name if it is shipped.

    A folder on this disk comes before a shipped model of the same name; this is said.
    """
    own = shipped_models().get(str(path))
    if own is None:
        return path
    if path.exists():
        _tell(path, Path.cwd())
        return path
    return own


def is_shipped(folder: Path) -> bool:
    """Tell whether a folder is that of a model which comes with the package."""
    return folder.parent == PLACE


def shown(path: Path) -> str:
    """Return the name of a shipped model, and any other path as it is: what a command can say."""
    return path.name if is_shipped(path) else str(path)


@cache  # once is enough, though a command looks for its model more than once
def _tell(path: Path, place: Path) -> None:
    say(
        f"{path} is the folder in {place}, not the model of this name that comes with bertworks; "
        "for that one, rename the folder or work elsewhere"
    )
