"""Every Python carries enough prose to learn from."""

import sysconfig
from pathlib import Path

import pytest

from bertworks.corpus.python_docs import LEAST_PROSE, Topic, read_topics

PROSE = "This sentence is long enough to be taken for prose by a reader of documentation."


@pytest.fixture(scope="module")
def topics() -> list[Topic]:
    """Read all topics once."""
    return list(read_topics())


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a small library in the place of Python's own."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    return tmp_path


def library_topics() -> dict[str, tuple[str, ...]]:
    found = {topic.name: topic.paragraphs for topic in read_topics()}
    return {name: found[name] for name in found if name.startswith("library/")}


def test_there_is_over_a_million_characters_about_hundreds_of_subjects(
    topics: list[Topic],
) -> None:
    assert len(topics) > 300
    assert sum(len(p) for topic in topics for p in topic.paragraphs) > 1_000_000
    assert len({topic.name for topic in topics}) == len(topics)
    assert {topic.name.partition("/")[0] for topic in topics} == {"reference", "library"}


def test_the_order_is_fixed(topics: list[Topic]) -> None:
    assert list(read_topics()) == topics
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
    (library / "tool.py").write_text(
        f'"""Module. {PROSE}"""\n'
        f'class A:\n    """Class. {PROSE}"""\n    def f(self):\n        """Method. {PROSE}"""\n'
        f'async def g():\n    """Coroutine. {PROSE}"""\n'
        f"x = '''Not a docstring. {PROSE}'''\n"
    )
    taken = library_topics()["library/tool"]
    assert {text.split(".")[0] for text in taken} == {"Module", "Class", "Method", "Coroutine"}


def test_code_tables_and_short_lines_are_left_out(library: Path) -> None:
    blocks = [
        PROSE,
        f">>> print('{PROSE}')",
        f"An example: >>> print('{PROSE}')",
        f"| {PROSE} | a cell |",
        f"-- {PROSE}",
        "Short.",
        "x = [(1, 2), (3, 4)]; y = {5: 6, 7: 8}; z = (x, y)[0][1] + 9 * (10 - 11) / 12 % 13",
    ]
    (library / "tool.py").write_text('"""' + "\n\n".join(blocks) + '"""\n')
    assert library_topics() == {"library/tool": (PROSE,)}


def test_broken_files_tests_and_installed_packages_are_passed_over(library: Path) -> None:
    documented = f'"""{PROSE}"""\n'
    for name in ("good.py", "inner/also.py", "test/a.py", "site-packages/b.py", "inner/tests/c.py"):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(documented)
    (library / "broken.py").write_text(f"{documented}def (:\n")
    (library / "bytes.py").write_bytes(b"\xff\xfe" + documented.encode())
    assert list(library_topics()) == ["library/good", "library/inner/also"]
