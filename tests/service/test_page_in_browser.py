"""The page in a real browser: what it shows, and how it is used."""

import ast
import json
import shlex
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

UNNAMED = """() => [...document.querySelectorAll("button, a, input, select, textarea, canvas, nav")]
  .filter((one) => !(one.labels?.length || one.ariaLabel || one.textContent.trim()))
  .map((one) => one.outerHTML)"""
SIDEWAYS = "() => document.documentElement.scrollWidth - innerWidth"


def ask(page: "Page") -> None:
    page.click("button.main")
    page.wait_for_selector("#outcome .answer, #outcome .trouble")


def panels_of(page: "Page") -> list[str]:
    return [str(link.get_attribute("href"))[1:] for link in page.query_selector_all("nav a")]


def test_only_what_the_models_can_do_is_shown(echo: Any, open_page: "Callable[..., Page]") -> None:
    every = ["fill", "classify", "aspect", "tag", "answer", "compare", "search", "zero"]
    assert panels_of(open_page()) == [*every, "choose", "write", "attention", "pieces"]
    echo.models[0]["abilities"] = ["embed"]
    assert panels_of(open_page()) == ["compare", "search", "pieces"]


def test_with_several_models_the_one_that_was_made_for_it_is_asked_by_name(
    echo: Any, open_page: "Callable[..., Page]"
) -> None:
    echo.models.insert(0, echo.models[0] | {"name": "vectors", "abilities": ["embed"]})
    echo.models[1] |= {"abilities": ["embed", "match"], "tasks": {"same": "match"}}
    page = open_page("compare")
    ask(page)
    path, body = echo.asked[-1]
    assert (path, body["model"], len(body["inputs"][0])) == ("/classify", "m", 2)
    page.select_option("#model", "vectors")
    ask(page)
    page.wait_for_selector(".gauge")
    assert echo.asked[-1][0] == "/similarity"


@pytest.mark.parametrize(("locale", "lang"), [("en-US", "en"), ("zh-CN", "zh-Hans")])
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


def test_the_commands_to_copy_are_the_request(echo: Any, open_page: "Callable[..., Page]") -> None:
    page = open_page("answer", permissions=["clipboard-read", "clipboard-write"])
    page.fill("#field-question", 'What\'s "it"? $(id) `id` \\n {x} %s')
    page.fill("#field-passage", "one\ntwo's \\ \t😀 $HOME\u2028three " + "long " * 30)
    ask(page)
    path, body = echo.asked[-1]
    words = shlex.split(page.text_content("#snippet").replace("\\\n", ""))
    assert words[:2] == ["curl", echo.url.rstrip("/") + path]
    assert json.loads(words[words.index("-d") + 1]) == body
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("ArrowRight")
    assert page.text_content("[role=tab][aria-selected=true]") == "Python"
    calls = ast.walk(ast.parse(page.text_content("#snippet")))
    post = next(one for one in calls if isinstance(one, ast.Call) and one.keywords)
    assert ast.literal_eval(post.args[0]) == echo.url.rstrip("/") + path
    assert ast.literal_eval(post.keywords[0].value) == body
    page.click(".request button.small")
    page.wait_for_selector("#status:text-is('Copied')", state="attached")
    assert page.evaluate("navigator.clipboard.readText()") == page.text_content("#snippet")


def test_what_is_written_is_asked_for_in_the_way_that_was_chosen(
    echo: Any, open_page: "Callable[..., Page]"
) -> None:
    page = open_page("write")
    page.fill("#field-text", "two cats sleep")
    ask(page)
    assert echo.asked[-1] == ("/generate", {"inputs": ["two cats sleep"]})
    assert page.text_content(".answer .marked") == "two cats sleep"
    assert "3\u00a0written" in str(page.text_content(".facts"))
    for way, shown, asked in (
        ("beams", ["beams"], {"beams": 4}),
        ("chance", ["temperature", "seed"], {"temperature": 0.8, "draw_seed": 0}),
    ):
        page.select_option("#field-way", way)
        assert page.evaluate("document.activeElement.id") == "field-way"
        visible = [
            one for one in ("beams", "temperature", "seed") if page.is_visible(f"#field-{one}")
        ]
        assert visible == shown
        page.click("#ask")
        page.wait_for_function("() => !document.querySelector('#ask.busy')")
        page.wait_for_selector(f"#snippet:has-text('{next(iter(asked))}')")
        assert echo.asked[-1][1] == {"inputs": ["two cats sleep"], **asked}


def test_a_seed_that_cannot_be_is_not_sent_and_hinders_no_other_way(
    echo: Any, open_page: "Callable[..., Page]"
) -> None:
    page = open_page("write")
    page.select_option("#field-way", "chance")
    page.fill("#field-seed", "-1")
    page.click("#ask")
    assert page.evaluate("document.activeElement.id") == "field-seed"
    assert not echo.asked
    page.select_option("#field-way", "own")
    ask(page)
    assert len(echo.asked) == 1


def test_a_reply_of_nothing_is_told(echo: Any, open_page: "Callable[..., Page]") -> None:
    page = open_page("write")
    nothing = {"answers": [{"text": "", "score": -1}], "usage": {"tokens": 3, "written": 0}}
    page.route("**/generate", partial(fulfill, {"json": nothing}))
    ask(page)
    assert "The model wrote nothing." in str(page.text_content(".answer"))
    assert "The model wrote nothing." in str(page.text_content("#status"))


def test_nothing_is_not_asked(echo: Any, open_page: "Callable[..., Page]") -> None:
    page = open_page("compare")
    page.fill("#field-second", " \n ")
    page.click("#ask")
    assert page.evaluate("document.activeElement.id") == "field-second"
    assert not echo.asked
    page.fill("#field-second", "something")
    ask(page)
    assert echo.asked


def test_all_is_done_with_the_keyboard(echo: Any, open_page: "Callable[..., Page]") -> None:
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
    assert echo.asked
    assert page.evaluate("document.activeElement.id") == "field-text"


def test_attention_opens_where_words_look_afar_and_is_told_in_a_sentence(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("attention")
    page.fill("#field-text", "one two three four")
    ask(page)
    assert chosen_head(page) == (1, 2)
    assert len(page.query_selector_all(".lines path")) == 3
    said = "Layer 2, attention head 3: most of all, “one” looks at “three” (100.0%)."
    assert page.text_content(".told") == said


def test_a_choice_of_layer_head_and_piece_changes_what_is_seen(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("attention")
    page.fill("#field-text", "two words")
    ask(page)
    assert len(page.query_selector_all(".lines path")) == 4
    page.click(".map", position={"x": 70, "y": 10})
    assert chosen_head(page) == (0, 2)
    page.uncheck("#attention-words")
    assert len(page.query_selector_all(".lines path")) == 9
    page.click(".from li:nth-child(2) button")
    assert page.evaluate("document.activeElement.textContent") == "two"
    assert len(page.query_selector_all(".lines path")) == 3
    assert "“two” looks at “[CLS]” (33.3%), “two”" in str(page.text_content(".told"))
    page.select_option("#attention-head", "-1")
    assert "mean of all attention heads: “two” looks at" in str(page.text_content(".told"))


def test_arrow_keys_go_through_attention_heads_and_pieces(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("attention")
    page.fill("#field-text", "one two three four")
    ask(page)
    page.focus(".map")
    for key, place in [("ArrowUp", (0, 2)), ("ArrowUp", (0, 2)), ("ArrowRight", (0, 2))]:
        page.keyboard.press(key)
        assert chosen_head(page) == place
    for key, place in [("Home", (0, -1)), ("ArrowDown", (1, -1)), ("ArrowRight", (1, 0))]:
        page.keyboard.press(key)
        assert chosen_head(page) == place
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "two"
    assert "“two” looks at" in str(page.text_content(".told"))
    page.keyboard.press("Enter")
    assert page.get_attribute(".from li:nth-child(2) button", "aria-pressed") == "true"
    assert len(page.query_selector_all(".from [tabindex='0']")) == 1


def chosen_head(page: "Page") -> tuple[int, ...]:
    return tuple(int(page.input_value(f"#attention-{name}")) for name in ("layer", "head"))


def test_examples_are_in_a_language_that_the_model_reads(
    echo: Any, open_page: "Callable[..., Page]"
) -> None:
    echo.models[0] |= {"name": "english", "languages": ["en"]}
    echo.models.append(echo.models[0] | {"name": "both", "languages": ["en", "zh"]})
    page = open_page("zero", locale="zh-CN")
    assert page.input_value("#field-labels").startswith("science")
    assert "此模型的词表没有中文" in str(page.text_content("form"))
    page.fill("#field-text", "typed")
    page.select_option("#model", "both")
    assert page.evaluate("document.activeElement.id") == "model"
    assert page.input_value("#field-labels").startswith("科学")
    assert page.input_value("#field-text") == "typed"
    assert "此模型的词表没有中文" not in str(page.text_content("form"))


def test_a_task_is_named_where_a_model_has_several(
    echo: Any, open_page: "Callable[..., Page]"
) -> None:
    tasks = {"mood": "classify", "topics": "multilabel", "names": "tag"}
    labels = {"mood": ["good", "bad"], "topics": ["art"], "names": ["O", "B-PER", "I-PER"]}
    echo.models[0] |= {"tasks": tasks, "labels": labels}
    page = open_page("classify")
    assert "Labels: good, bad" in str(page.text_content("form"))
    ask(page)
    assert echo.asked[-1][1]["task"] == "mood"
    page.select_option("#task", "topics")
    assert "Labels: art" in str(page.text_content("form"))
    ask(page)
    assert echo.asked[-1][1]["task"] == "topics"
    page.click("nav a[href='#tag']")
    page.wait_for_selector("text=Labels: PER")
    page.click("nav a[href='#fill']")
    page.wait_for_selector("text=Insert")
    ask(page)
    assert "task" not in echo.asked[-1][1]


def test_the_language_changes_the_examples_but_not_what_was_typed(
    open_page: "Callable[..., Page]",
) -> None:
    page = open_page("compare")
    page.fill("#field-first", "typed")
    ask(page)
    page.click("#language")
    assert page.get_attribute("html", "lang") == "zh-Hans"
    assert page.text_content("h2") == "比较两段文本"
    assert page.input_value("#field-first") == "typed"
    assert page.input_value("#field-second") == "我忘了登录信息，怎样找回？"
    assert page.query_selector(".answer")
    page.reload()
    assert page.text_content("button.main") == "询问模型"


def test_errors_are_sentences(echo: Any, open_page: "Callable[..., Page]") -> None:
    page = open_page("classify")
    echo.failure = 429, "overloaded", "70 tokens wait <b>already</b>."
    ask(page)
    said = page.query_selector_all("[role=alert] p")
    assert [one.text_content() for one in said] == [
        "The service has too much to do right now.",
        "70 tokens wait <b>already</b>.",
        "Ask again in 3 s.",
    ]
    page.click("#language")
    page.wait_for_selector("text=服务现在过于繁忙。")
    page.click("#language")
    for answer, words in (
        ({"status": 502, "body": "<html>"}, "The service refused with status 502."),
        ({"json": {"answers": [7]}}, "The service sent something that is no answer"),
        ({"body": "no JSON"}, "The service sent something that is no answer"),
    ):
        page.route("**/classify", partial(fulfill, answer))
        page.click("#ask")
        page.wait_for_selector(f"text={words}")
        page.unroute("**/classify")
    page.route("**/classify", lambda route: route.abort())
    page.click("#ask")
    page.wait_for_selector("text=The service does not answer")


def fulfill(answer: dict[str, Any], route: "Route") -> None:
    route.fulfill(**answer)


def test_a_key_that_is_withdrawn_is_asked_for_anew_by_loading_the_page_again(
    echo: Any, open_page: "Callable[..., Page]"
) -> None:
    page = open_page("classify")
    echo.failure = 401, "unauthorized", "a key is needed; send it as a header"
    ask(page)
    assert "load the page again" in str(page.text_content("[role=alert]"))
    assert "header" not in str(page.text_content("[role=alert]"))
    with page.expect_navigation():
        page.click("[role=alert] button")
    page.wait_for_selector("#ask")


def test_a_service_that_did_not_answer_can_be_asked_again_for_what_it_can_do(
    browser: "Browser", echo: Any
) -> None:
    page = browser.new_page(locale="en-US")
    page.route("**/info", lambda route: route.abort())
    page.goto(echo.url)
    page.wait_for_selector("text=The service does not answer")
    page.unroute("**/info")
    page.click("text=Try again")
    page.wait_for_selector("#ask")
    page.close()


def test_waiting_is_seen_and_can_be_ended(echo: Any, open_page: "Callable[..., Page]") -> None:
    page, held = open_page("classify"), []
    page.route("**/classify", lambda route: held.append(route))
    assert "The answer will stand here" in str(page.text_content("#outcome"))
    page.focus("#field-text")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#stop:visible")
    assert page.get_attribute("#outcome", "aria-busy") == "true"
    assert page.text_content("#status") == "Waiting for the answer …"
    page.click("nav a[href='#tag']")
    page.wait_for_selector("#stop", state="hidden")
    page.click("nav a[href='#classify']")
    page.click("#stop")
    assert page.get_attribute("#outcome", "aria-busy") == "false"
    assert page.evaluate("document.activeElement.id") == "ask"
    assert not page.is_visible("#stop")
    page.unroute("**/classify")
    ask(page)
    assert page.query_selector(".answer")


def test_a_text_that_was_cut_is_told(open_page: "Callable[..., Page]") -> None:
    page = open_page("classify")
    page.fill("#field-text", "long " * 500)
    ask(page)
    assert "the rest was left out" in str(page.text_content(".caution"))
