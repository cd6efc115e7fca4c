"""The head of a file is its first lines, and a file that is no UTF-8 text is named."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from bertworks.core.encodings import HEAD_BYTES
from bertworks.core.errors import DataError
from bertworks.data.first_lines import HEAD_LINES, read_head

Write = Callable[[str, str | bytes], Path]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("\ufeffa\r\n\r\nb\r\n", ["a", "", "b"]),
        ("one line", ["one line"]),
        (b"good\nalso\nb\xffd\n", ["good", "also", ""]),
    ],
)
def test_lines_come_without_their_ends_and_marks(
    file: Write, content: str | bytes, lines: list[str]
) -> None:
    assert read_head(file("a.txt", content)) == lines


def test_the_head_of_a_long_file_ends_with_a_whole_line(file: Write) -> None:
    line = "字" * 333
    head = read_head(file("a.txt.gz", gzip.compress(f"{line}\n".encode() * 500)))
    assert set(head) == {line}
    assert 0.99 * HEAD_BYTES < len(head) * 1000 <= HEAD_BYTES
    assert len(read_head(file("b.txt", "x\n" * 9000))) == HEAD_LINES


def test_one_endless_line_may_be_cut_within_a_character(file: Write) -> None:
    for begin in ("", "x", "xx"):
        [line] = read_head(file("a.json", begin + "字" * HEAD_BYTES))
        assert set(line) <= {"x", "字"}


@pytest.mark.parametrize(
    ("encoding", "name"), [("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("gbk", "GB18030")]
)
def test_a_file_in_another_encoding_is_refused_with_the_way_to_mend_it(
    file: Write, encoding: str, name: str
) -> None:
    raw = "这家酒店很好\t1\n房间太小了\t0\n".encode(encoding)
    remedy = f"is not UTF-8 but perhaps {name}; convert it first: iconv -f {name} -t UTF-8"
    with pytest.raises(DataError, match=rf"a\.tsv {remedy}$"):
        read_head(file("a.tsv", raw))


def test_blank_lines_do_not_speak_for_utf_8(file: Write) -> None:
    with pytest.raises(DataError, match="but perhaps GB18030"):
        read_head(file("a.bio", "好\tO\n\n\n".encode("gbk") * 3))


def test_a_torn_file_is_one_sentence(file: Write) -> None:
    packed = gzip.compress(b"text\n" * 1000)
    with pytest.raises(DataError, match=r"a\.tsv\.gz cannot be read after line 0: "):
        read_head(file("a.tsv.gz", packed[:-12]))


@pytest.mark.parametrize(
    ("name", "raw", "kind"),
    [
        ("a.xlsx", b"PK\x03\x04\x14\0\6\0", "an Excel workbook or another zip archive"),
        ("a.csv", b"PK\x03\x04 and text\nand more\n", "an Excel workbook or another zip archive"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel workbook"),
    ],
)
def test_a_workbook_is_named_with_the_way_to_mend_it(
    file: Write, name: str, raw: bytes, kind: str
) -> None:
    with pytest.raises(DataError, match=rf"{name} is {kind}.*; save the sheet as CSV UTF-8"):
        read_head(file(name, raw))
