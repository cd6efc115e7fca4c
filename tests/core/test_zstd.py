"""Zstandard files are read as streams, and a torn one is never taken for whole."""

import tracemalloc
from pathlib import Path

import pytest
import zstandard

from bertworks.core.zstd import open_zstd

DATA = b"".join(b"line %d of the file, a little different\n" % n for n in range(5000))


def write(tmp_path: Path, data: bytes) -> Path:
    (tmp_path / "a.zst").write_bytes(data)
    return tmp_path / "a.zst"


def read(file: Path) -> bytes:
    with open_zstd(file) as stream:
        return stream.read()


def test_a_file_comes_back_whole(tmp_path: Path) -> None:
    assert read(write(tmp_path, zstandard.compress(DATA))) == DATA
    assert read(write(tmp_path, zstandard.compress(b""))) == b""


def test_several_frames_follow_each_other(tmp_path: Path) -> None:
    skipped = bytes.fromhex("502a4d18") + (5).to_bytes(4, "little") + b"notes"
    frames = [zstandard.compress(DATA[:777]), skipped, zstandard.compress(DATA[777:])]
    assert read(write(tmp_path, b"".join(frames))) == DATA


def test_lines_can_be_read_one_by_one_and_the_file_is_closed(tmp_path: Path) -> None:
    with open_zstd(write(tmp_path, zstandard.compress(DATA))) as stream:
        assert stream.readline() == DATA[: DATA.index(b"\n") + 1]
        raw = stream.raw  # type: ignore[attr-defined]
    assert raw.source.closed


@pytest.mark.parametrize("with_checksum", [False, True])
def test_a_torn_file_is_told_from_a_whole_one(tmp_path: Path, with_checksum: bool) -> None:
    whole = zstandard.ZstdCompressor(write_checksum=with_checksum).compress(DATA)
    for length in range(1, len(whole), len(whole) // 37):
        with pytest.raises(EOFError, match="in the middle of a frame"):
            read(write(tmp_path, whole[:length]))


def test_what_is_no_zstandard_data_is_damage(tmp_path: Path) -> None:
    for data in (b"plain text, not compressed", zstandard.compress(DATA) + b"garbage"):
        with pytest.raises(OSError, match="damaged Zstandard data"):
            read(write(tmp_path, data))


def test_a_bomb_is_unfolded_little_by_little(tmp_path: Path) -> None:
    bomb = zstandard.compress(bytes(300_000_000))
    assert len(bomb) < 20_000
    tracemalloc.start()
    with open_zstd(write(tmp_path, bomb)) as stream:
        size = sum(len(chunk) for chunk in iter(lambda: stream.read(1 << 20), b""))
        held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 300_000_000
    assert held < 160_000_000
