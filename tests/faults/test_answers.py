"""predict and embed that end in the middle: they go on to the same bytes."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.growing import note_of, partial_of

FEW = ("answer_a_few",)
COMMANDS = {"predict": "out.jsonl", "embed": "out.npy"}
Words = Callable[..., list[str]]


@pytest.fixture(scope="session")
def model(whole: Callable[..., Path]) -> Path:
    """Give a small pre-trained model, which fills masks."""
    return whole()


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 43 rows: texts with a mask, without one, and no texts."""
    chance = random.Random(9)
    rows = []
    for number in range(43):
        words = [*chance.choices(["bal", "ken", "mir", "sos"], k=chance.randint(1, 12))]
        masked = words if number in (7, 21) else [*words, "[MASK]"]
        rows.append("torn" if number in (3, 30) else json.dumps({"text": " ".join(masked)}))
    file = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    file.write_text("\n".join(rows) + "\n")
    return file


@pytest.fixture(scope="session")
def answer(model: Path, texts: Path) -> Words:
    """Say the words that answer or embed the rows."""

    def words(command: str, out: Path, *more: str) -> list[str]:
        given = ["--model", str(model), "--data", str(texts), "--out", str(out), "--json"]
        return [command, *given, "--threads", "1", "--resume", "auto", *more]

    return words


@pytest.fixture(scope="session")
def undisturbed(
    commands: Any, answer: Words, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[bytes, Any]]:
    """Give what a command writes and says when nothing disturbs it."""
    made: dict[str, tuple[bytes, Any]] = {}

    def find(command: str, name: str) -> tuple[bytes, Any]:
        if name not in made:
            out = tmp_path_factory.mktemp("undisturbed") / name
            ended = commands.run(answer(command, out), switches=FEW)
            assert ended.code == 0, ended.said
            made[name] = out.read_bytes(), told(ended)
        return made[name]

    return find


def told(ended: Any) -> dict[str, Any]:
    """Return what a command says at its end but for the name of its file."""
    result = json.loads(ended.said.splitlines()[-1])
    return {key: value for key, value in result.items() if key not in ("out", "left_out")}


@pytest.mark.shows("A1")
@pytest.mark.parametrize(
    ("command", "name"),
    [("predict", "out.jsonl"), ("embed", "out.npy"), ("embed", "out.parquet")],
)
@pytest.mark.parametrize(
    ("event", "numbers"),
    [("sync", [1, 2, 3, 8]), ("rename", [1, 2, 5]), ("sync", [6, 1, 2])],
)
def test_killed_anywhere_it_goes_on_to_the_same_bytes(
    command: str,
    name: str,
    event: str,
    numbers: list[int],
    commands: Any,
    make_fate: Any,
    answer: Words,
    undisturbed: Any,
    counted: Callable[..., None],
    tmp_path: Path,
) -> None:
    out = tmp_path / name
    for number in numbers:
        ended = commands.run(answer(command, out), fate=make_fate(event, number), switches=FEW)
        assert ended.code == -9, ended.said
        assert not out.exists()
    counted(kills=len(numbers))
    ended = commands.run(answer(command, out), switches=FEW)
    assert ended.code == 0, ended.said
    assert (out.read_bytes(), told(ended)) == undisturbed(command, name)
    assert not partial_of(out).exists()
    assert not note_of(out).exists()


@pytest.mark.shows("A1")
def test_killed_between_its_last_answer_and_its_name_it_ends_well(
    commands: Any, make_fate: Any, answer: Words, undisturbed: Any, tmp_path: Path
) -> None:
    for command, name in (("predict", "out.jsonl"), ("embed", "out.parquet")):
        out, last = tmp_path / name, 9  # of nine chunks
        fate = make_fate("rename", last)
        assert commands.run(answer(command, out), fate=fate, switches=FEW).code == -9
        ended = commands.run(answer(command, out), switches=FEW)
        assert "goes on behind 41 rows" in ended.said
        assert (out.read_bytes(), told(ended)) == undisturbed(command, name)


@pytest.mark.control("A1")
@pytest.mark.parametrize(("command", "name"), COMMANDS.items())
def test_an_answer_given_twice_would_be_noticed(
    command: str,
    name: str,
    commands: Any,
    make_fate: Any,
    answer: Words,
    undisturbed: Any,
    tmp_path: Path,
) -> None:
    out, broken = tmp_path / name, (*FEW, "forget_an_answer")
    fate = make_fate("rename", 3)
    assert commands.run(answer(command, out), fate=fate, switches=broken).code == -9
    assert commands.run(answer(command, out), switches=broken).code == 0
    assert out.read_bytes() != undisturbed(command, name)[0]


@pytest.mark.shows("A1")
@pytest.mark.parametrize(("command", "name"), COMMANDS.items())
def test_a_full_disk_leaves_whole_chunks_to_go_on_with(
    command: str, name: str, commands: Any, answer: Words, undisturbed: Any, tmp_path: Path
) -> None:
    out = tmp_path / name
    whole, _ = undisturbed(command, name)
    ended = commands.run(answer(command, out), largest_file=len(whole) * 2 // 3, switches=FEW)
    assert ended.code == 1, ended.said
    said = f"bertworks: cannot write {out}: File too large; free some space and run it again with"
    assert ended.said.splitlines()[-1] == f"{said} --resume auto"
    written = partial_of(out).read_bytes()
    assert 0 < len(written) < len(whole)
    if command == "predict":
        assert whole.startswith(written)
        assert written.endswith(b"\n")
    assert commands.run(answer(command, out), switches=FEW).code == 0
    assert out.read_bytes() == whole


@pytest.mark.shows("A1")
def test_other_settings_and_other_data_do_not_go_on(
    commands: Any, make_fate: Any, answer: Words, texts: Path, tmp_path: Path
) -> None:
    out, data = tmp_path / "out.npy", tmp_path / "texts.jsonl"
    data.write_bytes(texts.read_bytes())
    words = answer("embed", out, "--data", str(data))
    assert commands.run(words, fate=make_fate("rename", 3), switches=FEW).code == -9
    left = partial_of(out).read_bytes()
    changed = commands.run([*words, "--pooling", "max"], switches=FEW)
    assert changed.code == 2
    assert "was begun with pooling = None, now 'max'; put that back" in changed.said
    status = data.stat()
    data.write_text(data.read_text().replace("bal", "mir"))
    os.utime(data, ns=(status.st_atime_ns, status.st_mtime_ns))  # as large and as old as it was
    changed = commands.run(words, switches=FEW)
    assert changed.code == 2
    assert "was begun before the content of the data changed; put that back" in changed.said
    unasked = commands.run([*words, "--resume", "never"], switches=FEW)
    assert unasked.code == 2
    assert "is the beginning of an unfinished out.npy; go on with --resume auto" in unasked.said
    assert partial_of(out).read_bytes() == left


@pytest.mark.shows("A1")
def test_vectors_in_few_bits_go_on_by_the_same_ranges(
    commands: Any, make_fate: Any, answer: Words, texts: Path, tmp_path: Path
) -> None:
    sample, out, whole = tmp_path / "sample.jsonl", tmp_path / "out.npy", tmp_path / "whole.npy"
    sample.write_bytes(texts.read_bytes())
    few = ["--numbers", "int8", "--ranges", str(sample)]
    assert commands.run(answer("embed", whole, *few), switches=FEW).code == 0
    fate = make_fate("rename", 3)
    assert commands.run(answer("embed", out, *few), fate=fate, switches=FEW).code == -9
    sample.write_text('{"text": "ken"}\n{"text": "mir"}\n')
    changed = commands.run(answer("embed", out, *few), switches=FEW)
    assert changed.code == 2
    assert "was begun before the content of the ranges changed; put that back" in changed.said
    kept = tmp_path / "kept.jsonl"
    kept.write_bytes(texts.read_bytes())
    os.utime(kept, ns=(7, 7))
    few[-1] = str(kept)
    out.with_name("out.npy.partial").unlink()
    assert commands.run(answer("embed", out, *few), fate=fate, switches=FEW).code == -9
    ended = commands.run(answer("embed", out, *few), switches=FEW)
    assert ended.code == 0, ended.said
    assert "goes on behind" in ended.said
    assert out.read_bytes() == whole.read_bytes()
    ranges = [path.with_name(path.name + ".ranges.npy").read_bytes() for path in (out, whole)]
    assert ranges[0] == ranges[1]


@pytest.mark.shows("A1")
@pytest.mark.parametrize(
    ("command", "name"),
    [("predict", "out.jsonl"), ("embed", "out.npy"), ("embed", "out.parquet")],
)
def test_killed_at_any_rename_at_the_end_the_same_command_succeeds(
    command: str,
    name: str,
    commands: Any,
    make_fate: Any,
    answer: Words,
    undisturbed: Any,
    tmp_path: Path,
) -> None:
    for number in (9, 10, 11):  # the last of nine chunks, the note of the whole, the whole
        out = tmp_path / str(number) / name
        fate = make_fate("rename", number)
        assert commands.run(answer(command, out), fate=fate, switches=FEW).code == -9
        for _ in range(2):
            ended = commands.run(answer(command, out), switches=FEW)
            assert ended.code == 0, ended.said
            assert (out.read_bytes(), told(ended)) == undisturbed(command, name)
        assert "is finished already" in ended.said
        left = {path.name.removeprefix(name) for path in out.parent.iterdir()}
        assert left - {".quarantine.jsonl"} == {"", ".made.json"}
