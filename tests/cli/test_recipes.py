"""Recipes are found by name or path, and say only what commands know."""

import tomllib
from pathlib import Path

import pytest

from bertworks.cli.commands import COMMANDS
from bertworks.cli.recipes import FOLDERS, read_recipe
from bertworks.core.errors import UsageError
from bertworks.core.settings import read_values

NAMES = list(COMMANDS)
SHIPPED = sorted({path for folder in FOLDERS for path in folder.glob("*.toml")})


def resolve(recipe: str) -> dict[str, dict[str, object]]:
    """Return every table of a recipe as the settings of its command."""
    tables = tomllib.loads(Path(recipe).read_text(encoding="utf-8"))
    return {
        name: read_values(
            COMMANDS[name].settings, read_recipe(recipe, name, commands=NAMES), where=recipe
        )
        for name in tables
    }


def test_the_shipped_recipes_are_found() -> None:
    assert "quickstart" in {path.stem for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_holds_settings_that_its_commands_know(path: Path) -> None:
    resolved = resolve(str(path))
    assert resolved
    assert all(resolved.values())


def test_a_recipe_that_has_gone_stale_would_be_noticed(tmp_path: Path) -> None:
    stale = tmp_path / "stale.toml"
    stale.write_text(SHIPPED[0].read_text(encoding="utf-8").replace("steps", "num_steps"))
    with pytest.raises(UsageError, match="no setting 'num_steps'"):
        resolve(str(stale))


def test_a_recipe_is_the_same_by_name_and_by_path() -> None:
    path = next(path for path in SHIPPED if path.stem == "quickstart")
    for name in ("learn-vocab", "tokenize", "pretrain", "finetune"):
        by_name = read_recipe("quickstart", name, commands=NAMES)
        assert by_name == read_recipe(str(path), name, commands=NAMES)
        assert by_name


def test_an_unknown_name_lists_the_recipes_there_are() -> None:
    with pytest.raises(UsageError, match=r"no recipe 'quikstart'; the recipes are .*quickstart"):
        read_recipe("quikstart", "pretrain", commands=NAMES)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match=r"no recipe file gone/mine\.toml; check the path"):
        read_recipe("gone/mine.toml", "pretrain", commands=NAMES)


def test_a_recipe_in_another_encoding_is_named(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[pretrain]\nsize = 'tiny'\n", encoding="utf-16")
    with pytest.raises(UsageError, match=r"mine\.toml is not TOML"):
        read_recipe(str(recipe), "pretrain", commands=NAMES)


def test_hyphens_and_underscores_are_the_same(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[pretrain]\nbatch-tokens = 5\nmask_rate = 0.2\n")
    found = read_recipe(str(recipe), "pretrain", commands=NAMES)
    assert found == {"batch_tokens": 5, "mask_rate": 0.2}


def test_only_the_table_of_the_command_is_read(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[pretrain]\nsteps = 5\n[finetune]\nepochs = 2\n")
    assert read_recipe(str(recipe), "finetune", commands=NAMES) == {"epochs": 2}
    with pytest.raises(UsageError, match=r"has no table \[tokenize\]; add one or choose another"):
        read_recipe(str(recipe), "tokenize", commands=NAMES)
