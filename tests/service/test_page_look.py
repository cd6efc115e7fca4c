"""How the page looks, in figures: contrast, focus, themes, motion."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

FAINT = """() => {
  const parts = (color) => {
    const [red, green, blue, alpha = 1] = color.match(/[0-9.]+(?:e-?[0-9]+)?/g).map(Number);
    const scale = color.startsWith("color(") ? 255 : 1;
    return [red * scale, green * scale, blue * scale, alpha];
  };
  const over = ([red, green, blue, alpha], below) =>
    [red, green, blue].map((part, nth) => part * alpha + below[nth] * (1 - alpha)).concat(1);
  const groundOf = (element) => {
    if (!element) return [255, 255, 255, 1];
    const own = parts(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, groundOf(element.parentElement));
  };
  const light = (color) => color.slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, nth) => sum + part * [0.2126, 0.7152, 0.0722][nth], 0);
  const ratio = (color, ground) => {
    const lights = [light(over(parts(color), ground)), light(ground)].sort((a, b) => a - b);
    return (lights[1] + 0.05) / (lights[0] + 0.05);
  };
  const isText = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim();
  const hasText = ({ childNodes }) => [...childNodes].some(isText);
  const faint = [];
  const require = (element, color, ground, least) => {
    const found = ratio(color, ground);
    if (found < least) faint.push([element.outerHTML.slice(0, 200), found]);
  };
  for (const element of document.querySelectorAll("body *")) {
    if (!element.getClientRects().length || element.closest(".unseen, .skip")) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (hasText(element)) require(element, style.color, groundOf(element), isLarge ? 3 : 4.5);
    const around = groundOf(element.parentElement);
    if (element.matches(".bar, .needle")) require(element, style.backgroundColor, around, 3);
    const isField = element.matches("input, textarea, select");
    if (isField) require(element, style.borderTopColor, around, 3);
  }
  return faint;
}"""
UNMARKED = """() => {
  const reached = "main :is(button, input, select, textarea, a, [tabindex='0'])";
  const isMarked = (one) => {
    one.focus({ focusVisible: true });
    const { outlineStyle, outlineWidth } = getComputedStyle(one);
    const isSeen = outlineStyle === "solid" && parseFloat(outlineWidth) > 1;
    return isSeen && document.activeElement === one;
  };
  return [...document.querySelectorAll(reached)]
    .filter((one) => one.getClientRects().length && !isMarked(one)).map((one) => one.outerHTML);
}"""
PARTED = """() => {
  const [line, mark, label] = [".marked", ".marked mark", ".marked small"]
    .map((name) => document.querySelector(name));
  const word = document.createRange();
  word.selectNode(mark.firstChild);
  const bottomOf = (element, nth) => element.getClientRects().item(nth).bottom;
  const parted = [];
  for (let width = 80; width < 480; width += 4) {
    line.style.width = `${width}px`;
    const far = bottomOf(label, 0) - bottomOf(word, word.getClientRects().length - 1);
    if (Math.abs(far) > 10) parted.push(width);
  }
  return parted;
}"""
TORN = """() => {
  const line = document.querySelector(".marked");
  const linesOf = (node) => {
    const range = document.createRange();
    range.selectNode(node);
    return new Set([...range.getClientRects()].map(({ bottom }) => Math.round(bottom))).size;
  };
  const torn = [...document.querySelectorAll("td:nth-child(2)")]
    .filter((cell) => linesOf(cell.firstChild) > 1).map((cell) => cell.textContent);
  for (let width = 160; width < 480; width += 4) {
    line.style.width = `${width}px`;
    torn.push(...[...line.querySelectorAll("mark")]
      .filter((mark) => mark.getClientRects().length > 1).map((mark) => mark.textContent));
  }
  return torn;
}"""
BRIGHTNESS = """() => getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g)
  .reduce((sum, one) => sum + Number(one), 0)"""


def ask(page: "Page") -> None:
    page.evaluate("document.querySelector('form').requestSubmit()")
    page.wait_for_selector("#outcome .answer, #outcome .trouble")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_told_from_its_ground_and_shows_where_the_focus_is(
    open_page: "Callable[..., Page]", scheme: str
) -> None:
    page = open_page(color_scheme=scheme)
    for panel in page.eval_on_selector_all(
        "nav a", "(links) => links.map((one) => one.hash.slice(1))"
    ):
        page.evaluate("(panel) => { location.hash = panel; }", panel)
        page.wait_for_selector(f"nav a[href='#{panel}'][aria-current=page]")
        assert page.evaluate(FAINT) == [], panel
        if panel == "tag":
            page.fill("#field-text", "Ada Lovelace, London, Royal Society, 1843, Notes, French")
        ask(page)
        assert page.evaluate(FAINT) == [], panel
        assert page.evaluate(UNMARKED) == [], panel
    page.route("**/tokenize", lambda route: route.abort())
    page.click("#ask")
    page.wait_for_selector(".trouble")
    assert page.evaluate(FAINT) == []


def test_what_is_faint_or_shows_no_focus_would_be_noticed(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("classify")
    page.evaluate("() => { document.querySelector('h2').style.color = '#bbb'; }")
    page.evaluate("() => { document.querySelector('#field-text').style.outline = 'none'; }")
    assert [row[1] < 4.5 for row in page.evaluate(FAINT)] == [True]
    assert len(page.evaluate(UNMARKED)) == 1


def test_a_label_is_never_parted_from_its_word(open_page: "Callable[..., Page]") -> None:
    page = open_page("tag")
    page.fill("#field-text", "这些人昨天晚上从很远的地方来到北京看朋友")
    ask(page)
    assert page.evaluate(PARTED) == []


def test_one_word_and_its_label_are_never_torn(open_page: "Callable[..., Page]") -> None:
    page = open_page("tag", viewport={"width": 360, "height": 700})
    page.fill("#field-text", "In 1843 the Notes went to London in French.")
    ask(page)
    assert page.locator("mark").count() == 4
    assert page.evaluate(TORN) == []
    fits = "(box) => box.scrollWidth <= box.clientWidth"
    assert page.eval_on_selector(".scroll", fits)


def test_the_theme_follows_the_system_until_it_is_switched(
    open_page: "Callable[..., Page]",
) -> None:
    light, dark = open_page(color_scheme="light"), open_page(color_scheme="dark")
    assert light.evaluate(BRIGHTNESS) > 600
    assert dark.evaluate(BRIGHTNESS) < 150
    assert dark.get_attribute("#theme", "aria-pressed") == "true"
    dark.click("#theme")
    dark.reload()
    assert dark.evaluate(BRIGHTNESS) > 600


def test_nothing_moves_for_those_who_want_it_still(open_page: "Callable[..., Page]") -> None:
    moves = "getComputedStyle(document.querySelector('.answer')).animationName"
    for wish, name in (("reduce", "none"), ("no-preference", "rise")):
        page = open_page("classify", reduced_motion=wish)
        ask(page)
        assert page.evaluate(moves) == name
