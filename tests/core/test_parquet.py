"""Rows of a Parquet file come with their numbers, whatever their columns hold."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertworks.core.errors import DataError
from bertworks.core.parquet import ROWS_AT_ONCE, read_parquet

NUM_ROWS = 2 * ROWS_AT_ONCE + 7


def write(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "a.parquet", **options)
    return folder / "a.parquet"


def all_of(schema: Any) -> list[str]:
    return list(schema.names)


@pytest.mark.parametrize("row_group_size", [1, 30, 1000])
def test_rows_come_whole_and_in_order(tmp_path: Path, row_group_size: int) -> None:
    columns = {"text": [f"text {n}" for n in range(NUM_ROWS)], "label": list(range(NUM_ROWS))}
    file = write(tmp_path, columns, row_group_size=row_group_size)
    rows = list(read_parquet(file, all_of))
    assert rows == [(n + 1, {"text": f"text {n}", "label": n}) for n in range(NUM_ROWS)]


def test_lists_objects_bytes_and_what_is_missing_become_plain_values(tmp_path: Path) -> None:
    columns = {
        "tokens": [["a", "b"], None],
        "answers": [{"text": ["x"], "start": [7]}, {"text": [], "start": []}],
        "raw": pa.array(["第".encode(), b"b\xffd"], pa.binary()),
    }
    (_, first), (_, second) = read_parquet(write(tmp_path, columns), all_of)
    assert first == {"tokens": ["a", "b"], "answers": {"text": ["x"], "start": [7]}, "raw": "第"}
    assert second == {"tokens": None, "answers": {"text": [], "start": []}, "raw": None}


def test_only_the_chosen_columns_are_read(tmp_path: Path) -> None:
    file = write(tmp_path, {"text": ["one"], "other": [7]})
    assert list(read_parquet(file, lambda schema: ["other"])) == [(1, {"other": 7})]


def test_a_file_may_be_compressed_as_a_whole(tmp_path: Path) -> None:
    file = write(tmp_path, {"text": ["one", "two"]})
    packed = tmp_path / "a.parquet.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert list(read_parquet(packed, all_of)) == list(read_parquet(file, all_of))
    packed.write_bytes(gzip.compress(file.read_bytes())[:-9])
    with pytest.raises(DataError, match=r"a\.parquet\.gz cannot be read after row 0: [^\n]+$"):
        list(read_parquet(packed, all_of))


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    file = write(tmp_path, {"text": ["one"]})
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(DataError, match=r"a\.parquet cannot be read after row 0: [^\n]+$"):
        list(read_parquet(file, all_of))
