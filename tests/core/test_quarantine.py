"""Bad rows are set aside, counted and named."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bertworks.core.errors import DataError
from bertworks.core.quarantine import MOST_KEPT, Quarantine


def test_bad_rows_are_written_with_file_line_and_reason(tmp_path: Path) -> None:
    quarantine = Quarantine()
    quarantine.add(Path("a.jsonl"), 3, "no 'label'")
    quarantine.add(Path("b.tsv"), 5, "坏 row")
    quarantine.write(tmp_path)
    text = (tmp_path / "quarantine.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line) for line in text.splitlines()] == [
        {"file": "a.jsonl", "line": 3, "reason": "no 'label'"},
        {"file": "b.tsv", "line": 5, "reason": "坏 row"},
    ]
    assert quarantine.num_bad == 2


def test_a_row_that_turns_out_bad_no_longer_counts_as_good() -> None:
    quarantine = Quarantine()
    quarantine.pass_good(10)
    quarantine.recall(Path("a.jsonl"), 3, "too long")
    assert (quarantine.num_good, quarantine.num_bad) == (9, 1)
    assert str(quarantine.rows[0]) == "a.jsonl line 3: too long"
    quarantine.recall_unnamed(4)
    assert (quarantine.num_good, quarantine.num_bad, len(quarantine.rows)) == (5, 5, 1)


def test_nothing_bad_writes_and_says_nothing(tmp_path: Path) -> None:
    quarantine = Quarantine()
    quarantine.pass_good(7)
    quarantine.check()
    quarantine.write(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert quarantine.summary() is None


def test_a_tenth_may_be_bad_and_no_more() -> None:
    quarantine = Quarantine()
    quarantine.pass_good(8)
    quarantine.add(Path("a.jsonl"), 3, "not a JSON object")
    with pytest.raises(DataError, match=r"1 of 9 rows .* a\.jsonl line 3: not a JSON object; mend"):
        quarantine.check()
    quarantine.pass_good()
    quarantine.check()


def test_the_summary_counts_and_shows_the_first() -> None:
    quarantine = Quarantine()
    quarantine.add(Path("a.csv"), 3, "odd")
    assert quarantine.summary() == (
        "1 row was set aside in quarantine.jsonl; the first: a.csv line 3: odd"
    )
    quarantine.add(Path("a.csv"), 5, "even")
    assert "2 rows were" in str(quarantine.summary())


def test_rows_beyond_the_most_kept_are_still_counted() -> None:
    quarantine = Quarantine()
    for line in range(MOST_KEPT + 3):
        quarantine.add(Path("a.txt"), line, "bad")
    assert quarantine.num_bad == MOST_KEPT + 3
    assert len(quarantine.rows) == MOST_KEPT


def test_what_was_set_aside_elsewhere_is_taken_over() -> None:
    whole, part = Quarantine(), Quarantine()
    whole.pass_good(3)
    part.pass_good(5)
    whole.add(Path("a.csv"), 3, "odd")
    for line in range(MOST_KEPT):
        part.add(Path("b.csv"), line, "even")
    whole.take(part)
    assert (whole.num_good, whole.num_bad, len(whole.rows)) == (8, MOST_KEPT + 1, MOST_KEPT)
    assert [row.file for row in whole.rows[:2]] == ["a.csv", "b.csv"]


class Slow(Quarantine):
    """A quarantine during whose counting other threads have their turn."""

    @property
    def num_good(self) -> int:
        time.sleep(0.001)
        return super().num_good


def test_no_row_is_lost_that_several_threads_count() -> None:
    whole, part = Quarantine(), Slow()
    part.pass_good(2)

    def count() -> None:
        for _ in range(5):
            whole.pass_good()
            whole.take(part)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(count) for _ in range(4)]:
            done.result()
    assert whole.num_good == 4 * 5 * 3


def test_a_remedy_that_fits_better_is_named() -> None:
    quarantine = Quarantine()
    quarantine.add(Path("a.csv"), 3, "odd")
    with pytest.raises(DataError, match=r"a\.csv line 3: odd; try tea$"):
        quarantine.check(remedy="try tea")


def test_names_of_files_need_not_be_unicode(tmp_path: Path) -> None:
    quarantine = Quarantine()
    quarantine.add(Path("字\udcff.txt"), 7, "torn")
    quarantine.write(tmp_path)
    (line,) = (tmp_path / "quarantine.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["file"] == "字\udcff.txt"
