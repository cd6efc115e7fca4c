"""Recipes: complete runs as TOML files, one table per command.

The table of a command of two words is named with a hyphen: `vocab shrink` reads [vocab-shrink].
"""

import tomllib
from pathlib import Path
from typing import Any

from bertworks.core.errors import UsageError
from bertworks.core.settings import suggestion

# Inside an installed package, or beside the sources.
FOLDERS = (Path(__file__).parents[1] / "recipes", Path(__file__).parents[3] / "recipes")


def read_recipe(name: str, command: str, *, commands: list[str]) -> dict[str, Any]:
    """Return the settings that a recipe, given by path or name, has for a command."""
    path = _find(name)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    wanted, known = table_name(command), [table_name(other) for other in commands]
    unknown = [table for table in tables if table not in known]
    if unknown:
        raise UsageError(
            f"{path} has {unknown[0]!r} at its top, which is no command"
            f"{suggestion(unknown[0], known)}; its tables are named after commands, "
            f"as [{wanted}]"
        )
    if not isinstance(tables.get(wanted), dict):
        raise UsageError(f"{path} has no table [{wanted}]; add one or choose another recipe")
    return {key.replace("-", "_"): value for key, value in tables[wanted].items()}


def table_name(command: str) -> str:
    """Return the table in which a recipe holds the settings of a command."""
    return command.replace(" ", "-")


def _find(name: str) -> Path:
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise UsageError(f"there is no recipe file {name}; check the path")
        return Path(name)
    for folder in FOLDERS:
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    known = sorted({path.stem for folder in FOLDERS for path in folder.glob("*.toml")})
    if not known:
        raise UsageError(
            f"there is no recipe {name!r} and no other here; give a file, as mine.toml"
        )
    raise UsageError(f"there is no recipe {name!r}; the recipes are {', '.join(known)}")
