"""The page before the real service: every panel, asked of every model that it offers."""

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from bertworks.service.http_app import AppSettings, make_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PANELS = ["fill", "classify", "tag", "answer", "compare", "search", "zero", "choose"]
WORDS = {"fill": "a [MASK] b", "zero": "one\ntwo", "choose": "one\ntwo", "search": "one\ntwo"}
ASK = """async ([model, text]) => {
  const select = document.getElementById("model");
  if (select) { select.value = model; select.dispatchEvent(new Event("change")); }
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


@pytest.fixture(scope="module")
def place(served_models: Any) -> Iterator[str]:
    app = make_app(served_models, AppSettings())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture
def page(browser: "Browser", place: str) -> "Iterator[Page]":
    opened = browser.new_page(locale="en-US")
    opened.goto(place)
    opened.wait_for_selector("nav a")
    yield opened
    opened.close()


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


def test_the_service_refuses_in_sentences_that_the_page_shows(page: "Page") -> None:
    trouble, _ = page.evaluate(ASK, [None, "no such place"])
    assert "the text has no [MASK]" in trouble
