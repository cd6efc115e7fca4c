"""The files of the page: from the package alone, nothing from outside, no markup of texts."""

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from bertworks.service.failures import STATUSES
from bertworks.service.page import FOLDER, TYPES, page_routes

FILES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
NAMESPACE = "http://www.w3.org/2000/svg"  # a name, which nobody asks for
OUTSIDE = re.compile(r"(?:https?:|wss?:|[\"'(]\s*)//|@import|\bimport\(")
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\b|new Function|setTimeout\(\s*[\"'`]|srcdoc|javascript:"
)
INLINE = re.compile(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", re.IGNORECASE)
PLACES = re.compile(r"\{\w+\}")
WORDS = json.loads(re.search(r"WORDS = (\{.*?\n\});", FILES["words.js"], re.DOTALL)[1])  # type: ignore[index]
PANELS = re.findall(r'^    id: "(\w+)",$', FILES["panels.js"], re.MULTILINE)


def served() -> TestClient:
    return TestClient(Starlette(routes=page_routes()))


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_as_what_it_is(name: str) -> None:
    response = served().get(f"/page/{name}")
    assert response.status_code == 200
    assert response.text == FILES[name]
    assert response.headers["content-type"] == TYPES[Path(name).suffix]


@pytest.mark.parametrize("path", ["/", *(f"/page/{name}" for name in FILES)])
def test_a_browser_is_told_to_take_only_what_the_service_sends(path: str) -> None:
    headers = served().get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_the_start_is_the_page_and_other_methods_are_left_to_others() -> None:
    async def other(request: Request) -> PlainTextResponse:
        return PlainTextResponse("other")

    client = TestClient(Starlette(routes=[*page_routes(), Route("/", other, methods=["POST"])]))
    assert client.get("/").text == FILES["index.html"]
    assert client.post("/").text == "other"
    assert served().post("/").status_code == 405
    assert served().head("/").status_code == 200


def test_a_file_that_a_browser_has_is_not_sent_again() -> None:
    client = served()
    tag = client.get("/page/main.js").headers["etag"]
    again = client.get("/page/main.js", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/page/main.js", headers={"If-None-Match": '"x"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/page.py",
        "/page/%2e%2e/page.py",
        "/page/..%2fpage.py",
        "/page/..%5cpage.py",
        "/page/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/page/main.js%00.html",
        "/page/main.js/",
        "/page/MAIN.JS",
        "/page/.",
        "/page/%252e%252e%252fpage.py",
    ],
)
def test_no_path_leads_out_of_the_page(path: str) -> None:
    response = served().get(path, follow_redirects=False)
    assert response.status_code in (307, 404)
    assert "def page_routes" not in response.text
    assert "root:" not in response.text


@given(name=st.text(min_size=1).filter(lambda name: name not in {*FILES, ".", ".."}))
def test_what_is_no_file_of_the_page_is_not_found(name: str) -> None:
    response = served().get(f"/page/{quote(name, safe='')}", follow_redirects=False)
    assert response.status_code in (307, 404)


# What the files hold


def test_nothing_comes_from_outside() -> None:
    for name, text in FILES.items():
        assert not OUTSIDE.search(text.replace(NAMESPACE, "")), name


@pytest.mark.parametrize(
    "line",
    ['src="https://x.org/a.js"', 'href="//x.org"', "url( //x.org/a)", "@import 'a.css'"],
)
def test_something_from_outside_would_be_noticed(line: str) -> None:
    assert OUTSIDE.search(line)


def test_texts_never_become_markup_or_code() -> None:
    for name, text in SCRIPTS.items():
        assert not MARKUP.search(text), name
    assert not INLINE.search(FILES["index.html"])


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (MARKUP, "place.innerHTML = text"),
        (MARKUP, "eval(text)"),
        (MARKUP, 'setTimeout("x()")'),
        (INLINE, "<script>x()</script>"),
        (INLINE, '<p style="color: red">'),
        (INLINE, '<p onclick="x()">'),
    ],
)
def test_markup_or_code_of_texts_would_be_noticed(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)
    assert not INLINE.search('<script src="page/main.js" type="module"></script>')


def test_scripts_and_pages_name_only_files_that_are_there() -> None:
    for name, text in SCRIPTS.items():
        assert set(re.findall(r'from "\./([\w.]+)"', text)) <= set(FILES), name
    named = set(re.findall(r'(?:src|href)="page/([\w.]+)"', FILES["index.html"]))
    assert {"main.js", "theme.js", "style.css", "icon.svg"} == named
    imported = {file for text in SCRIPTS.values() for file in re.findall(r'"\./([\w.]+)"', text)}
    assert set(SCRIPTS) == imported | {"main.js", "theme.js"}


def test_no_file_outgrows_one_sitting() -> None:
    assert not [name for name, text in FILES.items() if len(text.splitlines()) > 400]


# The words


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_there_in_both_languages_with_the_same_places(word: str) -> None:
    assert set(WORDS[word]) == {"en", "zh"}
    english, chinese = WORDS[word]["en"], WORDS[word]["zh"]
    assert bool(english) == bool(chinese)
    assert set(PLACES.findall(english)) == set(PLACES.findall(chinese))


def test_the_chinese_words_are_chinese() -> None:
    told = {word for word, said in WORDS.items() if re.search("[一-鿿、（]", said["zh"])}
    alike = {
        "language.other",
        "link.openapi.json",
        "zero.template.example",
        "choose.passage.example",
    }
    assert WORDS.keys() - told == alike


def test_every_word_that_is_said_exists_and_every_word_is_said() -> None:
    code = "\n".join(text for name, text in SCRIPTS.items() if name != "words.js")
    literal = set(re.findall(r'say\("([\w.]+)"', code))
    literal |= set(re.findall(r'data-word="([\w.]+)"', FILES["index.html"]))
    assert literal <= WORDS.keys()
    families = {"error", "link", *PANELS}  # their words are put together
    silent = [word for word in WORDS if word not in literal and f'"{word}"' not in code]
    assert {word.split(".")[0] for word in silent} <= families


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_has_a_name_and_says_what_it_is_for(panel: str) -> None:
    assert {f"{panel}.name", f"{panel}.about"} <= WORDS.keys()


@pytest.mark.parametrize("code", STATUSES)
def test_every_refusal_of_the_service_has_words_of_the_page(code: str) -> None:
    assert f"error.{code}" in WORDS
