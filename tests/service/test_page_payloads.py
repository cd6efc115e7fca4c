"""The page and what it does not let in: texts, labels and names that would be code."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


def test_200_texts_that_would_be_code_are_only_texts(open_page: "Callable[..., Page]") -> None:
    assert len(set(PAYLOADS)) == 200
    require_only_texts(open_page("tag"), PAYLOADS)


def test_texts_that_would_be_code_are_only_texts_in_the_other_panels_too(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page()
    for panel in ("fill", "classify", "answer", "choose", "write", "pieces"):
        page.evaluate("(panel) => { location.hash = panel; }", panel)
        page.wait_for_selector(f"nav a[href='#{panel}'][aria-current=page]")
        require_only_texts(page, PAYLOADS[::10])


def require_only_texts(page: "Page", payloads: list[str]) -> None:
    shown = page.evaluate(ASK_EACH, payloads)
    for payload, (text, num_foreign) in zip(payloads, shown, strict=True):
        whole = re.sub(r"\s+", "", payload)
        assert whole in re.sub(r"\s+", "", text)
        assert num_foreign == 0
    assert page.evaluate("window.hit") is None
    assert page.text_content("h2")


def test_code_in_a_refusal_is_only_text(echo: Any, open_page: "Callable[..., Page]") -> None:
    page = open_page("classify")
    for payload in PAYLOADS[::10]:
        echo.failure = 422, "bad_value", payload
        ((text, num_foreign),) = page.evaluate(ASK_EACH, ["x"])
        assert payload in text
        assert num_foreign == 0
    assert page.evaluate("window.hit") is None


def test_names_and_labels_that_would_be_code_are_only_texts(
    echo: Any, open_page: "Callable[..., Page]"
) -> None:
    labels = {"mood": PAYLOADS[::-1], "other": PAYLOADS}
    echo.models = [echo.models[0] | {"name": name, "revision": name} for name in PAYLOADS]
    echo.models[0] |= {"tasks": dict.fromkeys(labels, "classify"), "labels": labels}
    shares = {name: 1 / len(PAYLOADS) for name in PAYLOADS}
    answer = {"label": PAYLOADS[0], "probability": 0.5, "probabilities": shares}
    page = open_page("classify")
    assert PAYLOADS[-1] in str(page.text_content("form .aside"))
    page.route("**/classify", lambda route: route.fulfill(json={"answers": [answer]}))
    page.click("summary")
    page.click("#ask")
    page.click("text=Show all 200")
    for places in (".bars .name", "#model option", ".models strong"):
        seen = page.eval_on_selector_all(places, "(all) => all.map((one) => one.textContent)")
        assert sorted(seen) == sorted(PAYLOADS)
    foreign = "body :is(script, img, iframe, object, style, base, meta, video, math)"
    assert len(page.query_selector_all(foreign)) == 0
    assert page.evaluate("window.hit") is None


def test_markup_would_be_stopped_by_the_browser_too(browser: "Browser", echo: Any) -> None:
    page = browser.new_page()
    page.goto(echo.url)
    tried = (
        "() => { try { document.body.innerHTML = '<p>'; } catch (error) { return error.name; } }"
    )
    assert page.evaluate(tried) == "TypeError"
    page.evaluate("() => document.body.append(document.createElement('img'))")
    assert page.evaluate("() => document.querySelectorAll('img').length") == 1
    page.close()
