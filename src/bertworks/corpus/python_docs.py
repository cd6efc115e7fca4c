"""Text that every Python carries: its reference, and the docstrings of its libraries."""

import ast
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

LEAST_PROSE = 60  # characters; shorter paragraphs are signatures and headings
SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
PACKAGES = ("networkx", "numpy", "scipy", "sklearn", "sympy")  # read where they are installed


@dataclass(frozen=True)
class Topic:
    """Paragraphs of prose about one subject: a reference topic or a module."""

    name: str
    paragraphs: tuple[str, ...]


def read_topics(packages: Sequence[str] = PACKAGES) -> Iterator[Topic]:
    """Yield every topic that has prose, in a fixed order: Python's own, then the packages'.

    A paragraph that stands in several places belongs to the first: it is about none of the others.
    """
    seen: set[str] = set()
    for name, texts in _sources(packages):
        prose = dict.fromkeys(paragraph for text in texts for paragraph in _prose(text))
        paragraphs = tuple(paragraph for paragraph in prose if paragraph not in seen)
        seen.update(paragraphs)
        if paragraphs:
            yield Topic(name, paragraphs)


def _sources(packages: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    reference: dict[str, str] = import_module("pydoc_data.topics").topics
    for name, text in sorted(reference.items()):
        yield f"reference/{name}", [text]
    yield from _modules("library", Path(sysconfig.get_path("stdlib")))
    for package in packages:
        yield from _modules(package, Path(sysconfig.get_path("purelib")) / package)


def _modules(name: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        if not SKIPPED_FOLDERS & set(place.parts):
            yield f"{name}/{place.with_suffix('')}", _docstrings(path)


def _docstrings(path: Path) -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # some files are made to be wrong
        return []
    nodes = (node for node in ast.walk(tree) if isinstance(node, documented))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def _prose(text: str) -> Iterator[str]:
    """Yield the paragraphs that read like sentences: no code, no tables, no signatures."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in block.splitlines()]
        paragraph = " ".join(filter(None, lines))
        letters = sum(char.isalpha() or char.isspace() for char in paragraph)
        is_code = paragraph.startswith(("::", "|", "+-", "==")) or ">>> " in paragraph
        is_code |= "---" in paragraph  # a heading with its underline, or a table
        if len(paragraph) >= LEAST_PROSE and letters > 0.8 * len(paragraph) and not is_code:
            yield paragraph
