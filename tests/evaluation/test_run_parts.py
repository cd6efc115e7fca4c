"""The parts of a run: what each shows, and what it leaves out when it is not known."""

import math

from bertworks.core.device import Machine
from bertworks.evaluation.report_blocks import Block, Code, Curves, Heading, Table, Text
from bertworks.evaluation.run_parts import (
    Again,
    Course,
    DataFile,
    Findings,
    Fingerprint,
    Found,
    SeedRow,
    Seeds,
    Speed,
    Warnings,
)


def rows_of(part) -> list[list[str]]:
    (table,) = (block for block in part.blocks() if isinstance(block, Table))
    return [list(map(str, row)) for row in table.rows]


def texts_of(part) -> list[str]:
    return [block.text for block in part.blocks() if isinstance(block, Text)]


def test_seeds_are_shown_with_their_mean_and_those_that_collapsed() -> None:
    rows = (
        SeedRow(0, 0.75, is_best=True),
        SeedRow(1, 0.5, has_collapsed=True),
        SeedRow(2, math.nan),
    )
    seeds = Seeds("f1", rows, mean=0.625, deviation=0.125, floor=0.5)
    assert rows_of(seeds) == [
        ["0", "0.750", "best"],
        ["1", "0.500", "collapsed"],
        ["2", "no number", ""],
    ]
    said = "Mean 0.625, deviation 0.125, floor 0.500; 1 of 3 seeds collapsed."
    assert texts_of(seeds) == [said]


def test_files_are_shown_with_their_hashes() -> None:
    files = DataFile("train", "a.jsonl", "ab12", 1234), DataFile("model", "m", None)
    assert rows_of(Fingerprint(files)) == [
        ["train", "a.jsonl", "1,234", "ab12"],
        ["model", "m", "–", "none: a folder without a manifest"],
    ]


def test_findings_are_shown_and_none_is_said_to_be_none() -> None:
    found = Found("warning", "leaks", 3, "3 rows are in both", "remove them")
    assert rows_of(Findings((found,))) == [
        ["warning", "leaks", "3", "3 rows are in both", "remove them"]
    ]
    note = Found("note", "label counts", 0, "2 different labels", "")
    assert rows_of(Findings((note,))) == [["note", "label counts", "–", "2 different labels"]]
    both = rows_of(Findings((found, note)))
    assert [row[-1] for row in both] == ["remove them", ""]
    assert texts_of(Findings(())) == ["Nothing to worry about was found."]


def test_warnings_are_sentences_and_no_warnings_are_nothing() -> None:
    assert texts_of(Warnings(("a b", "c"))) == ["A b.", "C."]
    assert list(Warnings(()).blocks()) == []


def test_speed_tells_the_pace_and_the_memory_where_they_are_known(machine: Machine) -> None:
    rows = dict(rows_of(Speed("CPU", 4.0, {"steps": 10}, 3 * 2**29)))
    assert rows["steps a second"] == "2.5"
    assert rows["most memory in use"] == "1.50 GiB"
    bare = dict(rows_of(Speed("CPU", 0.0, {"steps": 0})))
    assert bare.keys() == {"machine", "seconds", "steps"}
    told = Speed.of(machine, 2.0, {"steps": 1})
    assert told.machine.startswith("CPU, 1 thread, ")
    assert told.peak_memory is None or told.peak_memory > 2**20


def test_the_command_can_be_copied() -> None:
    blocks: list[Block] = list(Again("bertworks evaluate --out 'a b'", "1.2").blocks())
    assert Code("bertworks evaluate --out 'a b'") in blocks


def test_a_course_of_one_step_says_that_there_is_no_curve() -> None:
    blocks = list(Course((Curves("Loss", {"a": [(1.0, 2.0)]}),)).blocks())
    assert blocks[0] == Heading("Course of the training")
    assert "Too few steps" in texts_of(Course((Curves("Loss", {"a": [(1.0, 2.0)]}),)))[0]
