"""Documents come from files of every format in order, and bad rows are named."""

import bz2
import gzip
import json
import lzma
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.corpus import read as reading
from bertworks.corpus.read import find_files, read_documents, read_raw

COMPRESSORS = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}
DUMP = """<mediawiki><siteinfo/>
<page><title>One</title><ns>0</ns><revision><text>A '''bold''' [[river|stream]].

Second paragraph.</text></revision></page>
<page><title>Two</title><ns>0</ns><revision><text>* only
* a list</text></revision></page>
<page><title>Three</title><ns>0</ns><revision><text>第三篇。</text></revision></page>
</mediawiki>
"""
EXTRACT = """<doc id="1" url="u" title="One">
One

A bold stream.
Second paragraph.
</doc>
<doc id="3" url="u" title="Three">
第三篇。
</doc>
"""
ARTICLES = [("A bold stream.", "Second paragraph."), ("第三篇。",)]
ROWS = "".join(json.dumps({"text": "\n".join(lines), "id": 7}) + "\n" for lines in ARTICLES)
FILES = {
    "a.txt": "A bold stream.\nSecond paragraph.\n\n第三篇。\n",
    "a.md": "A bold stream.\nSecond paragraph.\n\n第三篇。\n",
    "a.jsonl": ROWS,
    "wiki_00": EXTRACT,
    "wiki_07": ROWS,
    "all-articles.txt": EXTRACT,
    "enwiki-pages-articles.xml": DUMP,
    "enwiki-pages-articles2.xml-p123p456": DUMP,
}


def read(*files: Path, **options: Any) -> tuple[list[tuple[str, ...]], list[tuple[int, str]]]:
    quarantine = Quarantine()
    found = [document.paragraphs for document in read_documents([*files], quarantine, **options)]
    return found, [(row.line, row.reason) for row in quarantine.rows]


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize("name", FILES)
def test_every_format_holds_the_same_documents_however_compressed(
    tmp_path: Path, name: str, compression: str
) -> None:
    file = tmp_path / f"{name}{compression}"
    file.write_bytes(COMPRESSORS[compression](FILES[name].encode()))
    assert read(file) == (ARTICLES, [])
    assert find_files((tmp_path,)) == [file]


def test_pages_of_a_wiki_can_be_read_with_their_markup(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(DUMP, encoding="utf-8")
    (tmp_path / "b.txt").write_text("plain text")
    quarantine = Quarantine()
    raw = list(read_raw(find_files((tmp_path,)), quarantine))
    assert quarantine.num_good == 4
    assert [document.plain().paragraphs for document in raw] == [
        ARTICLES[0],
        (),
        ARTICLES[1],
        ("plain text",),
    ]


def test_parquet_holds_the_same_documents(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    texts = ["\n\n".join(lines) for lines in ARTICLES]
    pq.write_table(pa.table({"text": [texts[0], None, " ", texts[1]]}), file)
    empty = "the text is empty or not a string"
    assert read(file) == (ARTICLES, [(2, empty), (3, empty)])
    assert find_files((tmp_path,)) == [file]


def test_the_column_of_the_text_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "no", "body": "yes"}\n{"text": "no"}\n')
    bad = [(2, 'no "body" (found text); name the key with clean --column text')]
    assert read(tmp_path / "a.jsonl", column="body") == ([("yes",)], bad)
    pq.write_table(pa.table({"text": ["no"], "body": ["yes"]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", column="body") == ([("yes",)], [])


def test_each_text_file_can_be_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"three\n\n\nfour\n"))
    (tmp_path / "c.jsonl").write_text('{"text": "five"}\n{"text": "six"}\n')
    documents, _ = read(*find_files((tmp_path,)), whole_files=True)
    assert documents == [("one", "two"), ("three", "four"), ("five",), ("six",)]


@pytest.mark.parametrize("compression", [".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("name", FILES)
def test_a_torn_file_is_one_sentence(tmp_path: Path, name: str, compression: str) -> None:
    file = tmp_path / f"{name}{compression}"
    whole = COMPRESSORS[compression](FILES[name].encode())
    for length in (3, len(whole) // 2, len(whole) - 5):
        file.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"cannot be read after line \d+: [^\n]+$"):
            read(file)


def test_a_row_may_be_a_book_but_not_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.jsonl"
    book = "word " * 2_000_000
    file.write_text(json.dumps({"text": book}) + '\n{"text": "after"}\n')
    documents, bad = read(file)
    assert [len(lines[0]) for lines in documents] == [len(book) - 1, len("after")]
    assert bad == []
    monkeypatch.setattr(reading, "LONGEST_DOCUMENT", 5_000_000)
    assert read(file) == ([("after",)], [(1, "longer than 5,000,000 bytes; split it into lines")])


def test_what_a_stage_set_aside_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "quarantine.jsonl").write_text('{"file": "a", "line": 1, "reason": "b"}\n')
    (tmp_path / "a.txt").write_text("text")
    assert find_files((tmp_path,)) == [tmp_path / "a.txt"]


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
    not_objects = ["{torn", "[]", "7", "null", '"text"', "[" * 100_000, "1" * 5_000]
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


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"正文": "一"}, "(found 正文); name the key with clean --column 正文"),
        (
            {"id": "7", "body": "long", "n": 12345},
            "(found id, body, n); name the key with clean --column body",
        ),
        ({"the text": "x"}, "(found 'the text'); name the key with clean --column 'the text'"),
        (
            {"a\nb\ud83d": "x"},
            r"(found 'a\nb\ud83d'); name the key with clean --column 'a\nb\ud83d'",
        ),
        ({"n": 7}, "(found n)"),
        ({}, "(found nothing)"),
    ],
)
def test_a_row_without_the_key_tells_those_that_it_has(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(row) + '\n{"text": "good"}\n')
    assert read(file) == ([("good",)], [(1, f'no "text" {reason}')])


def test_a_row_of_endless_keys_is_told_in_short(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"k" * 5000: "x", "other": "y"}))
    _, [(_, reason)] = read(tmp_path / "a.jsonl")
    assert len(reason) < 500


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


def test_several_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("end of a")
    (tmp_path / "b.txt").write_text("begin of b")
    documents, _ = read(tmp_path / "b.txt", tmp_path / "a.txt")
    assert documents == [("begin of b",), ("end of a",)]


def test_folders_are_searched_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b.txt", "inner/a.jsonl.gz", "c.md", "inner/deep/z.txt.xz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    for name in ("image.png", "a.gz", "wiki_index", "a.json", "pom.xml"):
        (tmp_path / name).write_bytes(b"x")
    found = find_files((tmp_path / "c.md", tmp_path))
    assert [str(file.relative_to(tmp_path)) for file in found] == [
        "c.md",
        "b.txt",
        "c.md",
        "inner/a.jsonl.gz",
        "inner/deep/z.txt.xz",
    ]


def test_names_in_capitals_and_other_names_of_json_lines_are_known(tmp_path: Path) -> None:
    for name in ("A.JSONL", "b.ndjson", "C.Jsonl.GZ", "d.json"):
        compress = COMPRESSORS[".gz" if name.endswith("GZ") else ""]
        (tmp_path / name).write_bytes(compress(ROWS.encode()))
        assert read(tmp_path / name) == (ARTICLES, [])
    found = [file.name for file in find_files((tmp_path,))]
    assert found == ["A.JSONL", "C.Jsonl.GZ", "b.ndjson"]  # a .json is mostly no text


def test_linked_folders_are_searched_once_and_circles_end(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a.txt").write_text("text")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "again").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "en").symlink_to(tmp_path / "store")
    (tmp_path / "corpus" / "zh").symlink_to(tmp_path / "store")
    assert find_files((tmp_path / "corpus",)) == [tmp_path / "corpus" / "en" / "a.txt"]
    (tmp_path / "corpus" / "lost.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"there is no file .*lost\.txt"):
        find_files((tmp_path / "corpus",))


def test_a_file_is_read_once_however_many_links_there_are_to_it(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "blob").write_text("text")
    corpus = tmp_path / "corpus"
    (corpus / "en").mkdir(parents=True)
    (corpus / "m.txt").write_text("more")
    (corpus / "z.txt").symlink_to(corpus / "m.txt")
    for name in ("d.txt", "c.txt", "en/a.txt", "en/b.md"):
        (corpus / name).symlink_to(tmp_path / "store" / "blob")
    assert find_files((corpus,)) == [corpus / "c.txt", corpus / "m.txt"]
    (corpus / "o.txt").symlink_to(corpus / "o.txt")
    with pytest.raises(DataError, match=r"there is no file .*o\.txt"):
        find_files((corpus,))


def test_what_is_hidden_or_was_made_by_a_command_is_passed_over(tmp_path: Path) -> None:
    for name in ("a.txt", ".out.work/out/b.jsonl", ".c.txt", "site/manifest.json", "site/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    with saving(tmp_path / "tokenizer", kind="tokenizer", origin=Origin()) as folder:
        (folder / "vocab.txt").write_text("[PAD]")
    assert find_files((tmp_path,)) == [tmp_path / "a.txt", tmp_path / "site" / "d.txt"]


def test_a_folder_that_may_not_be_searched_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def refuse(path: str) -> Any:  # a superuser may search everything
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"closed cannot be searched \(Permission denied\); change"):
        find_files((tmp_path,))


def test_an_empty_file_among_others_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "b.txt").write_text("text")
    assert read(*find_files((tmp_path,))) == ([("text",)], [(1, "the file is empty")])


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
