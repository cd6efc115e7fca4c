"""The page: self-contained, safe whatever is put into it, and whole whatever the numbers are."""

import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.evaluation.charts import HEIGHT, WIDTH
from bertworks.evaluation.report import Page

ATTACK = "<script>alert('x')</script><img src=x onerror=\"y\"> & </table></svg>"
VOID = {"meta", "line", "polyline", "rect"}
numbers = st.floats(-1e100, 1e100) | st.sampled_from([math.nan, math.inf, -math.inf])


class Reader(HTMLParser):
    """Collects tags and text, and fails on tags that do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: Page) -> Reader:
    reader = Reader()
    reader.feed(page.html())
    reader.close()
    assert reader.open == []
    return reader


def fill(page: Page, text: str) -> None:
    """Put a text everywhere where a page takes one."""
    page.heading(text)
    page.text(text)
    page.code(text)
    page.table([text, "b"], [[text, text], ["c", text]])
    page.curves(text, {text: [(0.0, 1.0), (1.0, 2.0)], "other": [(0.0, 3.0), (5.0, math.nan)]})
    page.bars(text, [(text, 3), ("other", 5)])


def drawn_points(page: Page) -> list[tuple[float, float]]:
    lines = re.findall(r'<polyline points="([^"]*)"', page.html())
    pairs = (pair.split(",") for line in lines for pair in line.split())
    return [(float(x), float(y)) for x, y in pairs]


def test_a_page_shows_what_was_put_into_it_in_order() -> None:
    page = Page("Scores")
    page.heading("Part")
    page.text("Eins < zwei, 北京")
    page.table(("metric", "score"), [("accuracy", "0.5")])
    page.code("bertworks evaluate --model 'a b'")
    shown = " | ".join(text for text in read(page).texts if text.strip())
    expected = ["Scores", "Part", "Eins < zwei, 北京", "metric", "score", "accuracy", "0.5"]
    assert re.search(
        ".*".join(map(re.escape, [*expected, "bertworks evaluate --model 'a b'"])), shown
    )


def test_a_page_stands_alone() -> None:
    page = Page("t")
    fill(page, "plain")
    html = page.html()
    assert html.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in html
    assert not re.search(r"https?:|//|url\(|@import|\bsrc\b|\bhref\b", html)
    assert not {"script", "link", "iframe", "img"} & set(read(page).tags)


def test_nothing_that_is_put_into_a_page_becomes_markup() -> None:
    page, plain = Page(ATTACK), Page("harmless")
    fill(page, ATTACK)
    fill(plain, "harmless")
    attacked = read(page)
    assert "<script" not in page.html()
    assert attacked.tags == read(plain).tags
    assert not [name for name, _ in attacked.attributes if name.startswith("on")]
    assert "".join(attacked.texts).count(ATTACK) == "".join(read(plain).texts).count("harmless")


@given(st.text())
def test_any_text_at_all_leaves_the_page_whole(text: str) -> None:
    page, plain = Page(text), Page("plain")
    fill(page, text)
    fill(plain, "plain")
    assert read(page).tags == read(plain).tags


def test_a_difference_with_its_range_stays_on_one_line() -> None:
    page = Page("t")
    page.table(("difference",), [("-0.270 [-0.350, -0.185]",), ("1.0e-04 [0, 2.5]",), ("–",)])
    assert page.html().count("<td class=number>") == 3


def test_columns_of_numbers_end_at_the_right() -> None:
    page = Page("t")
    page.table(
        ("name", "n", "share", "mixed"), [("a", "1,024", "3.5%", "7"), ("b", "none", "7 %", "x")]
    )
    assert page.html().count("<td class=number>") == 4
    for cell in ("<td>a</td>", "<th class=number>share</th>", "<th>mixed</th>", "<td>7</td>"):
        assert cell in page.html()


def test_an_empty_table_says_so() -> None:
    page = Page("t")
    page.table(("a", "b"), [])
    assert "table" not in read(page).tags
    assert "none" in read(page).texts


@given(st.dictionaries(st.text(max_size=5), st.lists(st.tuples(numbers, numbers), max_size=6)))
def test_any_numbers_at_all_leave_the_chart_within_its_frame(curves) -> None:
    page = Page("t")
    page.curves("loss", curves)
    read(page)
    assert not re.search(r'="[^"<>]*\b(nan|inf)\b[^"<>]*"', page.html())
    for x, y in drawn_points(page):
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


@pytest.mark.parametrize("level", [0.0, 3.0, -2.5, 1e-30])
def test_a_constant_curve_is_a_level_line(level: float) -> None:
    page = Page("t")
    page.curves("loss", {"a": [(1.0, level), (2.0, level), (3.0, level)]})
    assert len({y for _, y in drawn_points(page)}) == 1
    assert len({x for x, _ in drawn_points(page)}) == 3


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, math.nan)] * 3])
def test_too_few_points_draw_no_chart(points) -> None:
    page = Page("t")
    page.curves("loss", {"a": points})
    assert "svg" not in read(page).tags


def test_points_at_one_place_do_not_break_the_chart() -> None:
    page = Page("t")
    page.curves("loss", {"a": [(1.0, 2.0), (1.0, 3.0)]})
    assert len(drawn_points(page)) == 2


def test_values_that_are_no_numbers_are_counted_in_words() -> None:
    page = Page("t")
    page.curves("loss", {"a": [(1.0, 2.0), (2.0, math.nan), (3.0, math.inf), (4.0, 1.0)]})
    assert len(drawn_points(page)) == 2
    assert any("loss: 2 values that are no finite numbers" in text for text in read(page).texts)
    clean = Page("t")
    clean.curves("loss", {"a": [(1.0, 2.0), (4.0, 1.0)]})
    assert not any("no finite numbers" in text for text in read(clean).texts)


def test_higher_values_are_drawn_higher_and_later_ones_further_right() -> None:
    page = Page("t")
    page.curves("loss", {"a": [(10.0, 5.0), (20.0, 1.0), (30.0, 3.0)]})
    (x1, y1), (x2, y2), (x3, y3) = drawn_points(page)
    assert x1 < x2 < x3
    assert y1 < y3 < y2  # the picture's axis points down


def test_every_curve_is_named_in_its_own_color() -> None:
    page = Page("t")
    line = [(0.0, 1.0), (1.0, 2.0)]
    page.curves("loss", {"first": line, "second": line})
    colors = re.findall(r'stroke="(#\w{6})"', page.html())
    assert len(set(colors)) == 2
    assert {"first", "second"} <= set(read(page).texts)


# Bars


def drawn_bars(page: Page) -> list[dict[str, float]]:
    rects = re.findall(r"<rect ([^>]*)/>", page.html())
    return [{k: float(v) for k, v in re.findall(r'(\w+)="([\d.]+)"', rect)} for rect in rects]


@given(st.lists(st.tuples(st.text(max_size=5), st.floats(0, 1e12)), max_size=30))
def test_bars_stand_side_by_side_within_the_frame(bars: list[tuple[str, float]]) -> None:
    page = Page("t")
    page.bars("lengths", bars)
    drawn = drawn_bars(page)
    read(page)
    assert len(drawn) == len(bars)
    for bar in drawn:
        assert 0 <= bar["x"] <= bar["x"] + bar["width"] <= WIDTH
        assert 0 <= bar["y"] <= bar["y"] + bar["height"] <= HEIGHT


def test_a_bar_is_as_high_as_its_number() -> None:
    page = Page("t")
    page.bars("lengths", [("a", 0), ("b", 250_000), ("c", 1_000_000), ("d", 9_999)])
    none, quarter, whole, _ = (bar["height"] for bar in drawn_bars(page))
    assert none == 0
    assert quarter == pytest.approx(whole / 4, abs=0.1)
    assert {"a", "0", "250k", "1,000k", "9,999"} <= set(read(page).texts)
