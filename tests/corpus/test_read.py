"""Documents come from text and JSONL files in order, and bad lines are named."""

import gzip
import json
import lzma
from pathlib import Path

import pytest

from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.corpus.read import find_files, read_documents


def read(*files: Path) -> tuple[list[tuple[str, ...]], list[tuple[int, str]]]:
    quarantine = Quarantine()
    documents = [document.paragraphs for document in read_documents(list(files), quarantine)]
    return documents, [(row.line, row.reason) for row in quarantine.rows]


def test_blank_lines_part_the_documents_of_a_text_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("\n\nfirst line\n  second line \n\n \t \n第三\r\n\r\nlast", encoding="utf-8")
    assert read(file) == ([("first line", "second line"), ("第三",), ("last",)], [])


def test_each_line_of_jsonl_is_a_document(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [{"text": "one\n\n two \n"}, {"text": "三", "id": 7}]
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert read(file) == ([("one", "two"), ("三",)], [])


def test_bad_rows_of_jsonl_are_named_and_the_rest_keeps_its_order(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    not_objects = ["{torn", "[]", "7", "null", '{"body": "x"}', "[" * 100_000, "1" * 5_000]
    not_texts = ['{"text": null}', '{"text": 7}', '{"text": " \\n "}', '{"text": "half \\ud83d"}']
    good = ['{"text": "before"}', '{"text": "after"}']
    file.write_text("\n".join([good[0], *not_objects, *not_texts, good[1]]))
    documents, bad = read(file)
    assert documents == [("before",), ("after",)]
    assert [number for number, _ in bad] == list(range(2, 13))
    assert {reason for number, reason in bad if number <= 8} == {'not a JSON object with a "text"'}
    assert [reason for number, reason in bad if number > 8] == [
        "the text is empty or not a string",
        "the text is empty or not a string",
        "the text is empty or not a string",
        "the text holds half of a surrogate pair",
    ]


def test_what_is_read_can_be_written_down(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "whole \\ud83d\\ude00"}\n{"text": "nul \\u0000"}\n')
    quarantine = Quarantine()
    documents = list(read_documents([file], quarantine))
    assert documents[0].text == "whole \U0001f600"
    assert sum(document.num_bytes for document in documents) == len("whole \U0001f600".encode()) + 7


def test_one_bad_line_does_not_condemn_a_long_document(tmp_path: Path) -> None:
    file = tmp_path / "book.txt"
    file.write_bytes(b"a line of the book\n" * 30 + b"b\xffd\n")
    quarantine = Quarantine()
    assert len(list(read_documents([file], quarantine))) == 1
    assert (quarantine.num_good, quarantine.num_bad) == (30, 1)
    quarantine.check()


def test_a_file_that_is_mostly_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"a line\n" * 7 + b"b\xffd\n")
    quarantine = Quarantine()
    list(read_documents([file], quarantine))
    with pytest.raises(DataError, match=r"1 of 8 rows .*a\.txt line 8: not UTF-8 at byte 1"):
        quarantine.check()


def test_compressed_files_hold_the_same_documents(tmp_path: Path) -> None:
    text = b'{"text": "one"}\n{"text": "two"}\n'
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress(text))
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.xz"):
        assert read(tmp_path / name) == ([("one",), ("two",)], [])


def test_several_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("end of a")
    (tmp_path / "b.txt").write_text("begin of b")
    documents, _ = read(tmp_path / "b.txt", tmp_path / "a.txt")
    assert documents == [("begin of b",), ("end of a",)]


def test_folders_are_searched_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b.txt", "inner/a.jsonl.gz", "c.md", "inner/deep/z.txt.xz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    for name in ("image.png", "a.gz"):
        (tmp_path / name).write_bytes(b"x")
    found = find_files((tmp_path / "c.md", tmp_path))
    assert [str(file.relative_to(tmp_path)) for file in found] == [
        "c.md",
        "b.txt",
        "c.md",
        "inner/a.jsonl.gz",
        "inner/deep/z.txt.xz",
    ]


def test_missing_and_empty_inputs_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "bare").mkdir()
    for name, message in (
        ("gone.txt", r"there is no file .*gone\.txt; check the path"),
        ("empty.txt", r"empty\.txt is empty; give a file"),
        ("bare", r"bare holds no text files \(\.txt"),
    ):
        with pytest.raises(DataError, match=message):
            find_files((tmp_path / name,))
