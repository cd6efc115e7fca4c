"""Growing files: whole or not there, and gone on with from what is surely written."""

import errno
import json
import os
from pathlib import Path

import pytest

from bertworks.core import growing as module
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.growing import Growing, fingerprint, growing, note_of, partial_of

BEGUN = {"task": "tag", "content of the data": "a1"}


def break_off(target: Path, *, keep: bool = True) -> None:
    """Write two sure chunks and half a third one, then fail."""

    def write() -> None:
        with growing(target, BEGUN, resume=False, keep=keep) as file:
            for number in (1, 2):
                file.write(b"chunk %d\n" % number)
                file.commit({"chunks": number})
            file.write(b"chu")
            raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        write()


def go_on(target: Path, **changed: str) -> dict[str, int]:
    """Write the third chunk; return from where."""
    with growing(target, BEGUN | changed, resume=True, keep=True) as file:
        found = file.state
        for number in range(found.get("chunks", 0) + 1, 4):
            file.write(b"chunk %d\n" % number)
            file.commit({"chunks": number})
        file.publish()
    return found


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "out.jsonl"
    with growing(target, BEGUN, resume=False, keep=True) as file:
        file.write(b"all\n")
        file.commit({})
        assert not target.exists()
        file.publish()
    assert target.read_bytes() == b"all\n"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("tail", [b"", b"chu", b"chunk 3\nchunk 4\n"])
def test_what_is_not_sure_is_cut_off_before_it_goes_on(tmp_path: Path, tail: bytes) -> None:
    target = tmp_path / "out.jsonl"
    break_off(target)
    assert partial_of(target).read_bytes() == b"chunk 1\nchunk 2\n"
    with partial_of(target).open("ab") as file:  # as a kill would leave it
        file.write(tail)
    assert go_on(target) == {"chunks": 2}
    assert target.read_bytes() == b"chunk 1\nchunk 2\nchunk 3\n"
    assert list(tmp_path.iterdir()) == [target]


def test_trusting_the_tail_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.jsonl"
    break_off(target)
    with partial_of(target).open("ab") as file:
        file.write(b"chu")
    told = json.loads(note_of(target).read_bytes()) | {"size": partial_of(target).stat().st_size}
    monkeypatch.setattr(module, "_told", lambda *_, **__: told)
    go_on(target)
    assert target.read_bytes() != b"chunk 1\nchunk 2\nchunk 3\n"


def test_a_head_takes_the_place_of_the_first_bytes(tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    with growing(target, BEGUN, resume=False, keep=True) as file:
        file.write(b"0 rows ")
        file.write(b"abc")
        file.commit({}, head=b"3 rows")
        file.write(b"def")
        file.commit({}, head=b"6 rows")
        file.publish()
    assert target.read_bytes() == b"6 rows abcdef"


def test_nothing_is_left_that_cannot_be_gone_on_with(tmp_path: Path) -> None:
    break_off(tmp_path / "out.jsonl", keep=False)
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_file_is_gone_on_with_only_when_asked(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    break_off(target)
    with (
        pytest.raises(UsageError, match=r"unfinished out.jsonl; go on with --resume auto"),
        growing(target, BEGUN, resume=False, keep=True),
    ):
        pass
    assert go_on(target) == {"chunks": 2}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"task": "score"}, "was begun with task = 'tag', now 'score'"),
        ({"content of the data": "b2"}, "was begun before the content of the data changed"),
        ({"more": "yes"}, "was begun with more = None, now 'yes'"),
    ],
)
def test_other_work_does_not_go_on(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    target = tmp_path / "out.jsonl"
    break_off(target)
    with pytest.raises(UsageError, match=said):
        go_on(target, **changed)
    assert partial_of(target).read_bytes() == b"chunk 1\nchunk 2\n"


def test_damaged_remains_are_one_sentence(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    break_off(target)
    os.truncate(partial_of(target), 5)
    with pytest.raises(ArtifactError, match="has 5 bytes, but 16 were written"):
        go_on(target)
    note_of(target).write_text("{")
    with pytest.raises(ArtifactError, match=r"json is damaged; remove it and"):
        go_on(target)
    note_of(target).unlink()
    assert go_on(target) == {}  # without a note nothing is sure


def test_a_full_disk_says_whether_it_can_be_gone_on_with(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"

    def fill(chunks: int) -> None:
        with growing(target, BEGUN, resume=False, keep=True) as file:
            for number in range(chunks):
                file.write(b"chunk %d\n" % (number + 1))
                file.commit({"chunks": number + 1})
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ArtifactError, match=r"No space left .* or choose another --out"):
        fill(0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ArtifactError, match=r"No space left .* run it again with --resume auto"):
        fill(2)
    assert go_on(target) == {"chunks": 2}


def test_what_is_there_already_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("dear")
    with pytest.raises(UsageError, match="exists already"):
        go_on(target)
    assert target.read_text() == "dear"


def test_inputs_are_told_apart_by_size_time_and_beginning(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text("one")
    os.utime(file, ns=(5, 5))
    before, folder = fingerprint(file), fingerprint(tmp_path)
    assert (fingerprint(file), fingerprint(tmp_path)) == (before, folder)
    for change in (lambda: os.utime(file, ns=(5, 6)), lambda: file.write_text("two")):
        change()
        assert fingerprint(file) != before
        assert fingerprint(tmp_path) != folder
        os.utime(file, ns=(5, 5))


def test_another_file_may_be_made_of_it(tmp_path: Path) -> None:
    target, made = tmp_path / "out.parquet", tmp_path / "made"
    made.write_bytes(b"table")
    with growing(target, BEGUN, resume=False, keep=True) as file:
        assert isinstance(file, Growing)
        file.write(b"rows")
        file.commit({})
        file.publish(made)
    assert target.read_bytes() == b"table"
    assert list(tmp_path.iterdir()) == [target]
