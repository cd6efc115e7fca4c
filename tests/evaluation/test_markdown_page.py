"""Markdown: the same words as the page, and nothing of the data becomes markup."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.evaluation.markdown_page import markdown_page, plain
from bertworks.evaluation.report_blocks import (
    Cards,
    Code,
    Curves,
    Diagonal,
    Estimate,
    Examples,
    Forest,
    Heading,
    Matrix,
    Piece,
    Shown,
    Table,
    Text,
)

ATTACK = "<script>x</script> [a](b) | **c** `d`\n# e"


def test_a_page_has_all_that_was_put_into_it() -> None:
    blocks = [
        Heading("Part"),
        Text("Words."),
        Cards([Estimate("f1", 0.5, 0.25, 0.75)]),
        Table(("a", "b"), [("x", Estimate("", 0.125))]),
        Curves("Loss", {"train": [(1.0, 3.0), (2.0, 1.5)]}),
        Matrix(["yes", "no"], [[3, 1], [0, 1234]]),
        Diagonal("By confidence", [(0.5, 0.25, 7)], ("confidence", "right")),
        Forest("Differences", [Estimate("f1", 0.5, 0.25, 0.75)]),
        Code("run me"),
    ]
    assert markdown_page("Title", blocks).split("\n\n") == [
        "# Title",
        "## Part",
        "Words.",
        "- f1: **0.500 [0.250, 0.750]**",
        "| a | b |\n| --- | --- |\n| x | 0.125 |",
        "Loss:",
        "| curve | first | last | lowest | highest |\n| --- | --- | --- | --- | --- |\n"
        "| train | 3.000 | 1.500 | 1.500 | 3.000 |",
        "| gold, answer | yes | no |\n| --- | --- | --- |\n| yes | 3 | 1 |\n| no | 0 | 1,234 |",
        "| confidence | right | answers |\n| --- | --- | --- |\n| 0.500 | 0.250 | 7 |",
        "```\nrun me\n```\n",
    ]


def test_an_example_is_told_with_its_marks() -> None:
    pieces = (Piece("in "), Piece("Rome", gold="LOC"), Piece(" today"))
    shown = Shown(7, {"": pieces}, "Rome = LOC", "(none)", 0.875)
    text = markdown_page("t", [Examples([shown])])
    assert "- line 7, confidence 0.875: gold **Rome = LOC**, answer **(none)**" in text
    assert "  - in **Rome** (gold: LOC) today" in text


def test_nothing_of_the_data_becomes_markup() -> None:
    blocks = [Heading(ATTACK), Text(ATTACK), Table((ATTACK,), [(ATTACK,)])]
    blocks.append(Examples([Shown(1, {ATTACK: [Piece(ATTACK, gold=ATTACK)]}, ATTACK, ATTACK)]))
    text = markdown_page(ATTACK, blocks)
    assert not re.search(r"(?<!\\)<", text)
    assert not re.search(r"(?<!\\)\[", text)
    assert len(re.findall(r"^#", text, re.MULTILINE)) == 2


def test_code_is_fenced_by_more_quotes_than_it_has() -> None:
    assert markdown_page("t", [Code("a ```` b")]).endswith("\n`````\na ```` b\n`````\n")


@given(st.text())
def test_any_text_stands_in_one_line(text: str) -> None:
    assert len(plain(text).splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- a list", "\\- a list"),
        ("--- a line", "\\--- a line"),
        ("+ a list", "\\+ a list"),
        ("12. a list", "12\\. a list"),
        ("      code", "code"),
        ("plain - text", "plain - text"),
    ],
)
def test_a_text_of_an_example_begins_nothing_but_itself(text: str, told: str) -> None:
    shown = Shown(3, {"": (Piece(text),)}, "yes", "no")
    assert markdown_page("t", [Examples([shown])]).endswith(f"\n  - {told}\n")
