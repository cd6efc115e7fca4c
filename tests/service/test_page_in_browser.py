"""The page in a real browser: what it shows, how it is used, and what it does not let in."""

import ast
import json
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bertworks.service.page import page_routes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ABILITIES = ["fill_mask", "classify", "aspect", "tag", "answer", "embed", "rerank", "zero_shot"]
ABILITIES += ["choose", "attention"]
NAMES = {"PER": "Ada Lovelace", "LOC": "London"}
PAYLOADS = [
    before + attack + after
    for attack in (
        "<script>window.hit = 1</script>",
        "<img src=x onerror='window.hit = 1'>",
        "<svg onload=window.hit=1>",
        "<iframe srcdoc='<script>parent.hit = 1</script>'></iframe>",
        "<a href='javascript:window.hit=1' autofocus onfocus=window.hit=1>x</a>",
        "<details open ontoggle=window.hit=1>",
        "<style>* { display: none }</style>",
        "<base href='https://example.org/'>",
        "<meta http-equiv=refresh content='0;url=javascript:window.hit=1'>",
        "<form action=javascript:window.hit=1><button>x</button></form>",
        "${window.hit = 1}",
        "{{constructor.constructor('window.hit = 1')()}}",
        "javascript:window.hit=1",
        "<math><mi xlink:href='javascript:window.hit=1'>x</mi></math>",
        "<object data='javascript:window.hit=1'></object>",
        "<input onfocus=window.hit=1 autofocus>",
        "<video><source onerror=window.hit=1></video>",
        "<template><script>window.hit = 1</script></template>",
        "<noscript><img src=x onerror=window.hit=1></noscript>",
        "<!--><img src=x onerror=window.hit=1>-->",
    )
    for before, after in (
        ("", ""),
        ("'", "'"),
        ('">', '<"'),
        ("</code></pre>", ""),
        ("</textarea></script>", ""),
        ("]]>", "<![CDATA["),
        ("\\u003c", "\\u003e"),
        ("&lt;", "&gt;"),
        ("\u202e", "\u202c"),
        ("`", "`"),
    )
]
ASK_EACH = """async (texts) => {
  const seen = [];
  for (const text of texts) {
    const outcome = document.getElementById("outcome");
    const fields = document.querySelectorAll("form textarea, form input:not([type=checkbox])");
    fields.forEach((one) => { one.value = text; one.dispatchEvent(new Event("input")); });
    const done = new Promise((resolve) => {
      const watch = new MutationObserver(() => { watch.disconnect(); resolve(); });
      watch.observe(outcome, { childList: true });
    });
    document.querySelector("form").requestSubmit();
    await done;
    const answer = outcome.querySelector(".answer, .trouble");
    const foreign = "script, img, iframe, object, form, style, base, meta, video, input, a, math";
    seen.push([answer.textContent, outcome.querySelectorAll(foreign).length]);
  }
  return seen;
}"""
UNNAMED = """() => [...document.querySelectorAll("button, a, input, select, textarea, canvas, nav")]
  .filter((one) => !(one.labels?.length || one.ariaLabel || one.textContent.trim()))
  .map((one) => one.outerHTML)"""
SIDEWAYS = "() => document.documentElement.scrollWidth - innerWidth"
BRIGHTNESS = """() => getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g)
  .reduce((sum, one) => sum + Number(one), 0)"""


@dataclass
class Service:
    """A service that gives the answers of the contract, whatever texts it is asked about."""

    url: str = ""
    models: list[dict[str, Any]] = field(default_factory=list)
    key: str | None = None
    failure: tuple[int, str, str] | None = None  # status, code, message
    asked: list[tuple[str, Any]] = field(default_factory=list)

    async def info(self, request: Request) -> JSONResponse:
        """Tell what the models can do."""
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return refused(401, "unauthorized", "Send a key.")
        return JSONResponse({"models": self.models})

    async def answer(self, request: Request) -> JSONResponse:
        """Answer what was sent."""
        path, body = request.url.path, await request.json()
        self.asked.append((path, body))
        if self.failure:
            return refused(*self.failure)
        return JSONResponse(ANSWERS[path](body))


def refused(status: int, code: str, message: str) -> JSONResponse:
    problem = {"code": code, "message": message, "type": code}
    return JSONResponse({"error": problem}, status, headers={"Retry-After": "3"})


def task(answer: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Wrap what is told of the first input in what is told of all."""

    def tell(body: Any) -> dict[str, Any]:
        first = body["inputs"][0]
        told = {"model": "m", "revision": "0a1b2c", "usage": {"tokens": 7}}
        return told | {"answers": [answer(first)], "truncated": [len(str(first)) > 2000]}

    return tell


def labelled(text: Any) -> dict[str, Any]:
    shown = text if isinstance(text, str) else " ".join(map(str, text))
    return {"label": shown, "probability": 0.75, "probabilities": {shown: 0.75, "other": 0.25}}


def found(text: str) -> dict[str, Any]:
    spans = [
        {"start": text.index(name), "end": text.index(name) + len(name), "label": label}
        | {"text": name, "probability": 0.9}
        for label, name in NAMES.items()
        if name in text
    ]
    whole = {"start": 0, "end": len(text), "label": text, "text": text, "probability": 0.5}
    return {"tags": [], "tokens": [], "probabilities": [], "spans": spans or [whole]}


def answered(row: dict[str, str]) -> dict[str, Any]:
    text = row["passage"]
    place = {"answer": text, "start": 0, "end": len(text), "probability": 0.6}
    return {**place, "candidates": [place, place]}


def chosen(row: dict[str, Any]) -> dict[str, Any]:
    shares = [1 / len(row["choices"])] * len(row["choices"])
    first = {"choice": 0, "text": row["choices"][0]}
    return {**first, "probability": shares[0], "probabilities": shares}


def filled(text: str) -> dict[str, Any]:
    candidates = [{"token": text[:200], "probability": 0.5}, {"token": "b", "probability": 0.2}]
    return {"masks": [candidates] * max(1, text.count("[MASK]"))}


def cut(body: Any) -> list[list[dict[str, Any]]]:
    place = {"start": 0, "stop": len(body["inputs"][0])}
    return [[{"id": 7, "text": body["inputs"][0], "special": False, **place}]]


def looked(body: Any) -> dict[str, Any]:
    words = ["[CLS]", *body["text"].split(" ")]
    pieces = [{"piece": word, "text": None if word == "[CLS]" else 0} for word in words]
    row = [1 / len(words)] * len(words)
    return {"pieces": pieces, "layers": [[[row] * len(words)] * 3] * 2}


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "/fill-mask": task(filled),
    "/classify": task(labelled),
    "/tag": task(found),
    "/answer": task(answered),
    "/choose": task(chosen),
    "/zero-shot": task(labelled),
    "/similarity": lambda body: [0.5 for _ in body["inputs"]["sentences"]],
    "/rerank": lambda body: [
        {"index": place, "score": -place} for place in reversed(range(len(body["texts"])))
    ],
    "/tokenize": cut,
    "/attention": looked,
}


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    service = Service()
    routes = [Route(path, service.answer, methods=["POST"]) for path in ANSWERS]
    app = Starlette(routes=[*page_routes(), Route("/info", service.info), *routes])
    config = uvicorn.Config(app, port=0, log_level="warning", ws="none", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    service.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    yield service
    server.should_exit = True
    thread.join()


@pytest.fixture
def service(running: Service) -> Service:
    running.models = [
        {"name": "m", "revision": "0a1b2c", "abilities": ABILITIES, "labels": [], "longest": 128}
    ]
    running.key = running.failure = None
    running.asked.clear()
    return running


@pytest.fixture
def open_page(browser: "Browser", service: Service) -> "Iterator[Callable[..., Page]]":
    """Open the page; at the end, nothing was asked of others and nothing went wrong in it."""
    contexts, outside, wrong = [], [], []

    def open_at(panel: str = "", **settings: Any) -> "Page":
        context = browser.new_context(**{"locale": "en-US", "reduced_motion": "reduce"} | settings)
        contexts.append(context)
        context.on("request", lambda one: outside.append(one.url))
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("console", lambda one: wrong.append(one.text) if "Policy" in one.text else None)
        page.goto(f"{service.url}#{panel}")
        page.wait_for_selector("form")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert not [url for url in outside if not url.startswith(service.url)]
    assert not wrong


def ask(page: "Page") -> None:
    page.click("button.main")
    page.wait_for_selector("#outcome .answer, #outcome .trouble")


def panels_of(page: "Page") -> list[str]:
    return [str(link.get_attribute("href"))[1:] for link in page.query_selector_all("nav a")]


def test_only_what_the_models_can_do_is_shown(
    service: Service, open_page: "Callable[..., Page]"
) -> None:
    every = ["fill", "classify", "aspect", "tag", "answer", "compare", "search", "zero"]
    assert panels_of(open_page()) == [*every, "choose", "attention", "pieces"]
    service.models[0]["abilities"] = ["embed"]
    assert panels_of(open_page()) == ["compare", "search", "pieces"]


def test_with_several_models_the_one_that_was_made_for_it_is_asked_by_name(
    service: Service, open_page: "Callable[..., Page]"
) -> None:
    service.models.insert(0, service.models[0] | {"name": "vectors", "abilities": ["embed"]})
    service.models[1]["abilities"] = ["embed", "match"]
    page = open_page("compare")
    ask(page)
    path, body = service.asked[-1]
    assert (path, body["model"], len(body["inputs"][0])) == ("/classify", "m", 2)
    page.select_option("#model", "vectors")
    ask(page)
    page.wait_for_selector(".gauge")
    assert service.asked[-1][0] == "/similarity"


@pytest.mark.parametrize(("locale", "lang"), [("en-US", "en"), ("zh-CN", "zh")])
def test_every_panel_answers_at_the_width_of_a_telephone_and_names_its_controls(
    open_page: "Callable[..., Page]", locale: str, lang: str
) -> None:
    page = open_page(locale=locale, viewport={"width": 360, "height": 700})
    assert page.get_attribute("html", "lang") == lang
    for panel in panels_of(page):
        page.evaluate("(panel) => { location.hash = panel; }", panel)
        page.wait_for_selector(f"nav a[href='#{panel}'][aria-current=page]")
        assert page.evaluate("document.activeElement.id") in ("title", "")
        ask(page)
        assert page.query_selector("#outcome .answer"), panel
        assert page.text_content("#status")
        assert page.evaluate(SIDEWAYS) <= 0, panel
        assert page.evaluate(UNNAMED) == [], panel


def test_places_are_counted_in_characters_as_python_counts_them(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("tag")
    page.fill("#field-text", "👩‍🚀🎉 Ada Lovelace lived in 𝓁 London.")
    ask(page)
    marks = [mark.text_content() for mark in page.query_selector_all(".marked mark")]
    assert marks == ["Ada LovelacePER", "LondonLOC"]


def test_a_candidate_that_is_pressed_goes_into_the_sentence(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("fill")
    page.fill("#field-text", "x [MASK] y")
    ask(page)
    page.click(".bars li:nth-child(2) button")
    assert page.text_content(".marked") == "x b y"
    assert page.get_attribute(".bars li:nth-child(2) button", "aria-pressed") == "true"


def test_the_mask_button_puts_a_mask_where_one_types(open_page: "Callable[..., Page]") -> None:
    page = open_page("fill")
    page.fill("#field-text", "ab")
    page.evaluate("document.getElementById('field-text').setSelectionRange(1, 1)")
    page.click("text=Insert [MASK]")
    assert page.input_value("#field-text") == "a[MASK]b"


def test_the_commands_to_copy_are_the_request(
    service: Service, open_page: "Callable[..., Page]"
) -> None:
    page = open_page("answer", permissions=["clipboard-read", "clipboard-write"])
    page.fill("#field-question", 'What\'s "it"? $(id) `id` \\n {x} %s')
    page.fill("#field-passage", "one\ntwo's \\ \t😀 $HOME\u2028three " + "long " * 30)
    ask(page)
    path, body = service.asked[-1]
    words = shlex.split(page.text_content("#snippet").replace("\\\n", ""))
    assert words[:2] == ["curl", service.url.rstrip("/") + path]
    assert json.loads(words[words.index("-d") + 1]) == body
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("ArrowRight")
    assert page.text_content("[role=tab][aria-selected=true]") == "Python"
    calls = ast.walk(ast.parse(page.text_content("#snippet")))
    post = next(one for one in calls if isinstance(one, ast.Call) and one.keywords)
    assert ast.literal_eval(post.args[0]) == service.url.rstrip("/") + path
    assert ast.literal_eval(post.keywords[0].value) == body
    page.click(".request button.small")
    page.wait_for_selector("text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.text_content("#snippet")


def test_all_is_done_with_the_keyboard(service: Service, open_page: "Callable[..., Page]") -> None:
    page = open_page("classify")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "field-text"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".answer")
    assert service.asked
    assert page.evaluate("document.activeElement.id") == "field-text"


def test_a_choice_of_layer_head_and_piece_changes_what_is_seen(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("attention")
    page.fill("#field-text", "two words")
    ask(page)
    assert len(page.query_selector_all(".lines path")) == 9
    page.click(".from li:nth-child(2) button")
    assert page.evaluate("document.activeElement.textContent") == "two"
    assert len(page.query_selector_all(".lines path")) == 3
    assert "two looks at [CLS] (33.3%)" in str(page.text_content(".told"))
    page.click(".map", position={"x": 70, "y": 10})
    assert [page.input_value(f"#attention-{name}") for name in ("layer", "head")] == ["0", "2"]
    page.check("#attention-words")
    assert len(page.query_selector_all(".lines path")) == 4


def test_the_language_changes_the_examples_but_not_what_was_typed(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("compare")
    page.fill("#field-first", "typed")
    ask(page)
    page.click("#language")
    assert page.get_attribute("html", "lang") == "zh"
    assert page.text_content("h2") == "比较两段文本"
    assert page.input_value("#field-first") == "typed"
    assert page.input_value("#field-second") == "我忘了登录信息，怎样找回？"
    assert page.query_selector(".answer")
    page.reload()
    assert page.text_content("button.main") == "询问模型"


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


def test_errors_are_sentences(service: Service, open_page: "Callable[..., Page]") -> None:
    page = open_page("classify")
    service.failure = 429, "overloaded", "70 tokens wait <b>already</b>."
    ask(page)
    said = "The service has too much to do. 70 tokens wait <b>already</b>. Try again in 3 s."
    assert page.text_content("[role=alert]") == said
    page.route("**/classify", lambda route: route.abort())
    page.click("button.main")
    page.wait_for_selector("text=The service does not answer")
    page.unroute("**/classify")
    page.route("**/classify", lambda route: route.fulfill(status=502, body="<html>"))
    page.click("button.main")
    page.wait_for_selector("text=The service refused with status 502.")
    page.unroute("**/classify")
    page.route("**/classify", lambda route: route.fulfill(json={"answers": [7]}))
    page.click("button.main")
    page.wait_for_selector("text=The service sent something that is no answer")


def test_a_text_that_was_cut_is_told(open_page: "Callable[..., Page]") -> None:
    page = open_page("classify")
    page.fill("#field-text", "long " * 500)
    ask(page)
    assert "the rest was left out" in str(page.text_content(".caution"))


def test_a_key_is_asked_for_and_never_shown(
    service: Service, open_page: "Callable[..., Page]"
) -> None:
    service.key = "secret-7"
    page = open_page("classify")
    assert panels_of(page) == []
    page.fill("#key", "secret-7")
    page.keyboard.press("Enter")
    page.wait_for_selector("#field-text")
    ask(page)
    snippet = str(page.text_content("#snippet"))
    assert "$API_KEY" in snippet
    assert "secret-7" not in page.content()


@pytest.mark.parametrize(
    ("panel", "step"),
    [("tag", 1), ("fill", 10), ("classify", 10), ("answer", 10), ("choose", 10), ("pieces", 10)],
)
def test_200_texts_that_would_be_code_are_only_texts(
    open_page: "Callable[..., Page]", panel: str, step: int
) -> None:
    assert len(set(PAYLOADS)) == 200
    page, payloads = open_page(panel), PAYLOADS[::step]
    shown = page.evaluate(ASK_EACH, payloads)
    for payload, (text, num_foreign) in zip(payloads, shown, strict=True):
        whole = re.sub(r"\s+", "", payload)
        assert whole in re.sub(r"\s+", "", text)
        assert num_foreign == 0
    assert page.evaluate("window.hit") is None
    assert page.text_content("h2")


def test_code_in_a_refusal_is_only_text(service: Service, open_page: "Callable[..., Page]") -> None:
    page = open_page("classify")
    for payload in PAYLOADS[::10]:
        service.failure = 422, "bad_value", payload
        ((text, num_foreign),) = page.evaluate(ASK_EACH, ["x"])
        assert payload in text
        assert num_foreign == 0
    assert page.evaluate("window.hit") is None


def test_markup_would_be_stopped_by_the_browser_too(browser: "Browser", service: Service) -> None:
    page = browser.new_page()
    page.goto(service.url)
    tried = (
        "() => { try { document.body.innerHTML = '<p>'; } catch (error) { return error.name; } }"
    )
    assert page.evaluate(tried) == "TypeError"
    page.evaluate("() => document.body.append(document.createElement('img'))")
    assert page.evaluate("() => document.querySelectorAll('img').length") == 1
    page.close()
