"""The whole report: the same numbers as HTML, Markdown and JSON; safe and small in any case."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bertworks.core.artifact import Origin
from bertworks.data.examples import TextExample
from bertworks.evaluation.answer_parts import ClassTable, Confidence, Confusion, Errors, Scores
from bertworks.evaluation.answer_views import Gallery
from bertworks.evaluation.findings import Finding, Places
from bertworks.evaluation.full_report import (
    FILES,
    Report,
    again,
    answer_parts,
    findings_of,
    fingerprint,
    training_report,
)
from bertworks.evaluation.report_blocks import Piece, Shown
from bertworks.evaluation.run_parts import SeedRow, Seeds, Speed
from bertworks.evaluation.scoring import Judge
from bertworks.evaluation.training_curves import course_of
from bertworks.tasks.catalog import make_task

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ATTACK = "<script>alert('x')</script><img src=x onerror=\"y\"> & </table></svg></style>"
LARGEST = 2_000_000
OUTSIDE = re.compile(r"<script|<link|<iframe|<img|\bsrc\s*=|\bhref\s*=|url\(|@import|https?:")
VOID = {"meta", "line", "polyline", "rect", "path", "circle"}
# How bright the letters are, and what lies behind them.
SHADES = """() => {
  const { color, backgroundColor } = getComputedStyle(document.body);
  return [color, backgroundColor].map(told => {
    const [red, green, blue] = told.match(/[0-9.]+/g).map(Number);
    return (red + green + blue) / 3;
  });
}"""


class Reader(HTMLParser):
    """Fails on tags that do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Such a tag is open and closed at once."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> str:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader.text


def make_report(num_labels: int = 98, *, text: str = "text", long: int = 0) -> Report:
    labels = [f"{text} {number}" for number in range(num_labels)]
    pairs = {
        (gold, given): 1 + (len(gold) * 7 + number) % 5
        for gold in labels
        for number, given in enumerate(labels)
    }
    row = {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 10}
    pieces = (Piece(text + "x" * long), Piece(text, gold=text, answer="other"))
    shown = Shown(3, {text: pieces}, text, text, 0.9)
    log = [{"step": n, text: 1.0, "lr": 0.1} for n in range(1, 5000)]
    return Report(
        title=text,
        summary=text,
        parts=[
            Scores.of_metrics({text: 0.5, "nan": math.nan}, {}, examples=1000),
            course_of(log, best_step=70),
            ClassTable.of_labels(dict.fromkeys(labels, row)),
            Confusion.of_pairs(pairs, labels),
            Confidence(((0.5, 0.4, 10), (0.9, math.nan, 3)), ece=0.1, brier=math.nan),
            Errors((shown,) * 20, 20),
            Seeds(text, (SeedRow(0, 0.5), SeedRow(1, math.nan)), mean=math.nan),
        ],
        last=[Speed("CPU", 1.0, {text: 3}), again(Origin(command=f"bertworks {text}"))],
    )


def test_a_report_of_98_labels_and_long_texts_stays_small_and_whole() -> None:
    report = make_report(long=50_000 // 20)
    html = report.html()
    assert len(html.encode()) < LARGEST
    assert "text 97" in read(html)
    assert not OUTSIDE.search(html)
    assert not re.search(r'="[^"<>]*\b(nan|inf)\b[^"<>]*"', html)


def test_nothing_of_the_data_becomes_markup() -> None:
    for num_labels in (3, 40):
        report = make_report(num_labels, text=ATTACK)
        html = report.html()
        assert not OUTSIDE.search(html.replace("&lt;", "").replace(" src=x", ""))
        assert "<script" not in html
        assert ATTACK in read(html)
        assert not re.search(r"(?<!\\)<", report.markdown().partition("```")[0])


def test_texts_of_other_scripts_are_shown_in_their_own_direction() -> None:
    html = make_report(2, text="שלום עולם 北京").html()
    assert "שלום עולם 北京" in read(html)
    assert '<p dir="auto">' in html


def test_all_renderings_tell_the_same_numbers() -> None:
    report = make_report(3)
    told = report.as_json()
    assert told["scores"]["scores"][0]["value"] == 0.5
    assert told["scores"]["scores"][1]["value"] is None
    assert told["calibration"]["points"][1] == [0.9, None, 3]
    assert told["confusion"]["labels"] == ["text 0", "text 1", "text 2"]
    assert told["again"]["command"] == "bertworks text"
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    for shown in (read(report.html()), report.markdown()):
        assert "0.500" in shown
        assert "no number" in shown
        assert "bertworks text" in shown


def test_a_text_that_is_no_unicode_does_not_cost_the_report(tmp_path: Path) -> None:
    make_report(2, text="half \ud800 a pair").write(tmp_path)
    assert "half ? a pair" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_three_files_are_written(tmp_path: Path) -> None:
    make_report(3).write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)
    assert json.loads((tmp_path / "report.json").read_text())["title"] == "text"


def test_answers_of_one_example_make_a_report_without_ranges() -> None:
    judge, gallery = Judge(make_task("classify", ("no", "yes"))), Gallery(("no", "yes"))
    example = TextExample("a text", label="no", line=1)
    answer = {"label": "yes", "probability": 0.75, "probabilities": {"no": 0.25, "yes": 0.75}}
    gallery.add(example, answer, judge.add(example, answer))
    report = Report(title="t", parts=answer_parts(judge, gallery))
    text = read(report.html())
    assert "1 example says very little" in text
    assert "same label, so accuracy alone is told" in text
    assert "expected calibration error" not in text
    assert "No example has the label yes" in text
    assert [list(map(sum, [row])) for row in report.as_json()["confusion"]["counts"]] == [[1], [0]]
    assert report.as_json()["scores"]["scores"][0]["low"] is None


def test_the_parts_of_several_tasks_stand_below_their_names() -> None:
    by_task = {name: [Scores.of_metrics({"f1": 0.5}, {}, examples=99)] for name in ("one", "two")}
    report = training_report("t", by_task, course_of([]), last=[])
    html = report.html()
    assert (
        html.index("<h2>Task one</h2>") < html.index("<h3>Scores</h3>") < html.index("<h2>Task two")
    )
    assert set(report.as_json()["tasks"]) == {"one", "two"}
    single = training_report("t", {"one": by_task["one"]}, course_of([]), last=[])
    assert "<h2>Scores</h2>" in single.html()


def test_inputs_are_told_by_their_hashes_and_findings_by_their_words(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    origin = Origin(inputs={"data": tmp_path / "rows.jsonl", "model": tmp_path})
    data, model = fingerprint(origin, {"data": 1}).files
    assert (data.rows, len(data.sha256 or "")) == (1, 64)
    assert (model.rows, model.sha256) == (None, None)
    finding = Finding(severity="note", check="c", said="s", places=Places(4, []))
    (told,) = findings_of([finding]).findings
    assert (told.severity, told.rows, told.said) == ("note", 4, "s")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_a_page_needs_no_sideways_scrolling(browser: "Browser", tmp_path: Path, width: int) -> None:
    make_report(98, long=3000).write(tmp_path)
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_on_a_telephone_the_f1_of_labels_is_in_sight_and_words_stay_whole(
    browser: "Browser", tmp_path: Path
) -> None:
    row = {"precision": 0.5, "recall": 0.5, "f1": 0.5, "f1_low": 0.25, "f1_high": 0.75}
    table = ClassTable.of_labels({"disagreeable": {**row, "support": 10}})
    Report(title="t", parts=[table]).write(tmp_path)
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("table").evaluate("table => table.scrollWidth - table.clientWidth") == 0
    lines = """cell => {
      const words = document.createRange();
      words.selectNodeContents(cell);
      return words.getClientRects().length;
    }"""
    assert page.locator("td:first-child").evaluate(lines) == 1
    page.close()


def test_a_page_asks_for_nothing_and_runs_nothing_of_the_data(
    browser: "Browser", tmp_path: Path
) -> None:
    make_report(3, text=ATTACK).write(tmp_path)
    page, asked, said = browser.new_page(), list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda message: said.append(message.text))
    address = (tmp_path / "report.html").as_uri()
    page.goto(address)
    assert page.locator("h1").inner_text() == ATTACK
    assert (asked, said) == ([address], [])
    page.close()


def test_a_page_follows_the_wish_for_light_or_dark_and_prints_dark_on_light(
    browser: "Browser", tmp_path: Path
) -> None:
    make_report(3).write(tmp_path)
    shades = {}
    for name, wish in {
        "light": {"color_scheme": "light"},
        "dark": {"color_scheme": "dark"},
        "paper": {"color_scheme": "dark", "media": "print"},
    }.items():
        page = browser.new_page()
        page.emulate_media(**wish)
        page.goto((tmp_path / "report.html").as_uri())
        shades[name] = page.evaluate(SHADES)
        page.close()
    for name, (ink, ground) in shades.items():
        assert (ink < ground) == (name != "dark")
        assert abs(ink - ground) > 150  # of 255
