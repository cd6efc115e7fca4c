"""Lines are read from any file, and what is no text is set aside."""

import bz2
import gzip
import io
import lzma
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core import lines as module
from bertworks.core.errors import DataError
from bertworks.core.lines import (
    LONGEST_LINE,
    STANDARD_INPUT,
    estimate_lines,
    is_unicode,
    open_bytes,
    plain_suffix,
    read_beginning,
    read_every_line,
    read_lines,
    require_content,
    require_file,
)
from bertworks.core.quarantine import Quarantine

COMPRESSORS: list[tuple[str, Callable[[bytes], bytes]]] = [
    (".gz", gzip.compress),
    (".xz", lzma.compress),
    (".bz2", bz2.compress),
    (".zst", zstandard.ZstdCompressor(write_checksum=True).compress),
]
PROSE = b"".join(b"line %d of the file, a little different\n" % n for n in range(2000))


def lines_of(file: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    quarantine = Quarantine()
    lines = list(read_lines(file, quarantine))
    return lines, [(row.line, row.reason) for row in quarantine.rows]


def test_bad_lines_are_named_and_good_ones_keep_their_order_and_number(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"eins\n" + b"b\xffd\n" + "三\n".encode() + b"n\0l\n\nlast")
    lines, bad = lines_of(file)
    assert lines == [(1, "eins\n"), (3, "三\n"), (5, "\n"), (6, "last")]
    assert bad == [(2, "not UTF-8 at byte 1"), (4, "holds a NUL character")]


def test_lines_that_are_set_aside_may_be_seen_as_missing(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\nb\xffd\n\nlong line\nn\0l")
    quarantine = Quarantine()
    lines = list(read_every_line(file, quarantine, longest=7))
    assert lines == [(1, "one\n"), (2, None), (3, "\n"), (4, None), (5, None)]
    assert [row.line for row in quarantine.rows] == [2, 4, 5]


def test_standard_input_reads_like_a_file_and_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"\xef\xbb\xbfeins\nb\xffd\n" + b"x" * (2 * LONGEST_LINE) + "\n三".encode()
    (tmp_path / "a.txt").write_bytes(data)
    stream = io.TextIOWrapper(io.BytesIO(data))
    monkeypatch.setattr(sys, "stdin", stream)
    assert lines_of(STANDARD_INPUT) == lines_of(tmp_path / "a.txt")
    assert not stream.closed
    with pytest.raises(DataError, match="there is no file -"):
        require_content(STANDARD_INPUT)


def test_a_byte_order_mark_is_dropped_at_the_beginning_only(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("\ufefffirst\n\ufeffsecond\n", encoding="utf-8")
    assert lines_of(file) == ([(1, "first\n"), (2, "\ufeffsecond\n")], [])


def test_text_in_another_encoding_is_set_aside_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\nthree\n", encoding="utf-16")
    lines, bad = lines_of(file)
    assert lines == []
    told = "not UTF-8 but perhaps UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"
    assert bad == [(number, told) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_chinese_in_another_encoding_is_named_in_every_line(tmp_path: Path, suffix: str) -> None:
    raw = "今天天气很好。\n\n我们去公园散步。\n".encode("gbk")
    (tmp_path / f"a.txt{suffix}").write_bytes({"": bytes, ".gz": gzip.compress}[suffix](raw))
    lines, bad = lines_of(tmp_path / f"a.txt{suffix}")
    assert lines == [(2, "\n")]
    told = "not UTF-8 but perhaps GB18030; convert it first: iconv -f GB18030 -t UTF-8"
    assert bad == [(1, told), (3, told)]


def test_a_stream_in_another_encoding_is_named_by_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO("one\ntwo\n".encode("utf-16")))
    monkeypatch.setattr(sys, "stdin", stream)
    lines, bad = lines_of(STANDARD_INPUT)
    assert lines == []
    assert bad[0][1].startswith("not UTF-8 but perhaps UTF-16; convert it first: iconv")
    assert bad[1][1] == "holds a NUL character"


def test_the_beginning_of_a_file_may_be_compressed_but_not_torn(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(PROSE)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(PROSE))
    assert read_beginning(tmp_path / "a.txt") == PROSE
    assert read_beginning(tmp_path / "a.txt.gz", 7) == PROSE[:7]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(PROSE)[:9])
    with pytest.raises(DataError, match=r"a\.txt\.gz cannot be read after line 0: "):
        read_beginning(tmp_path / "a.txt.gz")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_endless_line_is_set_aside_without_being_held(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.txt{suffix}"
    with {"": open, ".gz": gzip.open}[suffix](file, "wb") as stream:
        stream.write(b"before\n")
        for _ in range(10):
            stream.write(b"x" * 1_000_000)
        stream.write(b"\nafter\n")
    tracemalloc.start()
    lines, bad = lines_of(file)
    held = tracemalloc.get_traced_memory()[1]
    with open_bytes(file) as stream:
        longest = max(map(len, stream))
    held_by_plain_reading = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == [(1, "before\n"), (3, "after\n")]
    assert bad == [(2, "longer than 1,000,000 bytes; split it into lines")]
    assert held < 5_000_000
    assert longest > 10_000_000
    assert held_by_plain_reading > 10_000_000


@pytest.mark.parametrize("beyond", [-2, 0, LONGEST_LINE, LONGEST_LINE + 1, LONGEST_LINE + 2])
def test_lines_are_counted_right_around_the_longest(tmp_path: Path, beyond: int) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"x" * (LONGEST_LINE + beyond) + b"\nafter\n\nend")
    lines, bad = lines_of(file)
    assert [(number, line) for number, line in lines if len(line) < 10] == [
        (2, "after\n"),
        (3, "\n"),
        (4, "end"),
    ]
    assert [number for number, _ in bad] == ([] if beyond < 0 else [1])


def test_a_reader_may_allow_longer_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"short\n" + b"x" * 12 + b"\nend")
    quarantine = Quarantine()
    assert [n for n, _ in read_lines(file, quarantine, longest=10)] == [1, 3]
    assert quarantine.rows[0].reason == "longer than 10 bytes; split it into lines"
    assert [n for n, _ in read_lines(file, quarantine, longest=13)] == [1, 2, 3]


def test_an_endless_last_line_ends_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"first\n" + b"x" * (2 * LONGEST_LINE + 2))
    lines, bad = lines_of(file)
    assert lines == [(1, "first\n")]
    assert [number for number, _ in bad] == [2]


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSORS)
def test_compressed_files_read_like_plain_ones(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "a.txt").write_bytes(PROSE)
    (tmp_path / f"a.txt{suffix}").write_bytes(compress(PROSE))
    assert lines_of(tmp_path / f"a.txt{suffix}") == lines_of(tmp_path / "a.txt")


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSORS)
def test_a_torn_or_damaged_compressed_file_is_one_sentence(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    file = tmp_path / f"a.txt{suffix}"
    whole = compress(PROSE)
    for length in range(1, len(whole), len(whole) // 20):
        file.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"a\.txt\.\w+ cannot be read after line \d+: "):
            lines_of(file)
    for place in range(10, len(whole) - 8, len(whole) // 60):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with pytest.raises(DataError, match="cannot be read after line"):
            lines_of(file)


def test_a_compressed_file_may_have_a_name_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "A.TXT.GZ").write_bytes(gzip.compress(b"one\n"))
    assert lines_of(tmp_path / "A.TXT.GZ") == ([(1, "one\n")], [])


def test_what_cannot_be_read_again_or_not_at_all_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match=r"pipe\.txt is a pipe or a device; write what it gives"):
        require_file(tmp_path / "pipe.txt")
    (tmp_path / "secret.txt").write_text("x")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # a superuser may read everything
    with pytest.raises(DataError, match=r"secret\.txt may not be read; change its permissions"):
        require_file(tmp_path / "secret.txt")


def test_a_missing_an_empty_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "full.txt").write_text("x")
    require_content(tmp_path / "full.txt")
    for name, message in (("gone.txt", "there is no"), ("empty.txt", "is empty"), ("", "a folder")):
        with pytest.raises(DataError, match=message):
            require_content(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("a.txt", ".txt"),
        ("a.jsonl.gz", ".jsonl"),
        ("a.b.tsv.xz", ".tsv"),
        ("a.xml.bz2", ".xml"),
        ("a.jsonl.zst", ".jsonl"),
        ("A.JSONL.GZ", ".jsonl"),
        ("A.Csv", ".csv"),
        ("a.gz", ""),
        ("a", ""),
    ],
)
def test_the_format_stands_behind_the_compression(name: str, suffix: str) -> None:
    assert plain_suffix(Path(name)) == suffix


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert is_unicode("plain, 字, \U0001f600")
    assert not is_unicode("\ud83d alone")


@given(st.lists(st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]))))
def test_every_line_of_text_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    file = tmp_path_factory.mktemp("lines") / "a.txt"
    file.write_bytes("".join(f"{text}\n" for text in ["first", *texts]).encode())
    lines, bad = lines_of(file)
    assert bad == []
    assert lines == list(enumerate([f"{text}\n" for text in ["first", *texts]], start=1))


def test_the_lines_of_a_long_file_are_told_by_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEGINNING", 1000)
    long, short, packed = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl.gz"))
    long.write_bytes(b"123456789\n" * 777)
    short.write_bytes(b"123456789\n" * 100)
    packed.write_bytes(long.read_bytes())
    found = [estimate_lines(file) for file in (long, short, packed, tmp_path, Path("-"))]
    assert found == [777, None, None, None, None]
