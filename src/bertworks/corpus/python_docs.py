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
    """Yield every topic that has prose, in a fixed order: Python's own, then the packages'."""
    reference: dict[str, str] = import_module("pydoc_data.topics").topics
    for name, text in sorted(reference.items()):
        yield from _topic(f"reference/{name}", [text])
    yield from _modules("library", Path(sysconfig.get_path("stdlib")))
    for package in packages:
        folder = Path(sysconfig.get_path("purelib")) / package
        yield from _modules(package, folder)


def _modules(name: str, folder: Path) -> Iterator[Topic]:
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        if not SKIPPED_FOLDERS & set(place.parts):
            yield from _topic(f"{name}/{place.with_suffix('')}", _docstrings(path))


def _topic(name: str, texts: list[str]) -> Iterator[Topic]:
    paragraphs = tuple(p for text in texts for p in _prose(text))
    if paragraphs:
        yield Topic(name, paragraphs)


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
