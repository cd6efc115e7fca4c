"""The page before the real service: its models, its keys, and the commands that it shows."""

import ast
import json
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from bertworks.service.http_app import AppSettings, make_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PANELS = ["fill", "classify", "tag", "answer", "compare", "search", "zero", "choose"]
PANELS += ["write"]
WORDS = {"fill": "a [MASK] b", "zero": "one\ntwo", "choose": "one\ntwo", "search": "one\ntwo"}
ASK = """async ([model, text]) => {
  const select = document.getElementById("model");
  if (select && model) { select.value = model; select.dispatchEvent(new Event("change")); }
  for (const one of document.querySelectorAll("form textarea:required, form input:required")) {
    one.value = text;
    one.dispatchEvent(new Event("input"));
  }
  const outcome = document.getElementById("outcome");
  const done = new Promise((resolve) => {
    const watch = new MutationObserver(() => { watch.disconnect(); resolve(); });
    watch.observe(outcome, { childList: true });
  });
  document.querySelector("form").requestSubmit();
  await done;
  return [".trouble", ".facts"].map((name) => outcome.querySelector(name)?.textContent);
}"""


KEY = "a key: of sixteen or more"
ODD = 'it\'s "odd" $HOME `id` $(id) \\ %s {x}\ttab\n👩‍🚀 中文 \u2028 [MASK] !!'

FETCH = """async (address) => {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ inputs: ["a [MASK] b"] });
  const options = { method: "POST", credentials: "include", headers, body };
  return fetch(`${address}/fill-mask`, options)
    .then(({ status }) => String(status), ({ name }) => name);
}"""
TABS = """() => {
  const copied = [];
  navigator.clipboard.writeText = async (text) => { copied.push(text); };
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const tab of tabs) {
    tab.click();
    document.querySelector(".request .small").click();
  }
  return tabs.map((tab, nth) => [tab.textContent, copied[nth]]);
}"""


@pytest.fixture
def page(browser: "Browser", address: str) -> "Iterator[Page]":
    opened = browser.new_page(locale="en-US")
    opened.goto(address)
    opened.wait_for_selector("nav a")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def guarded(served_models: Any, serve_app: Callable[..., Any]) -> Iterator[str]:
    """Serve the small models to those who have a key."""
    digest = sha256(KEY.encode()).hexdigest()
    with serve_app(make_app(served_models, AppSettings(keys=(digest,)))) as address:
        yield address


@pytest.fixture
def open_guarded(browser: "Browser", guarded: str) -> "Iterator[Callable[..., Page]]":
    """Open the page as who gives the browser a password."""
    contexts = []

    def open_with(password: str, path: str = "/") -> "Page":
        context = browser.new_context(
            locale="en-US", http_credentials={"username": "", "password": password}
        )
        contexts.append(context)
        page = context.new_page()
        page.goto(guarded + path)
        return page

    yield open_with
    for context in contexts:
        context.close()


def test_there_is_a_panel_for_everything_that_the_models_can_do(page: "Page") -> None:
    links = [link.get_attribute("href") for link in page.query_selector_all("nav a")]
    assert links == [f"#{panel}" for panel in [*PANELS, "attention", "pieces"]]


def test_every_model_that_a_panel_offers_answers_in_it(page: "Page") -> None:
    for panel in [*PANELS, "attention", "pieces"]:
        page.evaluate("(panel) => { location.hash = panel; }", panel)
        page.wait_for_selector(f"nav a[href='#{panel}'][aria-current=page]")
        models = [one.get_attribute("value") for one in page.query_selector_all("#model option")]
        for model in models or [""]:
            trouble, facts = page.evaluate(ASK, [model, WORDS.get(panel, "one two")])
            assert trouble is None, f"{panel} of {model}: {trouble}"
            assert facts.startswith(model)


@pytest.mark.parametrize("panel", ["compare", "search"])
def test_where_the_answer_has_no_room_its_headers_tell_what_was_read(
    page: "Page", panel: str
) -> None:
    page.evaluate("(panel) => { location.hash = panel; }", panel)
    page.wait_for_selector(f"nav a[href='#{panel}'][aria-current=page]")
    _, facts = page.evaluate(ASK, ["classify", "one two"])
    assert "\u00a0tokens" in facts
    assert page.query_selector(".caution") is None
    page.evaluate(ASK, ["classify", "one " * 40_000])
    assert "the rest was left out" in str(page.text_content(".caution"))


def test_the_service_refuses_in_sentences_that_the_page_shows(page: "Page") -> None:
    trouble, _ = page.evaluate(ASK, [None, "no such place"])
    assert "the text has no [MASK]" in trouble


# Keys: the browser asks for one, by itself, and sends it with all that the page asks


def test_a_key_that_the_browser_was_given_opens_all_that_the_page_asks_for(
    open_guarded: "Callable[..., Page]",
) -> None:
    page = open_guarded(KEY)
    page.wait_for_selector("nav a")
    trouble, facts = page.evaluate(ASK, ["fill_mask", "a [MASK] b"])
    assert trouble is None
    assert facts.startswith("fill_mask")
    assert "$API_KEY" in str(page.text_content("#snippet"))
    held = [KEY, b64encode(f":{KEY}".encode()).decode()]
    assert not [one for one in held if one in page.content()]
    page.click("footer a[href='docs']")
    page.wait_for_selector("text=/fill-mask")


def test_without_a_key_or_with_a_wrong_one_nothing_of_the_page_is_shown(
    browser: "Browser", guarded: str, open_guarded: "Callable[..., Page]"
) -> None:
    assert "unauthorized" in str(open_guarded("another key of sixteen").text_content("body"))
    page = browser.new_page()
    with pytest.raises(Exception, match="AUTH_CREDENTIALS"):  # a browser without a window gives up
        page.goto(guarded)
    page.close()


def test_a_key_in_the_address_is_used_but_not_shown(browser: "Browser", guarded: str) -> None:
    page = browser.new_page(locale="en-US")
    page.goto(guarded.replace("://", "://:a%20key%3A%20of%20sixteen%20or%20more@"))
    page.wait_for_selector("nav a")
    trouble, _ = page.evaluate(ASK, ["fill_mask", "a [MASK] b"])
    assert trouble is None
    assert f"curl '{guarded}/fill-mask'" in str(page.text_content("#snippet"))
    page.close()


def test_another_page_cannot_use_the_key_that_the_browser_holds(
    guarded: str, open_guarded: "Callable[..., Page]"
) -> None:
    page = open_guarded(KEY)
    page.wait_for_selector("nav a")
    assert page.evaluate(FETCH, guarded) == "200"
    page.route("http://elsewhere.test/", lambda route: route.fulfill(body="<p>elsewhere</p>"))
    page.goto("http://elsewhere.test/")
    assert page.evaluate(FETCH, guarded) == "TypeError"


# The commands to copy


def test_the_commands_that_are_shown_give_the_answers_that_are_shown(
    open_guarded: "Callable[..., Page]",
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl to run what the page shows")
    page = open_guarded(KEY)
    page.wait_for_selector("nav a")
    shown = [shown_in(page, panel) for panel in [*PANELS, "attention", "pieces"]]
    run_both(shown)


def test_the_commands_for_a_very_long_text_run_too(open_guarded: "Callable[..., Page]") -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl to run what the page shows")
    page = open_guarded(KEY)
    page.wait_for_selector("nav a")
    run_both([shown_in(page, "classify", "it's long " * 15_000)])


def shown_in(page: "Page", panel: str, text: str = ODD) -> dict[str, str]:
    """Ask in a panel and return what its tabs hold, by their names."""
    page.evaluate("(panel) => { location.hash = panel; }", panel)
    page.wait_for_selector(f"nav a[href='#{panel}'][aria-current=page]")
    text = {"search": f"{text}\ntwo", "zero": "one\ntwo", "choose": "one\ntwo"}.get(panel, text)
    trouble, _ = page.evaluate(ASK, [None, text])
    assert trouble is None, panel
    return dict(page.evaluate(TABS))


def run_both(shown: list[dict[str, str]]) -> None:
    """Run the commands as they stand, and compare what they print with what the page got."""
    expected = [json.loads(one["JSON"]) for one in shown]
    settings: dict[str, Any] = {"env": {"API_KEY": KEY}, "text": True, "check": True}
    curled = [
        subprocess.run(["sh"], input=one["curl"], capture_output=True, **settings).stdout
        for one in shown
    ]
    assert [json.loads(one) for one in curled] == expected
    program = "\n".join(one["Python"] for one in shown)
    command = [sys.executable, "-"]
    printed = subprocess.run(command, input=program, capture_output=True, **settings).stdout
    assert [ast.literal_eval(line) for line in printed.splitlines()] == expected
