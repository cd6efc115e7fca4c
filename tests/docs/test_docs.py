"""What the pages say is so: tables, links, commands, trees, tests and examples."""

import inspect
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bertworks
from bertworks.cli.commands import COMMANDS
from bertworks.cli.main import parse
from bertworks.core.artifact import Origin
from bertworks.core.errors import UsageError
from bertworks.core.lines import LONGEST_LINE
from bertworks.core.quarantine import LARGEST_SHARE, MOST_KEPT
from bertworks.corpus.document import LONGEST_DOCUMENT
from bertworks.model.config import SIZES
from bertworks.service.http_app import AppSettings, make_app
from bertworks.service.models import Models
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.health import MOST_BAD_IN_A_ROW
from bertworks.training.run import KEPT_CHECKPOINTS

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "bertworks"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
}
READMES = ("README.md", "README.zh-CN.md")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HEADINGS = ["What it is for", "What it reads", "What it writes", "Settings", "Example"]
NUMBERS, FRACTIONS = {2: "two", 3: "three", 4: "four"}, {0.05: "a twentieth", 0.1: "a tenth"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str, kind: str) -> list[str]:
    """Return the code blocks of one kind."""
    return [body for found, body in BLOCK.findall(text) if found == kind]


def headings(text: str) -> list[tuple[int, str]]:
    """Return level and words of every heading."""
    found = re.findall(r"^(#+) (.+)$", BLOCK.sub("", text), re.MULTILINE)
    return [(len(marks), words) for marks, words in found]


# Command pages


def page_of(command: str) -> str:
    """Return the name of a command's page."""
    return command.replace(" ", "-")


def check_tables(docs: Path) -> subprocess.CompletedProcess[str]:
    """Run `settings_tables.py --check` of a docs folder."""
    return subprocess.run(
        [sys.executable, str(docs / "settings_tables.py"), "--check"],
        env={"PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def copy_docs(folder: Path) -> Path:
    """Copy the command pages and the script that writes their tables."""
    (folder / "commands").mkdir(parents=True)
    for path in ("settings_tables.py", *(f"commands/{page_of(name)}.md" for name in COMMANDS)):
        (folder / path).write_bytes((ROOT / "docs" / path).read_bytes())
    return folder


def test_the_settings_tables_are_fresh() -> None:
    done = check_tables(ROOT / "docs")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("old", "new"), [("| `--seed N` | `0` |", "| `--seed N` | `1` |"), ("<!-- settings -->\n", "")]
)
def test_a_stale_table_would_be_noticed(tmp_path: Path, old: str, new: str) -> None:
    docs = copy_docs(tmp_path / "docs")
    page = docs / "commands" / "pretrain.md"
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new), encoding="utf-8")
    done = check_tables(docs)
    assert done.returncode == 1
    assert "pretrain.md" in done.stdout + done.stderr
    assert page.read_text(encoding="utf-8") == text.replace(old, new)


def test_the_picture_of_the_schedules_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "schedules.py"), "--check"],
        env={"PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_page_with_the_five_headings(name: str) -> None:
    expected = [(1, name), *((2, words) for words in HEADINGS)]
    assert headings(PAGES[f"docs/commands/{page_of(name)}.md"]) == expected


def test_every_command_page_is_about_a_command() -> None:
    pages = {Path(name).stem for name in PAGES if name.startswith("docs/commands/")}
    assert pages == set(map(page_of, COMMANDS))


# Links


def links(text: str) -> list[str]:
    """Return the links of a page that lead into the repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", text))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def target(page: Path, link: str) -> Path:
    """Return the file that a link of a page leads to."""
    place = link.partition("#")[0]
    return (page.parent / place).resolve() if place else page


def leads_somewhere(page: Path, link: str) -> bool:
    """Tell whether the file of a link is there, and the heading in it."""
    path, name = target(page, link), link.partition("#")[2]
    if not path.exists() or not name:
        return path.exists()
    words = (words.lower() for _, words in headings(path.read_text(encoding="utf-8")))
    return name in {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in words}


def test_every_link_leads_somewhere() -> None:
    pairs = [(name, link) for name, text in PAGES.items() for link in links(text)]
    assert len(pairs) > 50
    assert [pair for pair in pairs if not leads_somewhere(ROOT / pair[0], pair[1])] == []


def test_a_link_to_nowhere_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Is it here?\n[a](#is-it-here) [b](#no) [c](no.md) [d](page.md#no) [e](x:y)\n"
    )
    broken = [link for link in links(page.read_text()) if not leads_somewhere(page, link)]
    assert broken == ["#no", "no.md", "page.md#no"]


def test_every_page_is_linked_from_another() -> None:
    reached = {target(ROOT / n, link) for n, text in PAGES.items() for link in links(text)}
    assert [name for name in PAGES if ROOT / name not in reached] == []


# Commands


def command_lines(text: str) -> list[list[str]]:
    """Return the words of every `bertworks …` line in the shell blocks of a page."""
    lines = [
        shlex.split(line.rpartition(" | ")[2])
        for body in blocks(text, "bash")
        for line in body.replace("\\\n", " ").splitlines()
    ]
    return [words[1:] for words in lines if words[:1] == ["bertworks"]]


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if command_lines(text)])
def test_every_command_line_is_understood(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for recipe in blocks(PAGES[name], "toml"):  # each begins with its own name
        Path(recipe.splitlines()[0].removeprefix("# ")).write_text(recipe, encoding="utf-8")
    for words in command_lines(PAGES[name]):
        parse(words)


def test_command_lines_are_found_and_wrong_ones_would_be_noticed() -> None:
    shell = "echo x | bertworks predict --model m \\\n  --data -\nbertworks pretrain s --stepz 3\n"
    good, bad = command_lines(f"```bash\n{shell}```")
    assert parse(good)[0] == "predict"
    with pytest.raises(UsageError, match="did you mean --steps"):
        parse(bad)


def test_every_command_has_an_example_on_its_page() -> None:
    for name in COMMANDS:
        lines = command_lines(PAGES[f"docs/commands/{page_of(name)}.md"])
        assert name in {" ".join(words[: len(name.split())]) for words in lines}


# Things that pages name


def named(pattern: str) -> set[str]:
    """Return what a pattern finds on all pages, place-holders left out."""
    found = {name for text in PAGES.values() for name in re.findall(pattern, text, re.MULTILINE)}
    assert found  # else the pattern is wrong
    return {name for name in found if "NAME" not in name}


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named(r"(?:`|^)make ([a-z-]+)") <= set(targets)


def test_every_benchmark_that_a_page_names_exists() -> None:
    there = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert named(r"BENCH=(\w+)") <= there


def test_every_test_that_a_page_names_exists() -> None:
    missing = []
    for name in named(r"`(tests/[\w/]+\.py(?:::\w+)?)`"):
        path, _, function = name.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
        if f"def {function}" not in text:
            missing.append(name)
    assert missing == []


def test_every_source_file_that_a_page_names_exists() -> None:
    packages = "|".join(path.name for path in SOURCE.iterdir() if path.is_dir())
    files = named(rf"`(?:src/bertworks/)?((?:{packages})/\w+\.py)`")
    not_taken = {"evaluation/metrics.py"}  # a decision tells why
    assert {name for name in files if not (SOURCE / name).is_file()} == not_taken


def test_the_numbers_in_the_pages_are_those_of_the_code() -> None:
    formats, pretrain = PAGES["docs/data-formats.md"], PAGES["docs/commands/pretrain.md"]
    assert f"longer than {LONGEST_LINE:,} bytes" in formats
    assert f"({LONGEST_DOCUMENT:,} in JSONL" in formats
    assert f"Up to {MOST_KEPT:,} rows" in formats
    assert f"more than {FRACTIONS[LARGEST_SHARE]} of the rows is bad" in formats
    assert f"the {NUMBERS[KEPT_CHECKPOINTS]} newest checkpoints" in pretrain
    assert f"more than {NUMBERS[MOST_BAD_IN_A_ROW]} in a row end" in pretrain
    for size, (layers, width) in SIZES.items():
        assert f"{size} {layers}x{width}" in pretrain.replace("\n", " ")


# The two READMEs


def tree(text: str) -> dict[str, set[str]]:
    """Return the packages of the tree in a README, each with the modules it names."""
    packages: dict[str, set[str]] = {}
    package = ""
    for line in text.splitlines():
        if begun := re.match(r"    │   [├└]── (\w+)/ ", line):
            package = begun[1]
            packages[package] = set()
        elif package and (listed := re.match(r"    │   [│ ] {10,}([a-z_ ]+)$", line)):
            packages[package] |= set(listed[1].split())
        else:
            package = ""
    return packages


def packages_there() -> dict[str, set[str]]:
    """Return the packages that exist, with their modules."""
    return {
        folder.name: {path.stem for path in folder.glob("*.py")} - {"__init__"}
        for folder in SOURCE.iterdir()
        if (folder / "__init__.py").is_file()
    }


@pytest.mark.parametrize("name", READMES)
def test_the_tree_names_every_package_and_module_and_no_other(name: str) -> None:
    assert tree(PAGES[name]) == packages_there()


@pytest.mark.parametrize("name", READMES)
def test_the_tree_names_nothing_at_the_top_that_is_not_there(name: str) -> None:
    names = re.findall(r"^    [├└]── ([\w./]+)", PAGES[name], re.MULTILINE)
    assert len(names) >= 6
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_a_package_or_module_missing_from_the_tree_would_be_noticed() -> None:
    text = PAGES["README.md"]
    assert tree(text.replace("── interop/ ", "── interim/ ")) != packages_there()
    assert tree(text.replace("windows loader", "windows")) != packages_there()


def test_both_readmes_have_the_same_shape() -> None:
    english, chinese = (PAGES[name] for name in READMES)
    assert [level for level, _ in headings(english)] == [level for level, _ in headings(chinese)]
    assert BLOCK.findall(english) == BLOCK.findall(chinese)
    assert links(english)[1:] == links(chinese)[1:]  # the first leads to each other


# Python


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, config, tokenizer) -> Path:
    """Make the models of the pages, tiny and untrained, where they look for them."""
    folder = tmp_path_factory.mktemp("models")
    made = {
        "quickstart/pretrained": [make_task("fill_mask"), make_task("next_sentence")],
        "quickstart/pretrained-match": [make_task("match", ("other", "same"))],
        "models/en-de": [make_task("generate")],
    }
    for name, tasks in made.items():
        model = TaskModel(config, tasks, seed=3)
        save_model(folder / name, model, tokenizer, origin=Origin())
    return folder


PYTHON = {
    f"{name} {number}": body
    for name, text in PAGES.items()
    for number, body in enumerate(blocks(text, "python"), start=1)
}


@pytest.fixture(scope="session")
def service(models: Path, serve_app: Callable[..., Any]) -> Iterator[str]:
    """Serve the two models under the names that the pages give them."""
    folder = models / "quickstart"
    served = Models.open([f"match={folder / 'pretrained-match'}", f"bert={folder / 'pretrained'}"])
    with serve_app(make_app(served, AppSettings())) as address:
        yield address
    served.stop(1.0)


@pytest.mark.parametrize("name", PYTHON)
def test_every_python_block_runs(
    name: str, models: Path, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models)
    body = PYTHON[name].replace("http://127.0.0.1:8080", service)
    exec(compile(body, name, "exec"), {"__name__": "page"})


@pytest.mark.parametrize(
    "function",
    [
        bertworks.load,
        bertworks.Predictor.fill_mask,
        bertworks.Predictor.predict,
        bertworks.Predictor.embed,
        bertworks.Predictor.rank,
        bertworks.Predictor.classify,
        bertworks.Predictor.generate,
    ],
    ids=lambda function: function.__name__,
)
def test_the_python_page_shows_the_arguments_as_they_are(function: Callable[..., object]) -> None:
    parameters = inspect.signature(function).parameters.values()
    words = []
    for parameter in (p for p in parameters if p.name != "self"):
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default, stars = parameter.default, "**" * (parameter.kind is parameter.VAR_KEYWORD)
        value = f'"{default}"' if isinstance(default, str) else default
        name = stars + parameter.name
        words.append(name if default is parameter.empty else f"{name}={value}")
    assert f"`{function.__name__}({', '.join(words)})`" in PAGES["docs/python-api.md"]


# Examples


def usages(path: Path) -> list[list[str]]:
    """Return the command lines in the docstring of an example, without the interpreter."""
    lines = runpy.run_path(str(path))["__doc__"].splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("python ")]


def test_examples_are_few_and_short() -> None:
    assert 1 <= len(EXAMPLES) <= 5
    for path in EXAMPLES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs_as_it_says(
    path: Path, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(models)
    (models / "lines.txt").write_text("the cat sat\nA dog ran over the hill\n\n北京\n")
    pair = '{"text": "the cat", "text_b": "a dog", "label": "same"}\n'
    (models / "quickstart" / "test.jsonl").write_text(pair * 3)
    assert usages(path)
    for words in usages(path):
        assert words[0] == f"examples/{path.name}"
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(path), run_name="__main__")
        assert len(capsys.readouterr().out.splitlines()) >= 3
