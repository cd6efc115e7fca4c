"""Labelled rows become examples, and bad ones are named by their line."""

import gzip
import io
import json
import lzma
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import STANDARD_INPUT
from bertworks.core.quarantine import Quarantine
from bertworks.data.examples import TextExample
from bertworks.data.forms import label_name
from bertworks.data.rows import (
    find_form,
    parse_columns,
    read_examples,
    read_rows,
    stream_examples,
)

Write = Callable[[str, str | bytes], Path]


def read(path: Path, **options: object) -> tuple[list[TextExample], list[tuple[int, str]]]:
    """Return the examples and the (line, reason) of what is bad, however much it is."""
    quarantine = Quarantine()
    examples = list(stream_examples(path, quarantine, **options))  # type: ignore[arg-type]
    assert quarantine.num_good == len(examples)
    assert quarantine.num_bad == len(quarantine.rows)
    return examples, [(row.line, row.reason) for row in quarantine.rows]


def test_the_three_formats_hold_the_same_examples(file: Write) -> None:
    rows = [("a cat, there", "一只猫", "yes"), ("no", "“nein”", "no")]
    keys = ("text", "text_b", "label")
    jsonl = "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
    tsv = "\n".join("\t".join(row) for row in (keys, *rows)) + "\n"
    csv = 'text,text_b,label\n"a cat, there",一只猫,yes\nno,“nein”,no\n'
    expected = [(TextExample(*row), line) for line, row in enumerate(rows, start=1)]
    for name, content, header in (("a.jsonl", jsonl, 0), ("a.tsv", tsv, 1), ("a.csv", csv, 1)):
        examples, bad = read(file(name, content))
        assert bad == []
        assert examples == [
            TextExample(e.text, e.text_b, e.label, line=line + header) for e, line in expected
        ]


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_compressed_rows_are_rows(file: Write, suffix: str) -> None:
    content = b'{"text": "one", "label": "a"}\n'
    packed = {".gz": gzip.compress, ".xz": lzma.compress}[suffix](content)
    assert read(file(f"a.jsonl{suffix}", packed))[0] == [TextExample("one", None, "a", line=1)]


def test_quotes_in_tsv_are_characters_like_others(file: Write) -> None:
    path = file("a.tsv", 'text\tlabel\n"bare quote\t1\nsaid "x" and\t0\r\n""\t1\n')
    assert [example.text for example in read(path)[0]] == ['"bare quote', 'said "x" and', '""']


def test_quoted_newlines_in_csv_stay_in_their_row(file: Write) -> None:
    path = file(
        "a.csv", 'text,label\r\n"first\r\nsecond ""quoted""",1\r\n\r\nafter,0\r\n"one\nmore",1\r\n'
    )
    assert read(path) == (
        [
            TextExample('first\r\nsecond "quoted"', None, "1", line=2),
            TextExample("after", None, "0", line=5),
            TextExample("one\nmore", None, "1", line=6),
        ],
        [],
    )


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_bad_rows_of_tables_are_named_by_their_line_in_the_file(file: Write, suffix: str) -> None:
    rows = [
        b"text|label",
        b"good|1",
        b"bad \xff|1",
        b"no label|",
        b"n\0l|1",
        b"",
        b"one column",
        b"a|b|c",
        b" |1",
        b"last|0",
    ]
    separator = b"\t" if suffix == ".tsv" else b","
    path = file(f"a{suffix}", b"\n".join(rows).replace(b"|", separator) + b"\n")
    examples, bad = read(path)
    assert [(example.text, example.line) for example in examples] == [("good", 2), ("last", 10)]
    assert sorted(bad) == [
        (3, "not UTF-8 at byte 4"),
        (4, "'label' is empty"),
        (5, "holds a NUL character"),
        (7, "1 column, but the header has 2"),
        (8, "3 columns, but the header has 2"),
        (9, "'text' is empty or not a string"),
    ]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_of_one_column_an_empty_line_is_a_row_for_who_counts_answers(
    file: Write, suffix: str
) -> None:
    """Otherwise answers would move up, and nobody would know by how many."""
    path = file(f"a.{suffix}", "text\none\n\ntwo\n\n\n")
    examples, bad = read(path, labelled=False)
    assert [example.text for example in examples] == ["one", "two"]
    assert bad == [(3, "all of its cells are blank")]


@pytest.mark.parametrize("header", ["text,label,note\n", ""])
def test_blank_rows_of_a_spreadsheet_are_passed_over(file: Write, header: str) -> None:
    rows = "one,1,x\n,,\n,\n,,,,\n , ,\n\ntwo,0,y\n"
    columns = {"text": "1", "label": "2"}
    examples, bad = read(file("a.csv", header + rows), columns=columns)
    assert [(example.text, example.label) for example in examples] == [("one", "1"), ("two", "0")]
    assert bad == []


@pytest.mark.parametrize("header", ["text,label,note\n", ""])
def test_who_counts_answers_hears_of_blank_rows_but_those_at_the_end(
    file: Write, header: str
) -> None:
    rows = "one,1,x\n,,\n\n , ,\ntwo,0,y\n,,\n,,\n"
    columns = {"text": "1", "label": "2"}
    examples, bad = read(file("a.csv", header + rows), columns=columns, labelled=False)
    assert [example.text for example in examples] == ["one", "two"]
    first = 3 if header else 2
    assert bad == [(line, "all of its cells are blank") for line in (first, first + 2)]


@pytest.mark.parametrize("header", ["text,label,note\n", ""])
def test_cells_that_are_not_needed_may_be_missing_and_empty_ones_too_many(
    file: Write, header: str
) -> None:
    rows = "one,1,x\ntwo,0,y\nwide,0,y,, \nshort,1\nno label\nwide,1,x,,more\n"
    columns = {"text": "1", "label": "2"}
    examples, bad = read(file("a.csv", header + rows), columns=columns)
    assert [example.text for example in examples] == ["one", "two", "wide", "short"]
    of = "the header has 3" if header else "most rows have 3"
    assert [reason for _, reason in bad] == [f"1 column, but {of}", f"5 columns, but {of}"]
    unlabelled, bad = read(file("a.csv", header + rows), columns=columns, labelled=False)
    assert [example.text for example in unlabelled][-2:] == ["short", "no label"]
    assert len(bad) == 1


def test_a_missing_cell_of_what_is_sought_is_no_empty_list(file: Write) -> None:
    path = file("a.tsv", "text\tlabels\nno cell\nempty cell\t\n")
    examples, bad = read(path, form="labels")
    assert [(example.text, example.labels) for example in examples] == [("empty cell", ())]
    assert bad == [(2, "1 column, but the header has 2")]


def test_the_last_of_the_choices_may_be_missing(file: Write) -> None:
    path = file("a.csv", "question,answer,A,B,C\nq?,B,x,y\nq?,A,x\n")
    examples, bad = read(path, form="choice")
    assert [example.choices for example in examples] == [("x", "y")]
    assert bad == [(3, "there are less than two choices, so there is nothing to choose")]


def test_rows_of_another_width_are_not_mended_by_names_of_columns(file: Write) -> None:
    path = file("a.csv", "text,label\nyes, I do,1\nno,0\n")
    with pytest.raises(DataError, match=r"the header has 2; give each row as many .*, with quotes"):
        read_examples(path, Quarantine())


def test_bad_rows_of_jsonl_are_named_by_their_line(file: Write) -> None:
    rows = [
        '{"text": "good", "label": "a"}',
        "",
        "{torn",
        "[1, 2]",
        '{"label": "a"}',
        '{"text": 7, "label": "a"}',
        '{"text": "x"}',
        '{"text": "x", "label": ""}',
        '{"text": "x", "label": null}',
        '{"text": "x", "text_b": " ", "label": "a"}',
        '{"text": "half \\ud83d", "label": "a"}',
        '{"text": "x", "label": "\\udc00"}',
        "[" * 100_000,
        f'{{"text": "x", "label": {"7" * 5000}}}',
        f'{{"text": {"7" * 400}, "label": "a"}}',
        '{"text": "last", "label": "b"}',
    ]
    examples, bad = read(file("a.jsonl", "\n".join(rows)))
    assert [(example.text, example.line) for example in examples] == [("good", 1), ("last", 16)]
    assert bad == [
        (3, "not a JSON object"),
        (4, "not a JSON object"),
        (5, "no 'text' (found label)"),
        (6, "'text' is 7, which is no text; write it as \"7\""),
        (7, "no 'label' (found text)"),
        (8, "'label' is empty"),
        (9, "'label' is empty"),
        (10, "'text_b' is empty or not a string"),
        (11, "a value holds half of a surrogate pair"),
        (12, "a value holds half of a surrogate pair"),
        (13, "not a JSON object"),
        (14, "holds a number of thousands of digits; write it as a text, or leave it out"),
        (15, f"'text' is {'7' * 60}, which is no text; write it in quotes"),
    ]


def test_a_quote_that_never_closes_costs_the_lines_it_took_and_says_so(file: Write) -> None:
    path = file("a.csv", 'text,label\nfirst,1\n"open,1\n' + "swallowed,1\n" * 5)
    examples, bad = read(path)
    assert [example.text for example in examples] == ["first"]
    assert [line for line, _ in bad] == [3, 4, 5, 6, 7, 8]
    assert all(reason.startswith("not CSV: ") for _, reason in bad)


def test_a_broken_row_of_csv_does_not_end_the_reading(file: Write) -> None:
    path = file("a.csv", f'text,label\nfirst,1\n"a"b,1\n{"x" * 200_000},1\nlast,0\n')
    examples, bad = read(path)
    assert [(example.text, example.line) for example in examples] == [("first", 2), ("last", 5)]
    assert [line for line, _ in bad] == [3, 4]


def test_columns_are_renamed(file: Write) -> None:
    path = file("a.tsv", "gold\tsentence\ttext\n1\tthis\tnot this\n")
    columns = parse_columns(("text=sentence", "label=gold"))
    assert read(path, columns=columns)[0] == [TextExample("this", None, "1", line=2)]
    assert read(path, columns=parse_columns(("label=gone",)))[1] == [
        (2, "no 'gone' (found gold, sentence, text)")
    ]


def test_another_column_may_say_where_texts_are_from(file: Write) -> None:
    path = file("a.tsv", "text\tlabel\tdomain\nthis\t1\tnews\n")
    for columns, source in (({}, None), (parse_columns(("source=domain",)), "news")):
        (found,) = read(path, columns=columns)[0]
        assert (found, found.origin) == (TextExample("this", None, "1", line=2), source)


@pytest.mark.parametrize("pair", ["text", "text=", "=sentence", "body=text", ""])
def test_a_renaming_that_cannot_be_meant_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match="--columns takes NAME=COLUMN with text, text_b, label"):
        parse_columns((pair,))


@pytest.mark.parametrize(
    ("label", "name"),
    [
        (0, "0"),
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
        (" positive ", "positive"),
        ("\ufeff 正面\u200b\u3000", "正面"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("\u200b \ufeff", None),
        ("", None),
        (" ", None),
        (None, None),
        (0.5, None),
        (["a"], None),
        ({}, None),
    ],
)
def test_labels_are_named_by_text(label: object, name: str | None) -> None:
    assert label_name(label) == name


def test_without_labels_rows_need_none(file: Write) -> None:
    path = file("a.jsonl", '{"text": "x"}\n{"text": "y", "label": 0}\n')
    assert read(path, labelled=False)[0] == [TextExample("x", line=1), TextExample("y", line=2)]


def test_too_many_bad_rows_stop_the_reading(file: Write) -> None:
    path = file("a.jsonl", '{"text": "x", "label": 1}\n' * 8 + "torn\n")
    with pytest.raises(DataError, match=r"1 of 9 rows .*a\.jsonl line 9: not a JSON object"):
        read_examples(path, Quarantine())
    good = file("b.jsonl", '{"text": "x", "label": 1}\n' * 9 + "torn\n")
    assert len(read_examples(good, Quarantine())) == 9


def test_a_long_good_file_does_not_hide_a_bad_short_one(file: Write) -> None:
    quarantine = Quarantine()
    long = file("a.jsonl", '{"text": "x", "label": 1}\n' * 99 + "torn\n")
    short = file("b.jsonl", '{"text": "x"}\n' * 3)
    assert len(read_examples(long, quarantine)) == 99
    with pytest.raises(DataError, match=r"3 of 3 rows .*b\.jsonl line 1: .* with --columns"):
        read_examples(short, quarantine)
    assert (quarantine.num_good, quarantine.num_bad) == (99, 1)


def test_standard_input_holds_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b'{"text": "x"}\ntorn\n\n{"text": "y"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    examples, bad = read(STANDARD_INPUT, labelled=False)
    assert [(example.text, example.line) for example in examples] == [("x", 1), ("y", 4)]
    assert bad == [(2, "not a JSON object")]


def test_files_without_rows_and_of_unknown_format_are_one_sentence(file: Write) -> None:
    for name, content, error, message in (
        ("a.tsv", "text\tlabel\n", DataError, "holds no rows"),
        ("a.jsonl", "\n\n", DataError, "holds no rows"),
        ("a.csv", "", DataError, "is empty"),
        ("a.xlsx", "PK", UsageError, r"should end with \.jsonl, \.tsv, \.csv"),
    ):
        with pytest.raises(error, match=message):
            read_examples(file(name, content), Quarantine())
    with pytest.raises(DataError, match="there is no file"):
        read_examples(Path("gone.tsv"), Quarantine())


def test_a_byte_order_mark_does_not_hide_the_first_column(file: Write) -> None:
    for name, content in (
        ("a.csv", "\ufefftext,label\nx,1\n"),
        ("a.tsv", "\ufefftext\tlabel\nx\t1\n"),
    ):
        assert read(file(name, content))[0] == [TextExample("x", None, "1", line=2)]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
ROWS = st.lists(st.tuples(TEXT.filter(str.strip), TEXT.filter(str.strip)), min_size=1, max_size=7)


@given(ROWS)
def test_any_text_comes_back_from_jsonl(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.jsonl"
    lines = [json.dumps({"text": a, "text_b": b, "label": 1}, ensure_ascii=False) for a, b in rows]
    path.write_bytes(("\n".join(lines) + "\n").encode())
    examples, bad = read(path)
    assert bad == []
    assert [(example.text, example.text_b) for example in examples] == rows


@given(ROWS)
def test_any_text_comes_back_from_csv(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    quoted = [[f'"{value.replace(chr(34), chr(34) * 2)}"' for value in row] for row in rows]
    lines = ["text,text_b,label", *(",".join([*row, "1"]) for row in quoted)]
    path.write_bytes(("\n".join(lines) + "\n").encode())
    examples, bad = read(path)
    assert bad == []
    assert [(example.text, example.text_b) for example in examples] == rows


@pytest.mark.parametrize(
    ("columns", "form"),
    [
        ("text label", "label"),
        ("text text_b label", "label"),
        ("text", "label"),
        ("text labels", "labels"),
        ("text text_b score", "score"),
        ("text aspect label", "aspect"),
        ("tokens tags", "tags"),
        ("text spans", "tags"),
        ("tokens tags intent", "intent_slots"),
        ("question passage answers", "answers"),
        ("question choices label", "choice"),
        ("text first second label", "relation"),
    ],
)
def test_columns_tell_the_form_of_a_file(file: Write, columns: str, form: str) -> None:
    row = dict.fromkeys(columns.split(), "x")
    assert find_form(file("a.jsonl", json.dumps(row) + "\n")) == form
    renamed = {f"their {name}": value for name, value in row.items()}
    names = {name: f"their {name}" for name in row}
    assert find_form(file("b.jsonl", json.dumps(renamed) + "\n"), names) == form


@pytest.mark.parametrize(
    ("columns", "form"),
    [("text text_b score", "score"), ("text label", "label"), ("text text_b", "texts")],
)
def test_among_several_forms_the_columns_choose(file: Write, columns: str, form: str) -> None:
    path = file("a.jsonl", json.dumps(dict.fromkeys(columns.split(), "x")) + "\n")
    assert find_form(path, among=("score", "label", "texts")) == form
    assert find_form(path, among=("tags",)) == "tags"


# What is bad in a row, whatever its form


@pytest.mark.parametrize(
    ("form", "good", "bad", "reason"),
    [
        (
            "tags",
            {"tokens": ["a", "b"], "tags": ["O", "O"]},
            {"tags": ["O"]},
            "2 tokens but 1 tags",
        ),
        (
            "score",
            {"text": "x", "score": 1.5},
            {"score": float("nan")},
            "'score' is nan; it must be",
        ),
        ("score", {"text": "x", "score": "2"}, {"score": "inf"}, "'score' is 'inf'; it must be a"),
        (
            "answers",
            {"question": "q", "passage": "a b", "answers": [{"text": "b", "start": 2}]},
            {"answers": [{"text": "c", "start": 0}]},
            "the answer 'c' is not in its passage",
        ),
        (
            "choice",
            {"question": "q", "choices": ["x", "y"], "label": 1},
            {"label": 2},
            "the label '2' names none of 2 choices",
        ),
        ("aspect", {"text": "x", "aspect": "y", "label": 0}, {"aspect": ""}, "'aspect' is empty"),
    ],
)
def test_a_bad_row_of_any_form_is_named_by_file_and_line(
    file: Write, form: str, good: dict[str, object], bad: dict[str, object], reason: str
) -> None:
    lines = [json.dumps(good), json.dumps(good | bad), json.dumps(good)]
    quarantine = Quarantine()
    path = file("a.jsonl", "\n".join(lines))
    assert [e.line for e in stream_examples(path, quarantine, form=form)] == [1, 3]
    [row] = quarantine.rows
    assert (row.file, row.line) == (str(path), 2)
    assert row.reason.startswith(reason)


def test_a_number_is_a_number_of_a_choice_even_where_choices_are_numbers(file: Write) -> None:
    rows = [{"question": "q", "choices": ["1", "2", "0"], "label": label} for label in (0, "0")]
    path = file("a.jsonl", "\n".join(map(json.dumps, rows)))
    assert [e.label for e in stream_examples(path, Quarantine(), form="choice")] == [0, 2]


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv", "a.csv", "a.json"])
def test_a_text_of_a_hundred_thousand_characters_is_read_whole(file: Write, name: str) -> None:
    text = "字 and so on " * 10_000
    table = {"a.tsv": f"text\tlabel\n{text}\t1\n", "a.csv": f"text,label\n{text},1\n"}
    row = json.dumps({"text": text, "label": 1})
    [found] = read(file(name, table.get(name, row)))[0]
    assert found.text == text


def test_mixed_encodings_cost_only_the_lines_that_are_not_utf8(file: Write) -> None:
    lines = [f"文本 {n}\t{n % 2}".encode() for n in range(9)]
    lines[4] = "另一种\t1".encode("gb18030")
    examples, bad = read(file("a.tsv", b"text\tlabel\n" + b"\n".join(lines)))
    assert len(examples) == 8
    assert bad == [(6, "not UTF-8 at byte 0")]


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv", "a.csv", "a.json", "a.txt", "a.conll"])
@pytest.mark.parametrize("encoding", ["utf-16", "gb18030"])
def test_a_file_in_another_encoding_is_one_sentence(file: Write, name: str, encoding: str) -> None:
    path = file(name, "这家酒店\t很好\n".encode(encoding) * 5)
    with pytest.raises(DataError, match=f"not UTF-8 but perhaps {encoding.upper()}; convert it"):
        read_examples(path, Quarantine())


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a.conll", "a.parquet", "a.tsv.gz"])
def test_an_empty_file_of_any_layout_is_one_sentence(file: Write, name: str) -> None:
    for content in (b"", gzip.compress(b"")) if name.endswith("gz") else (b"",):
        with pytest.raises(DataError, match=rf"{name} (is empty|holds no rows); give a file"):
            read_examples(file(name, content), Quarantine(), form="tags")


def test_what_was_guessed_is_said_once_and_what_is_plain_not_at_all(
    file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file("a.tsv", "sentence\tlabel\nx\t1\ny\t0\n")
    assert find_form(path) == "label"
    assert capsys.readouterr().err == ""
    read_examples(path, Quarantine())
    assert capsys.readouterr().err == "columns of a.tsv: text=sentence label=label (guessed)\n"
    read_examples(path, Quarantine(), columns=parse_columns(("text=sentence",)))
    assert capsys.readouterr().err == ""


def test_memory_does_not_grow_with_the_file(file: Write) -> None:
    peaks = []
    for num_rows in (3_000, 9_000):
        path = file("a.tsv", "sentence\tlabel\n" + f"{'x y ' * 99}\t1\n" * num_rows)
        tracemalloc.start()
        assert sum(1 for _ in stream_examples(path, Quarantine())) == num_rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_rows_of_a_table_may_be_read_as_they_are(file: Write) -> None:
    rows = read_rows(file("a.jsonl", '{"id": 7}\n\n{"other": 8}\n'), Quarantine())
    assert list(rows) == [(1, {"id": 7}), (3, {"other": 8})]
