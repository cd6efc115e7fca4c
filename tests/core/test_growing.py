"""Growing files: whole or not there, and gone on with from what is surely written."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, cast

import pytest

from bertworks.core import growing as module
from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.growing import (
    Growing,
    fingerprint,
    finished,
    growing,
    made_of,
    note_of,
    partial_of,
)

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
    assert sorted(tmp_path.iterdir()) == [target, made_of(target)]


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


def test_inputs_are_told_apart_by_all_of_their_content_and_not_by_their_time(
    tmp_path: Path,
) -> None:
    file, size = tmp_path / "inner" / "data.jsonl", 300_001
    file.parent.mkdir()
    file.write_bytes(bytes(size))
    os.utime(file, ns=(5, 5))
    before, folder = fingerprint(file), fingerprint(tmp_path)
    os.utime(file, ns=(5, 6))
    assert (fingerprint(file), fingerprint(tmp_path)) == (before, folder)
    for place in (0, size // 2, size - 1):
        changed = bytearray(size)
        changed[place] = 1
        file.write_bytes(changed)
        os.utime(file, ns=(5, 5))
        assert fingerprint(file) != before
        assert fingerprint(tmp_path) != folder
    file.write_bytes(bytes(size))
    assert (fingerprint(file), fingerprint(tmp_path)) == (before, folder)
    file.rename(tmp_path / "data.jsonl")
    assert fingerprint(tmp_path) != folder
    assert fingerprint(tmp_path / "nowhere") == ""


def test_a_manifest_speaks_for_the_files_it_names_and_no_others(tmp_path: Path) -> None:
    with saving(tmp_path / "made", kind="model", origin=Origin()) as made:
        (made / "weights").write_text("one")
    before = fingerprint(tmp_path)
    (tmp_path / "made" / "weights").write_text("two")  # which to open the folder would notice
    assert fingerprint(tmp_path) == before
    (tmp_path / "made" / "more").write_text("one")
    with_more = fingerprint(tmp_path)
    assert with_more != before
    (tmp_path / "made" / "more").write_text("two")
    assert fingerprint(tmp_path) != with_more
    (tmp_path / "made" / "manifest.json").write_text("{")
    assert fingerprint(tmp_path) not in (before, with_more)


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


def make_whole(target: Path, *, resume: bool = True) -> None:
    """Write a file, and say something of it."""
    with growing(target, BEGUN, resume=resume, keep=True) as file:
        file.write(b"all")
        file.commit({})
        file.result = {"rows": 3}
        file.publish()


def test_a_whole_file_tells_that_it_was_made_from_the_same(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    assert finished(target, BEGUN) is None
    make_whole(target)
    assert finished(target, BEGUN) == {"rows": 3}
    with pytest.raises(UsageError, match="begun with task = 'tag', now 'score'; choose another"):
        finished(target, BEGUN | {"task": "score"})
    assert target.read_bytes() == b"all"


def test_a_whole_file_that_came_from_elsewhere_is_not_taken_for_ours(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    make_whole(target, resume=False)
    with pytest.raises(UsageError, match="exists already, and nothing beside it tells"):
        finished(target, BEGUN)
    target.unlink()
    make_whole(target)
    target.write_bytes(b"ALL")
    with pytest.raises(UsageError, match="exists already, and nothing beside it tells"):
        finished(target, BEGUN)
    made_of(target).write_text("[")
    with pytest.raises(UsageError, match="exists already, and nothing beside it tells"):
        finished(target, BEGUN)


def test_a_file_that_nobody_asks_for_again_has_no_note_not_even_an_old_one(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    make_whole(target)
    target.unlink()
    make_whole(target, resume=False)
    assert list(tmp_path.iterdir()) == [target]


def test_two_processes_do_not_write_the_same_file(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    program = (
        "import sys; from pathlib import Path; from bertworks.core.growing import growing\n"
        "with growing(Path(sys.argv[1]), {}, resume=True, keep=True): pass"
    )
    with growing(target, BEGUN, resume=True, keep=True) as file:
        file.write(b"one")
        ran = subprocess.run(
            [sys.executable, "-c", program, str(target)], capture_output=True, text=True
        )
        assert "another process is writing" in ran.stderr
        file.commit({})
        file.publish()
    assert target.read_bytes() == b"one"


class Watched:
    """An open file that notes what lies in its place as soon as it is closed."""

    def __init__(self, file: IO[bytes], place: Path) -> None:
        self.file = file
        self.place = place
        self.left: bytes | None = b"never closed"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def close(self) -> None:
        self.file.close()
        self.left = self.place.read_bytes() if self.place.exists() else None


@pytest.mark.parametrize(("keep", "left"), [(True, b"sure\n"), (False, None)])
def test_nothing_is_done_to_a_file_once_another_process_may_have_it(
    tmp_path: Path, keep: bool, left: bytes | None
) -> None:
    target = tmp_path / "out.jsonl"
    watched: list[Watched] = []

    def write() -> None:
        with growing(target, BEGUN, resume=False, keep=keep) as lent:
            lent.write(b"sure\n")
            lent.commit({})
            lent.write(b"not su")
            watched.append(Watched(lent.file, partial_of(target)))
            lent.file = cast(IO[bytes], watched[0])
            raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        write()
    assert watched[0].left == left
    assert partial_of(target).exists() == keep
    if keep:
        assert partial_of(target).read_bytes() == left


@pytest.mark.parametrize("is_swept", [False, True])
def test_what_another_process_has_just_published_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_swept: bool
) -> None:
    target = tmp_path / "out.jsonl"
    break_off(target)
    hold = module.hold

    def finish_first(path: Path) -> bool:
        monkeypatch.setattr(module, "hold", hold)
        go_on(target)
        is_held = hold(path)
        if is_swept:  # by the other one, which removes what it has published
            path.unlink()
        return is_held

    monkeypatch.setattr(module, "hold", finish_first)
    with pytest.raises(UsageError, match="exists already"):
        go_on(target)
    assert target.read_bytes() == b"chunk 1\nchunk 2\nchunk 3\n"
    assert not partial_of(target).exists()


def test_names_that_are_no_unicode_are_told_apart_too(tmp_path: Path) -> None:
    target = tmp_path / os.fsdecode(b"\xff.npy")
    make_whole(target)
    assert finished(target, BEGUN) == {"rows": 3}
    assert fingerprint(target) != fingerprint(made_of(target))


def test_a_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; name a file in it"):
        make_whole(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_work_that_wrote_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"

    def refuse_all() -> None:
        with growing(target, BEGUN, resume=False, keep=True) as file:
            file.commit({"refused": 7})
            raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        refuse_all()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_not_said_to_be_full(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("dear")
    with pytest.raises(ArtifactError, match=r"cannot write .*; mend that or choose another --out"):
        make_whole(tmp_path / "file" / "out.jsonl")
