"""Three lines make an aspect, and the same line of three files an utterance."""

import lzma
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.data.line_groups import (
    is_aspects,
    is_intents,
    read_aspects,
    read_intents,
    require_intents,
)
from bertworks.data.rows import read_examples

Write = Callable[[str, str | bytes], Path]
ASPECTS = "The $T$ is good , the bill not .\nsoup\n1\n$T$ and $T$ .\r\ntea\r\n-1\r\n"
INTENTS = {
    "seq.in": "fly to  boston \nplay jazz\n",
    "seq.out": "O O B-city \nO B-genre\n",
    "label": "flight\nPlayMusic\n",
}


def bad_in(quarantine: Quarantine) -> list[tuple[str, int, str]]:
    return sorted((Path(row.file).name, row.line, row.reason) for row in quarantine.rows)


def test_the_aspect_is_put_into_its_text(file: Write) -> None:
    quarantine = Quarantine()
    assert list(read_aspects(file("a.txt", ASPECTS), quarantine, {})) == [
        (1, {"text": "The soup is good , the bill not .", "aspect": "soup", "label": "1"}),
        (4, {"text": "tea and tea .", "aspect": "tea", "label": "-1"}),
    ]
    assert quarantine.rows == []


def test_bad_threes_are_set_aside_and_the_next_ones_keep_their_step(file: Write) -> None:
    content = b"no mark\nsoup\n1\n$T$\nb\xffd\n1\n$T$\n\n0\n$T$ last\nsoup\n0\n$T$ torn\nsoup\n"
    quarantine = Quarantine()
    rows = list(read_aspects(file("a.txt", content), quarantine, {}))
    assert [(line, row["text"]) for line, row in rows] == [(10, "soup last")]
    assert bad_in(quarantine) == [
        ("a.txt", 1, "no $T$ in the first of its three lines"),
        ("a.txt", 4, "one of its three lines is lost, empty or cannot be read"),
        ("a.txt", 5, "not UTF-8 at byte 1"),
        ("a.txt", 7, "one of its three lines is lost, empty or cannot be read"),
        ("a.txt", 13, "one of its three lines is lost, empty or cannot be read"),
    ]


@pytest.mark.parametrize("lost", [3, 4, 5])
def test_a_lost_line_costs_one_aspect_and_is_named(file: Write, lost: int) -> None:
    lines = [line for n in range(4) for line in (f"the $T$ {n}", f"soup {n}", "1")]
    del lines[lost]
    assert is_aspects(lines)
    quarantine = Quarantine()
    rows = list(read_aspects(file("a.txt", "\n".join(lines)), quarantine, {}))
    assert [row["text"] for _, row in rows] == [f"the soup {n} {n}" for n in (0, 2, 3)]
    reason = "one of its three lines is lost, empty or cannot be read"
    assert bad_in(quarantine) == [("a.txt", 4, reason)]


def test_a_polarity_that_is_none_is_set_aside(file: Write) -> None:
    quarantine = Quarantine()
    content = ASPECTS + "$T$ here\nsoup\n7\n$T$ there\nsoup\nNeutral\n"
    rows = list(read_aspects(file("a.txt", content), quarantine, {}))
    assert [row["label"] for _, row in rows] == ["1", "-1", "Neutral"]
    assert bad_in(quarantine) == [
        ("a.txt", 7, "the third of its lines is '7', and not -1, 0 or 1"),
    ]


def test_aspects_are_told_by_every_three_lines() -> None:
    lines = ASPECTS.splitlines()
    assert is_aspects(lines)
    assert is_aspects([*lines, "a $T$ that the head ends with"])
    assert not is_aspects([*lines[:3], *["no mark", "soup", "1"] * 2])
    assert not is_aspects(["$T$", "soup"])
    assert not is_aspects(["the $T$ was cold", "the $T$ was warm", "the $T$ was late"])
    assert not is_aspects([])


@pytest.mark.parametrize(
    "lines",
    [
        ["Let $T$ be a tree", "and let $e$ be an edge of it,", "so that it has no circle."] * 3,
        ["We write $T$ for it.", "", "Proof"] * 2,
        ["a first line", "of prose", "Every $T$", "that is a tree has leaves.", r"\qed"],
    ],
)
def test_formulas_are_no_aspects(lines: list[str]) -> None:
    assert not is_aspects(lines)


def test_aspects_with_labels_of_another_kind_are_known_so_that_these_can_be_named() -> None:
    assert is_aspects(["the $T$ is cold", "soup", "NEG", "the $T$ is warm", "soup", "POS"])


@pytest.mark.parametrize(
    "bad", [("no mark", "soup", "1"), ("$T$", "soup", "2"), ("$T$", "", "1"), ("$T$", "soup", "")]
)
@pytest.mark.parametrize("place", [0, 2])
def test_a_bad_three_among_good_ones_does_not_hide_what_they_are(
    bad: tuple[str, str, str], place: int
) -> None:
    lines = ASPECTS.splitlines()
    assert is_aspects([*lines[: 3 * place], *bad, *lines[3 * place :]])


@pytest.mark.parametrize("num_bad", [1, 2])
def test_of_ten_aspects_one_may_be_bad_and_two_are_refused_by_their_lines(
    file: Write, num_bad: int
) -> None:
    labels = ["nice"] * num_bad + ["1"] * (10 - num_bad)
    path = file("a.txt", "".join(f"the $T$ {n}\nsoup\n{label}\n" for n, label in enumerate(labels)))
    quarantine = Quarantine()
    refused = pytest.raises(DataError, match=r"2 of 10 rows cannot be used, .* line 1: the third")
    with refused if num_bad > 1 else nullcontext():
        assert len(read_examples(path, quarantine, form="aspect")) == 9
        reason = "the third of its lines is 'nice', and not -1, 0 or 1"
        assert bad_in(quarantine) == [("a.txt", 1, reason)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in INTENTS.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_three_files_are_read_line_by_line(folder: Path) -> None:
    packed = lzma.compress((folder / "seq.in").read_bytes())
    (folder / "seq.in").unlink()
    (folder / "seq.in.xz").write_bytes(packed)
    assert list(read_intents(folder, Quarantine(), {})) == [
        (1, {"tokens": ["fly", "to", "boston"], "tags": ["O", "O", "B-city"], "intent": "flight"}),
        (2, {"tokens": ["play", "jazz"], "tags": ["O", "B-genre"], "intent": "PlayMusic"}),
    ]


def test_utterances_alone_are_enough_to_be_answered(folder: Path) -> None:
    (folder / "seq.out").unlink()
    (folder / "label").unlink()
    rows = list(read_intents(folder, Quarantine(), {}))
    assert rows[1] == (2, {"tokens": ["play", "jazz"]})


def test_lines_without_their_fellows_are_set_aside_and_none_moves(folder: Path) -> None:
    (folder / "seq.in").write_bytes(b"b\xffd\nplay jazz\n\nstop\nplay\n")
    (folder / "seq.out").write_text("O\nO B-genre\n\n\nO\n")
    (folder / "label").write_text("flight\nPlayMusic\n\n\nPlayMusic\n\n")
    quarantine = Quarantine()
    rows = list(read_intents(folder, quarantine, {}))
    assert [(line, row["intent"]) for line, row in rows] == [(2, "PlayMusic"), (5, "PlayMusic")]
    assert bad_in(quarantine) == [
        ("seq.in", 1, "not UTF-8 at byte 1"),
        ("seq.in", 1, "nothing on the same line of seq.in"),
        ("seq.in", 4, "nothing on the same line of seq.out, label"),
    ]


@pytest.mark.parametrize("name", INTENTS)
def test_files_that_lack_a_line_are_refused(folder: Path, name: str) -> None:
    lines = INTENTS[name].splitlines(keepends=True)
    (folder / name).write_text(lines[1])
    counts = {part: 1 if part == name else 2 for part in INTENTS}
    first, *others = (f"{part}{' has' * (part == 'seq.in')} {n}" for part, n in counts.items())
    with pytest.raises(DataError) as refused:
        list(read_intents(folder, Quarantine(), {}))
    assert f"{first} lines, {', '.join(others)}; the same line of each" in str(refused.value)
    (folder / name).write_text("".join(lines) + "\n \n")
    assert len(list(read_intents(folder, Quarantine(), {}))) == 2


def test_the_last_utterance_may_lack_its_intent(folder: Path) -> None:
    (folder / "label").write_text(INTENTS["label"].splitlines(keepends=True)[0] + "\n")
    quarantine = Quarantine()
    assert [line for line, _ in read_intents(folder, quarantine, {})] == [1]
    assert bad_in(quarantine) == [("seq.in", 2, "nothing on the same line of label")]


def test_other_folders_are_refused(tmp_path: Path) -> None:
    assert not is_intents(tmp_path)
    with pytest.raises(DataError, match=r"is a folder without seq\.in, seq\.out and label; give"):
        require_intents(tmp_path)
    (tmp_path / "seq.in").write_text("")
    require_intents(tmp_path)
    with pytest.raises(DataError, match=r"seq\.in is empty"):
        list(read_intents(tmp_path, Quarantine(), {}))
