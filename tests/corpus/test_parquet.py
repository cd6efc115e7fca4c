"""A column of a Parquet file is read a few rows at a time, and damage is one sentence."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertworks.core.errors import DataError
from bertworks.core.parquet import ROWS_AT_ONCE
from bertworks.corpus.parquet import read_column

TEXTS = [f"text {n}, 第{n}个" for n in range(2 * ROWS_AT_ONCE + 7)]


def write(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", **options)
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("row_group_size", [1, 30, 1000])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_rows_come_in_order_with_their_numbers(
    tmp_path: Path, row_group_size: int, compression: str
) -> None:
    columns = {"id": list(range(len(TEXTS))), "text": TEXTS}
    file = write(tmp_path, columns, row_group_size=row_group_size, compression=compression)
    assert list(read_column(file, "text")) == list(enumerate(TEXTS, start=1))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_kind_of_string_is_read(tmp_path: Path, kind: pa.DataType) -> None:
    file = write(tmp_path, {"body": pa.array(TEXTS, kind)})
    assert [text for _, text in read_column(file, "body")] == TEXTS


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_text_may_be_stored_as_bytes(tmp_path: Path, kind: pa.DataType) -> None:
    rows = [b"one", "第二".encode(), b"b\xffd", None]
    file = write(tmp_path, {"text": pa.array(rows, kind)})
    assert [text for _, text in read_column(file, "text")] == ["one", "第二", None, None]


@pytest.mark.parametrize("value", [7, ["one"], {"body": "one"}])
def test_a_column_that_is_no_text_is_refused_before_its_rows(tmp_path: Path, value: Any) -> None:
    file = write(tmp_path, {"text": [value] * 3})
    with pytest.raises(DataError, match=r'holds .+ in its column "text", not text; name'):
        next(read_column(file, "text"))


def test_repeated_texts_may_be_stored_once(tmp_path: Path) -> None:
    file = write(tmp_path, {"text": pa.array(["one", "two", "one"]).dictionary_encode()})
    assert [text for _, text in read_column(file, "text")] == ["one", "two", "one"]


def test_what_is_no_text_is_told_by_its_row(tmp_path: Path) -> None:
    damaged = pa.array([b"good", b"b\xffd", None, b"end"], pa.binary()).cast(
        pa.string(), safe=False
    )
    assert list(read_column(write(tmp_path, {"text": damaged}), "text")) == [
        (1, "good"),
        (2, None),
        (3, None),
        (4, "end"),
    ]


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": [1], "body": ["one"]})
    with pytest.raises(DataError, match=r'a\.parquet holds no column "text" \(found id, body\)'):
        list(read_column(file, "text"))


def test_a_torn_or_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    file = write(tmp_path, {"text": TEXTS}, row_group_size=30)
    whole = file.read_bytes()
    for length in range(1, len(whole), len(whole) // 30):
        file.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"a\.parquet cannot be read after row 0: [^\n]+$"):
            list(read_column(file, "text"))
    file.write_bytes(b"PAR1" + bytes(len(whole)) + b"PAR1")
    with pytest.raises(DataError, match=r"cannot be read after row 0"):
        list(read_column(file, "text"))
