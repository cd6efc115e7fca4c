"""Every Python carries enough prose to learn from."""

import sysconfig
from pathlib import Path

import pytest

from bertworks.corpus.python_docs import LEAST_PROSE, Topic, read_topics

PROSE = "This sentence is long enough to be taken for prose by a reader of documentation."


@pytest.fixture(scope="module")
def topics() -> list[Topic]:
    """Read all topics of Python itself once."""
    return list(read_topics(packages=()))


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a small library and a small package folder in the place of Python's own."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    return tmp_path / "stdlib"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def modules(*packages: str) -> dict[str, tuple[str, ...]]:
    """Return what is read from modules, without the language reference."""
    found = {topic.name: topic.paragraphs for topic in read_topics(packages)}
    return {name: found[name] for name in found if not name.startswith("reference/")}


def test_there_is_over_a_million_characters_about_hundreds_of_subjects(
    topics: list[Topic],
) -> None:
    assert len(topics) > 300
    assert sum(len(p) for topic in topics for p in topic.paragraphs) > 1_000_000
    assert len({topic.name for topic in topics}) == len(topics)
    assert {topic.name.partition("/")[0] for topic in topics} == {"reference", "library"}


def test_the_order_is_fixed(topics: list[Topic]) -> None:
    assert list(read_topics(packages=())) == topics
    reference = [topic.name for topic in topics if topic.name.startswith("reference/")]
    assert reference == sorted(reference)
    assert [topic.name for topic in topics[: len(reference)]] == reference


def test_paragraphs_are_prose(topics: list[Topic]) -> None:
    paragraphs = [p for topic in topics for p in topic.paragraphs]
    assert min(map(len, paragraphs)) >= LEAST_PROSE
    assert not [p for p in paragraphs if ">>> " in p or "\n" in p or p != p.strip()]
    common = sum(" the " in p.lower() or " a " in p.lower() for p in paragraphs)
    assert common > 0.8 * len(paragraphs)


def test_docstrings_of_modules_classes_and_functions_are_taken(library: Path) -> None:
    write(
        library / "tool.py",
        f'"""Module. {PROSE}"""\n'
        f'class A:\n    """Class. {PROSE}"""\n    def f(self):\n        """Method. {PROSE}"""\n'
        f'async def g():\n    """Coroutine. {PROSE}"""\n'
        f"x = '''Not a docstring. {PROSE}'''\n",
    )
    taken = modules()["library/tool"]
    assert {text.split(".")[0] for text in taken} == {"Module", "Class", "Method", "Coroutine"}


def test_code_tables_and_short_lines_are_left_out(library: Path) -> None:
    blocks = [
        PROSE,
        f">>> print('{PROSE}')",
        f"An example: >>> print('{PROSE}')",
        f"| {PROSE} | a cell |",
        f"Heading --- {PROSE}",
        "Short.",
        "x = [(1, 2), (3, 4)]; y = {5: 6, 7: 8}; z = (x, y)[0][1] + 9 * (10 - 11) / 12 % 13",
    ]
    write(library / "tool.py", '"""' + "\n\n".join(blocks) + '"""\n')
    assert modules() == {"library/tool": (PROSE,)}


def test_broken_files_tests_and_installed_packages_are_passed_over(library: Path) -> None:
    documented = f'"""{PROSE}"""\n'
    for name in ("good.py", "inner/also.py", "test/a.py", "site-packages/b.py", "inner/tests/c.py"):
        write(library / name, f'"""{PROSE} It is about {name}."""')
    write(library / "broken.py", f"{documented}def (:\n")
    (library / "bytes.py").write_bytes(b"\xff\xfe" + documented.encode())
    assert list(modules()) == ["library/good", "library/inner/also"]


def test_packages_follow_in_the_order_asked_for_where_they_are_installed(library: Path) -> None:
    write(library / "own.py", f'"""{PROSE}"""')
    for package in ("b", "a"):
        path = library.parent / "purelib" / package / "core.py"
        write(path, f'"""{PROSE} It is about {package}."""')
    assert list(modules("b", "gone", "a")) == ["library/own", "b/core", "a/core"]


def test_a_paragraph_that_stands_in_two_modules_belongs_to_the_first(library: Path) -> None:
    write(library / "first.py", f'"""{PROSE}"""')
    write(library / "second.py", f'"""{PROSE}\n\n{PROSE} And more."""')
    assert modules() == {"library/first": (PROSE,), "library/second": (f"{PROSE} And more.",)}
