"""The rules that tell a layout are asked in their order, and each of them decides for some file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import STANDARD_INPUT
from bertworks.data import layouts
from bertworks.data.layouts import (
    ASPECTS,
    BY_LINES,
    BY_PATH,
    CONLL,
    CONLLU,
    DREAM,
    PARALLEL,
    SEGMENTED,
    SQUAD,
    Layout,
    Sight,
    find_layout,
    require_source,
)
from bertworks.data.tables import Table

Write = Callable[[str, str | bytes], Path]
UNLABELLED: dict[str, Any] = {"form": "texts", "labelled": False}
# A file for each rule of BY_LINES, in their order: a layout, or the first names of a table.
CASES: list[tuple[str, str, dict[str, Any], Layout | tuple[str, ...]]] = [
    ("a.ndjson", '{"text": "x"}\n', {}, ("text",)),
    ("a.json", '{"data": [{"paragraphs": []}]}', {}, SQUAD),
    ("a.json", '[[["M: Hi."], [], "1"]]', {}, DREAM),
    ("a.json", '{"text": "x"}\n', {}, ("text",)),
    ("a.json", '[{"text": "x"}]', {}, ("text",)),
    ("a.csv", "text;label\nx;1\n", {}, ("text", "label")),
    ("a.txt", "x  y\nz  w\n", {"form": "target"}, ("1",)),
    ("a.txt", "1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n", {}, CONLLU),
    ("a.bio", "text\tlabel\nx\tO\n", {}, CONLL),
    ("a.txt", "The $T$ is slow\nscreen\n-1\n", {}, ASPECTS),
    ("a.txt", "text\tlabel\n\nx\tO\n", {"form": "tags"}, ("text", "label")),
    ("a.txt", "中国  好\n", {}, SEGMENTED),
    ("a.txt", "x O\ny B-Z\n\nz O\n", {}, CONLL),
    ("a.txt", "a\tb\nc\n", UNLABELLED, ("1",)),
    ("a.txt", "a\tb\nc\td\n", UNLABELLED, ("1", "2")),
]


def find(path: Path, *, form: str | None = None, **options: Any) -> Layout | tuple[str, ...]:
    found = find_layout(path, form, {}, **options)
    return found.names if isinstance(found, Table) else found


@pytest.mark.parametrize("at", range(len(CASES)))
def test_each_rule_decides_for_some_file(
    file: Write, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    name, content, options, expected = CASES[at]
    path = file(name, content)
    assert find(path, **options) == expected
    asked: list[int] = []

    def noted(number: int) -> Callable[[Sight], bool]:
        return lambda seen: asked.append(number) or BY_LINES[number][0](seen)  # type: ignore[func-returns-value]

    rules = tuple((noted(number), found) for number, (_, found) in enumerate(BY_LINES))
    monkeypatch.setattr(layouts, "BY_LINES", rules)
    find(path, **options)
    assert asked == [*range(at + 1)]


def test_there_is_a_file_for_each_rule() -> None:
    assert len(CASES) == len(BY_LINES)


@pytest.mark.parametrize("content", ["prose\n", "prose\n\nof two kinds\n"])
def test_lines_that_no_rule_fits_are_refused_with_the_names_that_would_do(
    file: Write, content: str
) -> None:
    with pytest.raises(UsageError, match=r"a\.txt has no known format; .* \.jsonl, \.tsv, "):
        find(file("a.txt", content))


def test_what_the_path_tells_is_told_without_reading_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> list[str]:
        raise AssertionError(path)

    monkeypatch.setattr(layouts, "read_head", refuse)
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("x\n")
    assert find(tmp_path / "train.en-de") == PARALLEL
    assert find(STANDARD_INPUT) == ()
    assert len(BY_PATH) == 4  # folders and Parquet are read in test_sources


def test_a_source_is_there_and_holds_something(file: Write, tmp_path: Path) -> None:
    require_source(file("a.tsv", "x\n"))
    for path in (tmp_path / "none.tsv", file("b.tsv", "")):
        with pytest.raises(DataError, match=path.name):
            require_source(path)
