"""Tables have the names of their header or numbers, and a sample that tells what they hold."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertworks.core.lines import STANDARD_INPUT
from bertworks.core.quarantine import Quarantine
from bertworks.data.tables import (
    SAMPLE,
    Table,
    csv_reader,
    names_columns,
    open_cells,
    open_objects,
    read_csv,
    read_jsonl,
    read_parquet_rows,
    read_tsv,
)

Write = Callable[[str, str | bytes], Path]


def rows_of(table: Table) -> tuple[list[tuple[int, dict[str, object]]], list[tuple[int, str]]]:
    quarantine = Quarantine()
    rows = list(table.read(quarantine))
    return rows, [(row.line, row.reason) for row in quarantine.rows]


def test_a_header_names_the_columns(file: Write) -> None:
    table = open_cells(file("a.tsv", "\nsentence\tlabel\nx y\t1\n\nz\t0\t7\n"), read_tsv, {})
    assert (table.names, table.has_names, table.has_places) == (("sentence", "label"), True, True)
    assert table.sample == ({"sentence": "x y", "label": "1"},)
    rows, bad = rows_of(table)
    assert rows == [(3, {"sentence": "x y", "label": "1"})]
    assert bad == [(5, "3 columns, but the header has 2")]


def test_without_a_header_columns_have_numbers(file: Write) -> None:
    table = open_cells(file("a.csv", 'ham,"a, b"\nspam,c\ntorn\nham,d\n'), read_csv, {})
    assert (table.names, table.has_names) == (("1", "2"), False)
    assert table.column("1").values == ("ham", "spam", "ham")
    rows, bad = rows_of(table)
    assert rows[0] == (1, {"1": "ham", "2": "a, b"})
    assert [line for line, _ in rows] == [1, 2, 4]
    assert bad == [(3, "1 column, but most rows have 2")]


def test_a_first_row_is_a_header_where_its_names_are_given(file: Write) -> None:
    path = file("a.tsv", "Body text\tKlass\nx\t1\n")
    assert not open_cells(path, read_tsv, {}).has_names
    assert open_cells(path, read_tsv, {"label": "Klass"}).names == ("Body text", "Klass")


def test_rows_of_the_similarity_benchmark_may_go_on(file: Write) -> None:
    row = "main-news\tMSRpar\t2012\t0024\t2.5\tone text\tanother one"
    path = file("a.tsv", f"{row}\n{row}\n{row}\tmore\tand more\n")
    rows, bad = rows_of(open_cells(path, read_tsv, {}))
    assert (len(rows), bad) == (3, [])
    assert {tuple(row) for _, row in rows} == {("1", "2", "3", "4", "5", "6", "7")}


def test_objects_have_all_names_that_the_sample_has(file: Write) -> None:
    lines = ['{"text": "x"}', "torn", '{"label": 1, "text": "y"}']
    table = open_objects(file("a.jsonl", "\n".join(lines)), read_jsonl)
    assert table.names == ("text", "label")
    assert table.sample == ({"text": "x"}, {"label": 1, "text": "y"})
    assert rows_of(table)[1] == [(2, "not a JSON object")]


def test_only_the_first_rows_are_a_sample(file: Write) -> None:
    lines = [json.dumps({"text": "x"})] * SAMPLE + [json.dumps({"late": 1})]
    table = open_objects(file("a.jsonl", "\n".join(lines)), read_jsonl)
    assert (table.names, len(table.sample)) == (("text",), SAMPLE)
    assert rows_of(table)[0][-1] == (SAMPLE + 1, {"late": 1})


def test_standard_input_is_not_read_ahead() -> None:
    table = open_objects(STANDARD_INPUT, read_jsonl)
    assert (table.names, table.sample) == ((), ())


def test_rows_of_parquet_are_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x", "y"], "label": [1, 0]}), path)
    table = open_objects(path, read_parquet_rows)
    assert table.names == ("text", "label")
    assert rows_of(table)[0] == [(1, {"text": "x", "label": 1}), (2, {"text": "y", "label": 0})]


@pytest.mark.parametrize("content", ["\n\n", "\t\n"])
def test_a_table_of_nothing_has_no_rows(file: Write, content: str) -> None:
    table = open_cells(file("a.tsv", content), read_tsv, {})
    assert (table.names, table.sample, rows_of(table)) == ((), (), ([], []))


def test_a_broken_row_of_csv_is_told_without_advice_to_programmers(file: Write) -> None:
    quarantine = Quarantine()
    assert list(read_csv(file("a.csv", "text,label\rx,1\r"), quarantine)) == []
    [bad] = quarantine.rows
    assert bad.reason == "not CSV: new-line character seen in unquoted field"


def test_a_line_names_columns_by_any_mark_unless_it_is_prose() -> None:
    assert names_columns("id;text")
    assert names_columns("id,text,label")
    assert not names_columns("Mind the title, text and body.")
    assert not names_columns("What a title, text")


def test_a_csv_without_known_names_is_parted_by_commas(file: Write) -> None:
    path = file("a.csv", "ham;x,y\n")
    assert list(csv_reader(["ham;x,y"], {})(path, Quarantine())) == [(1, ["ham;x", "y"])]
    assert list(csv_reader(["ham;x,y"], {"label": "ham"})(path, Quarantine())) == [
        (1, ["ham", "x,y"])
    ]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_first_line_of_excel_tells_the_mark_between_columns(
    file: Write, mark: str, quote: str
) -> None:
    lines = [f"{quote}sep={mark}{quote}", f"said{mark}kind", f"x{mark}1"]
    path = file("a.csv", "\ufeff" + "\r\n".join(lines))
    rows = csv_reader(lines, {})(path, Quarantine())
    assert list(rows) == [(2, ["said", "kind"]), (3, ["x", "1"])]


def test_a_file_of_the_mark_alone_has_no_rows(file: Write) -> None:
    assert list(csv_reader(["sep=;"], {})(file("a.csv", "sep=;\n"), Quarantine())) == []
