"""The shape of the repository itself."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bertworks
from bertworks.cli.commands import COMMANDS
from bertworks.core.errors import UsageError
from bertworks.core.settings import read_values

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "bertworks"
TESTS = ROOT / "tests"
LONGEST_MODULE = 400
MODULES = [path for path in sorted(SOURCE.glob("*/*.py")) if path.stem != "__init__"]
TEXT_MODULES = [path for path in MODULES if path.parent.name in ("corpus", "tokenizer")]
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))


def imported(path: Path) -> set[str]:
    """Return the top names of everything that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def loads_torch(code: str) -> bool:
    """Tell whether running some code in a fresh process brings in torch."""
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
    script += "sys.stderr.write(str('torch' in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        text=True,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    assert done.stderr in ("True", "False"), done.stderr
    return done.stderr == "True"


def test_the_modules_are_found() -> None:
    assert len(MODULES) > 30
    assert {path.parent.name for path in TEXT_MODULES} == {"corpus", "tokenizer"}
    assert RECIPES


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_has_its_test_file(module: Path) -> None:
    place = module.relative_to(SOURCE)
    assert (TESTS / place.parent / f"test_{place.name}").is_file()


def test_no_module_outgrows_one_sitting() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert not [str(path) for path, length in lengths.items() if length > LONGEST_MODULE]


def test_every_module_says_what_it_is_for() -> None:
    silent = [p for p in SOURCE.rglob("*.py") if not ast.get_docstring(ast.parse(p.read_bytes()))]
    assert not silent


PICKLING = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "multiprocessing"}


def test_nothing_of_the_service_names_a_way_to_pickle(tmp_path: Path) -> None:
    service = [*(SOURCE / "service").glob("*.py"), SOURCE / "stages" / "serve.py"]
    assert not [str(path) for path in service if imported(path) & PICKLING]
    odd = tmp_path / "odd.py"
    odd.write_text("def read(line):\n    from multiprocessing.connection import Client\n")
    assert imported(odd) & PICKLING


def test_every_package_that_is_asked_for_has_one_exact_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert not [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.+!-]+", pin)]
    pinned = {_package(pin) for pin in pins}
    assert len(pinned) == len(pins)
    extras = [name for group in project["optional-dependencies"].values() for name in group]
    asked = {_package(line) for line in [*project["dependencies"], *extras]} - {"bertworks"}
    assert not asked - pinned


def _package(line: str) -> str:
    return re.split(r"[^\w.-]", line)[0].lower().replace("_", "-")


def test_text_work_never_names_torch() -> None:
    assert not [str(path) for path in TEXT_MODULES if "torch" in imported(path)]
    assert "torch" in imported(SOURCE / "core" / "batch.py")


def test_text_work_never_loads_torch() -> None:
    names = [".".join(p.relative_to(SOURCE.parent).with_suffix("").parts) for p in TEXT_MODULES]
    assert not loads_torch(f"import {', '.join(names)}")


def test_importing_the_package_loads_no_torch() -> None:
    assert not loads_torch("import bertworks; bertworks.__version__")
    assert loads_torch("import bertworks; bertworks.load")


def test_the_package_names_what_it_brings_in_later() -> None:
    assert not loads_torch("import bertworks; dir(bertworks); bertworks.BertworksError")
    assert {"BertworksError", "Predictor", "load", "__doc__", "__version__"} <= set(dir(bertworks))
    assert [name for name in dir(bertworks) if name[0] != "_"] == [
        name for name in bertworks.__all__ if name[0] != "_"
    ]
    assert issubclass(UsageError, bertworks.BertworksError)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_loads_no_torch(command: str) -> None:
    words = [word for word in (command, "--help") if word]
    assert not loads_torch(f"from bertworks.cli.main import main; main({words!r})")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_hold_only_tables_and_settings_of_commands(recipe: Path) -> None:
    tables = tomllib.loads(recipe.read_text(encoding="utf-8"))
    assert tables
    assert set(tables) <= set(COMMANDS)
    for name, table in tables.items():
        values = {key.replace("-", "_"): value for key, value in table.items()}
        read_values(COMMANDS[name].settings, values, where=f"{recipe.name} [{name}]")
