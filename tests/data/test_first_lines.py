"""The head of a file is its first lines, and a file that is no UTF-8 text is named."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from bertworks.core.errors import DataError
from bertworks.data.first_lines import HEAD_BYTES, HEAD_LINES, read_head

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


CHINESE = "这家酒店很好\t1\n房间太小了\t0\n"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (CHINESE.encode("utf-16"), "but perhaps UTF-16; convert it first: iconv -f UTF-16 -t UTF"),
        (
            "plain\t1\n".encode("utf-16-le"),
            "but perhaps UTF-16LE; convert it first: iconv -f UTF-16LE",
        ),
        (CHINESE.encode("utf-16-le"), "iconv -f UTF-16LE -t UTF-8"),
        (CHINESE.encode("utf-16-be"), "iconv -f UTF-16BE -t UTF-8"),
        ("plain\t1\n".encode("utf-16-be"), "iconv -f UTF-16BE -t UTF-8"),
        ("一万一千一百一十一\n".encode("utf-16-le") * 3, "iconv -f UTF-16LE -t UTF-8"),
        ("一万一千一百一十一\n".encode("utf-16-be") * 3, "iconv -f UTF-16BE -t UTF-8"),
        (CHINESE.encode("gb18030"), "but perhaps GB18030; convert it first: iconv -f GB18030"),
        ("1234567890 20\t好\n".encode("gb18030") * 3, "but perhaps GB18030"),
        ("2024-11-16 08:15,第 12 号,1,000.5\n".encode("gb18030"), "but perhaps GB18030"),
        ("déjà\nété\n".encode("latin-1"), "text; convert it first"),
        ("1234 é 5\n22 à la carte\n".encode("latin-1"), "text; convert it first"),
        ("слово и дело\n".encode("cp1251"), "text; convert it first"),
        (bytes(range(128, 256)), "text; convert it first"),
    ],
)
def test_other_encodings_are_named_with_the_way_to_mend_them(
    file: Write, raw: bytes, reason: str
) -> None:
    with pytest.raises(DataError, match="is not UTF-8 ") as raised:
        read_head(file("a.tsv", raw))
    assert reason in str(raised.value)


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
