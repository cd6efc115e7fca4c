"""The table of a suite: our scores beside published ones, and why some are missing."""

import json

from bertworks.evaluation.report_blocks import Table, Text
from bertworks.evaluation.suite_results import SuiteTable, TaskResult, markdown, table_rows
from bertworks.evaluation.suite_task import Metric, SuiteTask

TASKS = {
    "first": SuiteTask(
        kind="match",
        parts={},
        metrics=(
            Metric("f1", dev={"base": 86.7}, test={"tiny": 81.1, "base": 88.9}),
            Metric("accuracy"),
        ),
        held_out={"dev": 0.1},
        remark="a | b",
    ),
    "second": SuiteTask(kind="classify", parts={}, metrics=(Metric("accuracy"),)),
}
DONE = TaskResult(
    {"train": 7},
    {"dev": [{"f1": 0.5, "accuracy": 0.25}, {"f1": 0.6, "accuracy": 0.25}], "test": [{"f1": 1.0}]},
    ("trained on little",),
)


def test_every_metric_of_a_task_has_its_row() -> None:
    first, second = table_rows(TASKS, {"first": DONE})
    assert (first["task"], first["metric"], second["metric"]) == ("first", "f1", "accuracy")
    assert (first["dev"], first["test"]) == ("55.0 ± 7.1", "100.0")
    assert (second["dev"], second["test"]) == ("25.0 ± 0.0", "")


def test_published_figures_say_of_what_part_they_are() -> None:
    row = table_rows(TASKS, {"first": DONE})[0]
    assert (row["tiny"], row["mini"]) == ("81.1 test", "")
    assert row["base"] == "86.7 dev, 88.9 test"


def test_what_differs_from_the_official_task_is_said_once() -> None:
    first, second = table_rows(TASKS, {"first": DONE})
    assert first["remark"] == "a | b; dev is split off train; trained on little"
    assert second["remark"] == ""


def test_a_task_that_failed_is_named_with_its_reason() -> None:
    rows = table_rows(TASKS, {"first": DONE, "second": TaskResult(failure="no memory")})
    assert rows[-1]["task"] == "second"
    assert rows[-1]["dev"] == rows[-1]["test"] == ""
    assert rows[-1]["remark"] == "failed: no memory"


def test_a_result_survives_the_disk() -> None:
    again = TaskResult(**json.loads(json.dumps(DONE.as_json())))
    assert table_rows(TASKS, {"first": again}) == table_rows(TASKS, {"first": DONE})


def test_the_page_is_a_table_that_markdown_can_read() -> None:
    page = markdown(table_rows(TASKS, {"first": DONE}), title="A suite", notes=["Made."])
    lines = page.splitlines()
    assert (lines[0], lines[-1]) == ("# A suite", "Made.")
    table = [line.replace(r"\|", "") for line in lines if line.startswith("|")]
    assert len(table) == 4
    assert {line.count("|") for line in table} == {11}
    assert "| BERT-tiny |" in table[0]


def test_a_report_shows_the_same_table() -> None:
    rows = table_rows(TASKS, {"first": DONE})
    shown, note = SuiteTable(tuple(rows), "as published").blocks()
    assert isinstance(shown, Table)
    assert "BERT-base" in shown.header
    assert shown.rows[0] == [*rows[0].values()]
    assert note == Text("as published", is_note=True)
    assert list(SuiteTable((), "none").blocks()) == [Text("none", is_note=True)]
