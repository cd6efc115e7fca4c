"""Recipes are found by name or path, and say only what commands know."""

import json
import random
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertworks.cli import recipes
from bertworks.cli.commands import COMMANDS
from bertworks.cli.main import parse
from bertworks.cli.recipes import FOLDERS, read_recipe
from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp, read_values

NAMES = list(COMMANDS)
SHIPPED = sorted({path for folder in FOLDERS for path in folder.glob("*.toml")})

NETWORKS = [
    path
    for path in SHIPPED
    if path.stem not in ("quickstart", "mixers")
    and "[pretrain]" in path.read_text(encoding="utf-8")
]


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


def test_where_there_are_no_recipes_a_file_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipes, "FOLDERS", (tmp_path, tmp_path / "gone"))
    sentence = r"no recipe 'quickstart' and no other here; give a file, as mine\.toml$"
    with pytest.raises(UsageError, match=sentence):
        read_recipe("quickstart", "pretrain", commands=NAMES)


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


# Each pre-trains: the same settings for a tiny network of the same family


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory, command: Callable[..., Any]) -> Path:
    """Tokenize a few documents with pieces of words."""
    folder = tmp_path_factory.mktemp("recipes")
    chance = random.Random(4)
    words = ["river", "boat", "water", "engine", "wheel", "road", "swim", "drive"]
    documents = (
        "\n".join(" ".join(chance.choices(words, k=6)) + "." for _ in range(4)) for _ in range(40)
    )
    (folder / "text.txt").write_text("\n\n".join(documents))
    text, tokenizer, out = folder / "text.txt", folder / "tokenizer", folder / "shards"
    learned = command("learn-vocab", text, "--out", tokenizer, "--size", 90)
    assert learned.code == 0, learned.err
    words = ["tokenize", text, "--tokenizer", tokenizer, "--out", out]
    tokenized = command(*words, "--held-out", 0.2, "--workers", 1)
    assert tokenized.code == 0, tokenized.err
    return out


@pytest.mark.parametrize("path", NETWORKS, ids=lambda path: path.stem)
def test_every_recipe_of_a_network_trains_a_tiny_one_of_its_kind(
    path: Path, shards: Path, tmp_path: Path, command: Callable[..., Any]
) -> None:
    settings = resolve(str(path))["pretrain"]
    family = str(settings["size"]).rpartition("-")[0]
    changed = {"size": f"{family}-2x64", "longest": 32, "batch-tokens": 512, "accumulate": 2}
    changed |= {"steps": 2, "evaluate-every": 1, "checkpoint-every": 1}
    if "short_longest" in settings:
        changed |= {"short-longest": 16, "short-share": 0.5}
    words = [word for name, value in changed.items() for word in (f"--{name}", value)]
    ended = command(
        "pretrain", shards, "--recipe", path.stem, "--out", tmp_path / "run", *words, "--json"
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["steps"] == 2


def test_a_flag_for_the_time_puts_the_steps_of_a_recipe_aside(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[pretrain]\nsteps = 5\nlr = 0.5\n")
    words = ["pretrain", "shards", "--out", "run", "--recipe", str(recipe)]
    _, by_steps, _ = parse(words)
    _, by_time, _ = parse([*words, "--budget", "25m"])
    assert (by_steps.steps, by_steps.budget) == (5, None)
    assert (by_time.steps, by_time.budget, by_time.lr) == (None, "25m", 0.5)
    assert by_time.mask_rate == by_steps.mask_rate
    _, by_both, _ = parse([*words, "--budget", "25m", "--steps", "9"])
    assert (by_both.steps, by_both.budget) == (9, "25m")
    recipe.write_text("[pretrain]\nbudget = '2h'\n")
    _, by_steps, _ = parse([*words, "--steps", "7"])
    assert (by_steps.steps, by_steps.budget) == (7, None)


def test_of_a_recipe_with_steps_and_a_budget_a_flag_changes_its_own_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.toml"
    told = 'mask_rate = "0.3..0.2"\nshort_longest = 16\nsteps = 9\nbudget = "25m"\n'
    recipe.write_text(f"[pretrain]\n{told}")
    words = ["pretrain", "shards", "--out", "run", "--recipe", str(recipe)]
    _, by_recipe, _ = parse(words)
    _, sooner, _ = parse([*words, "--budget", "3m"])
    _, longer, _ = parse([*words, "--steps", "19"])
    assert sooner == replace(by_recipe, budget=sooner.budget)
    assert longer == replace(by_recipe, steps=19)
    assert sooner.budget != by_recipe.budget
    assert capsys.readouterr().err == ""


def test_a_flag_for_the_time_settles_what_moves_over_the_steps_of_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[pretrain]\nmask_rate = "0.3..0.2"\nshort_longest = 16\nsteps = 9\n')
    words = ["pretrain", "shards", "--out", "run", "--recipe", str(recipe)]
    _, by_steps, _ = parse(words)
    assert (by_steps.mask_rate, by_steps.short_longest) == (Ramp(0.3, 0.2), 16)
    assert capsys.readouterr().err == ""
    _, by_time, _ = parse([*words, "--budget", "25m"])
    assert (by_time.mask_rate, by_time.short_longest) == (Ramp(0.2, 0.2), None)
    said = capsys.readouterr().err
    assert "--budget counts no steps, so the recipe's mask_rate 0.3..0.2 stays at 0.2" in said
    assert "the recipe's short_longest 16 is left out" in said
    _, told, _ = parse([*words, "--budget", "25m", "--mask-rate", "0.4..0.1"])
    assert "mask_rate" not in capsys.readouterr().err  # for it is told by a flag
    assert told.mask_rate == Ramp(0.4, 0.1)  # which pretrain refuses, and says what to type
    _, by_both, _ = parse([*words, "--budget", "25m", "--steps", "7"])
    assert (by_both.mask_rate, by_both.short_longest) == (Ramp(0.3, 0.2), 16)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["bert-base", "modern-6x384"])
def test_a_recipe_with_ramps_can_be_run_by_time(
    name: str, shards: Path, tmp_path: Path, command: Callable[..., Any]
) -> None:
    small = ["--size", "2x64", "--longest", 32, "--batch-tokens", 512, "--accumulate", 1]
    words = ["pretrain", shards, "--recipe", name, "--out", tmp_path / "run", *small]
    ended = command(*words, "--budget", "3s", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["steps"] > 1
