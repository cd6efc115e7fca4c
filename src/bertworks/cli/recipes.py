"""Recipes: complete runs as TOML files, one table per command."""

import tomllib
from pathlib import Path

from bertworks.core.errors import UsageError

# Inside an installed package, or beside the sources.
FOLDERS = (Path(__file__).parents[1] / "recipes", Path(__file__).parents[3] / "recipes")


def find_recipe(name: str) -> Path:
    """Return the file of a recipe, given by its path or by its name."""
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise UsageError(f"there is no recipe file {name}; check the path")
        return Path(name)
    for folder in FOLDERS:
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    known = sorted({path.stem for folder in FOLDERS for path in folder.glob("*.toml")})
    raise UsageError(f"there is no recipe {name!r}; the recipes are {', '.join(known)}")


def check_recipe(path: Path, command: str, *, commands: set[str]) -> None:
    """Stop unless the file is TOML with tables for commands, one of them for this one."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    unknown = [name for name in tables if name not in commands]
    if unknown:
        raise UsageError(
            f"{path} has {unknown[0]!r} at its top, which is no command; "
            f"its tables are named after commands, as [{command}]"
        )
    if command not in tables:
        raise UsageError(f"{path} has no table [{command}]; add one or choose another recipe")
