"""Checks in pieces: windows, the gold in them, and pieces that are unknown."""

from typing import Any

import numpy as np
import pytest

from bertworks.core.errors import DataError
from bertworks.data.examples import (
    ChoiceExample,
    Found,
    QuestionExample,
    RelationExample,
    Span,
    TaggedExample,
    TextExample,
)
from bertworks.evaluation.findings import Finding
from bertworks.evaluation.piece_checks import PieceCheck, reading_of, unknown_warning
from bertworks.tasks.relate import Relate
from bertworks.tokenizer.tokenizer import Tokenizer

LONG = " ".join(["the cat sat on the mat and looked at the dog"] * 5)  # 55 pieces


def look(tokenizer: Tokenizer, *examples: Any, longest: int = 20) -> dict[str, Finding]:
    """Return the findings about examples of one file."""
    check = PieceCheck(tokenizer, longest=longest)
    for example in examples:
        check.add("train", example)
    return {finding.check: finding for finding in check.findings()}


def test_texts_that_need_several_windows_are_counted(tokenizer: Tokenizer) -> None:
    found = look(tokenizer, TextExample(LONG, line=1), TextExample("the cat", line=2))
    assert set(found) == {"several windows", "length in pieces"}
    assert found["several windows"].said == (
        "1 row of 2 in train longer than one window of 20 pieces"
    )
    assert found["length in pieces"].details[0]["100 %"] == "55"
    assert "several windows" not in look(tokenizer, TextExample(LONG), longest=57)


def test_pairs_share_a_window(tokenizer: Tokenizer) -> None:
    pair = TextExample("the cat", LONG, line=4)
    assert "several windows" in look(tokenizer, pair, longest=59)
    assert "several windows" not in look(tokenizer, pair, longest=60)


def test_what_truncating_would_lose_is_told_beside_what_windows_lose(tokenizer: Tokenizer) -> None:
    late = LONG.rindex("dog")
    asked = QuestionExample("the cat", LONG, (Found("dog", late), Found("cat", 4)), line=1)
    found = look(tokenizer, asked)
    assert found["gold lost by truncating"].said == (
        "cut off after 20 pieces, 1 of 2 gold spans would be lost; windows lose 0"
    )
    assert "gold cut by windows" not in found


def test_gold_that_no_window_shows_whole_is_a_warning(tokenizer: Tokenizer) -> None:
    asked = QuestionExample("the cat", LONG, (Found(LONG[4:-4], 4),), line=3)
    found = look(tokenizer, asked)["gold cut by windows"]
    assert (found.severity, found.places.first) == ("warning", [("train", 3)])


def test_unknown_pieces_are_counted(tokenizer: Tokenizer) -> None:
    found = look(tokenizer, TextExample("the ☃ cat", line=2), TextExample("the cat", line=3))
    unknown = found["unknown pieces"]
    assert unknown.said == "20.00% of the pieces are unknown to the tokenizer, in 1 row"
    assert (unknown.severity, unknown.places.first) == ("warning", [("train", 2)])


@pytest.mark.parametrize(
    ("example", "beside", "gold"),
    [
        (ChoiceExample("Who?", ("cat", "dog"), "A cat."), ("Who? cat", "Who? dog"), ()),
        (ChoiceExample("Who?", ("cat", "dog")), ("cat", "dog"), ()),
        (RelationExample("A cat saw a dog", (12, 15), (2, 5)), (), ("dog", "cat")),
        (TaggedExample("A cat", spans=(Span(2, 5, "PET"),)), (), ("cat",)),
        (
            TaggedExample("A cat sat", ((0, 1), (2, 5), (6, 9)), ("B-X", "I-X", "O")),
            (),
            ("A cat",),
        ),
        (TaggedExample("A cat"), (), ()),
    ],
)
def test_every_form_is_read_as_its_task_reads_it(
    example: Any, beside: tuple[str, ...], gold: tuple[str, ...]
) -> None:
    reading = reading_of(example)
    assert reading.beside == beside
    assert tuple(reading.text[start:end] for start, end in reading.gold) == gold


def test_two_places_are_seen_in_one_window_however_far_apart(tokenizer: Tokenizer) -> None:
    far = RelationExample(LONG, (4, 7), (len(LONG) - 3, len(LONG)), line=1)
    assert {"several windows", "gold cut by windows"}.isdisjoint(look(tokenizer, far))
    wide = RelationExample(LONG, (0, len(LONG) // 2), (4, 7), line=2)
    found = look(tokenizer, far, wide)["gold cut by windows"]
    assert found.places.first[0] == ("train", 2)


@pytest.mark.parametrize("longest", [9, 10, 11, 12])
def test_places_are_lost_where_the_task_refuses_them(tokenizer: Tokenizer, longest: int) -> None:
    example = RelationExample(LONG, (0, 7), (12, 18), line=1)  # the cat, on the
    is_lost = "gold cut by windows" in look(tokenizer, example, longest=longest)
    try:
        Relate(("a", "b")).features(example, tokenizer, longest=longest)
    except DataError:
        assert is_lost
    else:
        assert not is_lost


def test_a_file_of_many_unknown_pieces_is_said_and_one_in_a_hundred_is_not() -> None:
    texts = [np.array([2, 1, 1, 3]), np.array([2, *[7] * 93, 1, 1, 3])]
    said = unknown_warning("train.jsonl", texts, 1)
    assert said
    assert said.startswith(
        "3.96% of the pieces of train.jsonl are unknown to the model's tokenizer"
    )
    assert unknown_warning("train.jsonl", [np.array([1, *[7] * 99])], 1) is None
