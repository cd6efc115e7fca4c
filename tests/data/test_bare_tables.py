"""Columns without names are told by what stands in them, or not at all."""

from collections.abc import Sequence

import pytest

from bertworks.core.errors import DataError, UsageError
from bertworks.core.seeds import random_at
from bertworks.data.bare_tables import Column, guess_columns, guess_form, least_width

NUM_ROWS = 21
WORDS = ["river", "stone", "a", "boat", "quietly", "seven", "trees", "the"]


def texts(seed: int) -> list[str]:
    random = random_at(seed, "texts")
    return [" ".join(random.choice(WORDS, size=9)) for _ in range(NUM_ROWS)]


def cycle(values: str) -> list[str]:
    return [values.split()[at % len(values.split())] for at in range(NUM_ROWS)]


def columns(*values: Sequence[str]) -> list[Column]:
    return [Column(tuple(column)) for column in values]


COUNT = [str(at) for at in range(NUM_ROWS)]
COLA = columns(cycle("gj04 cj99"), cycle("1 0 1"), [""] * 20 + ["*"], texts(1))
STS = columns(
    cycle("main-news main-forums"),
    cycle("MSRpar"),
    cycle("2012test"),
    cycle("0024 0033"),
    cycle("2.500 0.000 5.000"),
    texts(1),
    texts(2),
)
CODAH = columns(cycle("o i"), *(texts(seed) for seed in range(5)), cycle("0 1 2 3"))


@pytest.mark.parametrize(
    ("table", "form", "expected"),
    [
        (columns(texts(1), cycle("0 1")), "label", {"text": "1", "label": "2"}),
        (columns(cycle("ham spam"), texts(1)), "label", {"text": "2", "label": "1"}),
        (
            columns(texts(1), texts(2), cycle("0 1")),
            "label",
            {"text": "1", "text_b": "2", "label": "3"},
        ),
        (
            columns(COUNT, texts(1), texts(2), cycle("yes no maybe")),
            "label",
            {"text": "2", "text_b": "3", "label": "4"},
        ),
        (
            columns(texts(1), texts(2), cycle("0 1 2 3 4 5")),
            "score",
            {"text": "1", "text_b": "2", "score": "3"},
        ),
        (
            columns(texts(1), [f"{n / 7:.3f}" for n in range(21)]),
            "score",
            {"text": "1", "score": "2"},
        ),
        (COLA, "label", {"text": "4", "label": "2"}),
        (STS, "score", {"text": "6", "text_b": "7", "score": "5"}),
        (CODAH, "choice", {"question": "2", "choices": "3,4,5,6", "label": "7"}),
        (columns(texts(1), texts(2)), "texts", {"text": "1", "text_b": "2"}),
    ],
)
def test_columns_that_can_be_told_are(
    table: list[Column], form: str, expected: dict[str, str]
) -> None:
    assert guess_columns(table, form, labelled=True) == expected


@pytest.mark.parametrize(
    ("table", "form"),
    [
        (columns(texts(1), texts(2)), "label"),
        (columns(cycle("a b"), cycle("x y")), "label"),
        (columns(texts(1), cycle("a b"), cycle("x y")), "label"),
        (columns(texts(1), texts(2), texts(3), cycle("x y")), "label"),
        (columns(texts(1), cycle("0.5 1.5")), "label"),
        (columns(texts(1), cycle("a b")), "score"),
        (columns(texts(1), cycle("1 2"), cycle("3 4")), "score"),
        (columns(texts(1), COUNT), "label"),
        (columns(texts(1)), "label"),
        (columns(["one text", "two"], ["a", "a"]), "label"),  # too few rows
        (columns(texts(1), cycle("O B-X")), "tags"),
        (columns(texts(1), texts(2), texts(3)), "choice"),
    ],
)
def test_columns_that_cannot_be_told_are_not_guessed(table: list[Column], form: str) -> None:
    assert guess_columns(table, form, labelled=True) is None


def test_without_labels_texts_are_enough_and_labels_are_passed_over() -> None:
    for table, expected in (
        (columns(texts(1)), {"text": "1"}),
        (columns(["only one"]), {"text": "1"}),
        (columns(texts(1), texts(2)), {"text": "1", "text_b": "2"}),
        (columns(cycle("0 1"), texts(2)), {"text": "2"}),
    ):
        assert guess_columns(table, "label", labelled=False) == expected


@pytest.mark.parametrize(
    ("names", "table", "form"),
    [
        (["said", "klass"], columns(texts(1), cycle("a b")), "label"),
        (["said", "klass"], columns(texts(1), [*cycle("a b")[1:], "rare"]), "label"),
        (["said", "points"], columns(texts(1), cycle("1.5 2")), "score"),
    ],
)
def test_a_first_row_of_another_kind_is_perhaps_a_header(
    names: list[str], table: list[Column], form: str
) -> None:
    with_names = [Column((name, *column.values)) for name, column in zip(names, table, strict=True)]
    with pytest.raises(DataError, match="begins with what may be a header"):
        guess_columns(with_names, form, labelled=True)
    assert guess_columns(table, form, labelled=True)


def test_a_few_bad_rows_do_not_hide_what_a_column_is() -> None:
    labels = columns(texts(1), [*cycle("0 1")[1:], ""])
    assert guess_columns(labels, "label", labelled=True) == {"text": "1", "label": "2"}
    scores = columns(texts(1), ["1.5", *cycle("1.5 2")[1:-1], "nan"])
    assert guess_columns(scores, "score", labelled=True) == {"text": "1", "score": "2"}
    worse = columns(texts(1), [*cycle("0 1")[2:], "", ""])
    assert guess_columns(worse, "label", labelled=True) is None


def test_the_form_of_rows_without_names() -> None:
    assert guess_form(COLA) == "label"
    assert guess_form(STS) == "score"
    assert guess_form(CODAH) == "choice"
    assert guess_form(columns(texts(1), cycle("1.0 2.5"))) == "score"
    assert guess_form(columns(texts(1), cycle("1 2 3 4 5"))) == "label"
    assert guess_form(columns(texts(1), texts(2), cycle("0 1 2"))) == "label"
    with pytest.raises(UsageError, match="numbers that may be labels or scores; name the --task"):
        guess_form(columns(texts(1), texts(2), cycle("0 1 2 3 4 5")))


def test_only_a_set_with_columns_at_will_has_a_least_width() -> None:
    assert least_width(STS) == 7
    assert least_width([*STS, Column(tuple(cycle("none")))]) == 7
    assert least_width(COLA) is None
