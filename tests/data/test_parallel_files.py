"""The same line of two files is a source and its target."""

import gzip
import lzma
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import zstandard

from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.data.examples import SourceExample
from bertworks.data.parallel_files import read_pair
from bertworks.data.rows import find_form, read_examples, stream_examples

Write = Callable[[str, str | bytes], Path]
PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
PACK |= {".zst": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("packed", PACK)
def test_lines_are_joined_whatever_packs_each_file(file: Write, packed: str) -> None:
    path = file("a.en", "A dog.\r\nTwo cats.").with_name("a.en-de")
    file(f"a.de{packed}", PACK[packed](b"Ein Hund.\n Zwei Katzen. \n"))
    assert find_form(path) == "target"
    assert read_examples(path, Quarantine(), form="target") == [
        SourceExample("A dog.", ("Ein Hund.",), line=1),
        SourceExample("Two cats.", ("Zwei Katzen.",), line=2),
    ]
    assert read_examples(
        path.with_name("a.de-en"), Quarantine(), form="target", labelled=False
    ) == [
        SourceExample("Ein Hund.", line=1),
        SourceExample("Zwei Katzen.", line=2),
    ]


def test_rows_that_lack_a_side_are_set_aside_with_their_line(file: Write) -> None:
    path = file("a.en", "one\n \nthree\n\nfi\0ve\nsix\n").with_name("a.en-zh")
    file("a.zh", "一\n二\n\n\n五\n六\n")
    quarantine = Quarantine()
    rows = list(read_pair(path, quarantine, {}))
    assert rows == [
        (1, {"source": "one", "target": "一"}),
        (6, {"source": "six", "target": "六"}),
    ]
    found = [(Path(row.file).name, row.line, row.reason) for row in quarantine.rows]
    assert found == [
        ("a.en-zh", 2, "nothing on this line of a.en"),
        ("a.en-zh", 3, "nothing on this line of a.zh"),
        ("a.en-zh", 4, "nothing on this line of a.en and of a.zh"),
        ("a.en", 5, "holds a NUL character"),
    ]


@pytest.mark.parametrize("more", ["two", "two\n", "\n"])
def test_files_of_different_lengths_are_refused_before_any_row(file: Write, more: str) -> None:
    path = file("a.en", "one\n" + more).with_name("a.en-de")
    file("a.de", "eins\n")
    with pytest.raises(DataError, match=r"a.en has 2 lines, but .*a.de has 1; the same line"):
        next(read_pair(path, Quarantine(), {}))


def test_an_empty_side_and_a_torn_one_are_refused(file: Write) -> None:
    path = file("a.en", "one\n").with_name("a.en-de")
    file("a.de", "")
    with pytest.raises(DataError, match=r"a.de is empty"):
        read_examples(path, Quarantine(), form="target")
    file("a.de", "").unlink()
    file("a.de.xz", lzma.compress(b"eins\n" * 1000)[:60])
    with pytest.raises(DataError, match=r"a.de.xz cannot be read"):
        read_examples(path, Quarantine(), form="target")


def test_a_long_file_is_read_as_far_as_it_is_asked_for(file: Write) -> None:
    path = file("a.en", "one\n" * 100_000).with_name("a.en-de")
    file("a.de", "eins\n" * 100_000)
    quarantine = Quarantine()
    stream = stream_examples(path, quarantine, form="target")
    assert [example.line for example in islice(stream, 3)] == [1, 2, 3]
    assert quarantine.num_good == 3


def test_one_side_alone_is_read_as_sources_and_is_not_enough_to_learn_from(file: Write) -> None:
    path = file("a.en", "A dog  runs.\n\nTwo  cats.\n")
    quarantine = Quarantine()
    found = list(stream_examples(path, quarantine, form="target", labelled=False))
    assert found == [SourceExample("A dog  runs.", line=1), SourceExample("Two  cats.", line=3)]
    assert [row.line for row in quarantine.rows] == [2]
    with pytest.raises(DataError, match=r"a\.en has one column only"):
        read_examples(path, Quarantine(), form="target")


def test_two_columns_without_a_header_must_be_told_apart(file: Write) -> None:
    path = file("a.tsv", "".join(f"text number {n}\tText Nummer {n}\n" for n in range(13)))
    for labelled in (True, False):
        with pytest.raises(DataError, match="--columns source=COLUMN"):
            read_examples(path, Quarantine(), form="target", labelled=labelled)
    columns = {"source": "2", "target": "1"}
    found = read_examples(path, Quarantine(), form="target", columns=columns)
    assert found[0] == SourceExample("Text Nummer 0", ("text number 0",), line=1)
