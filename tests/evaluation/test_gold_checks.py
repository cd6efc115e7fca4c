"""Checks of what is sought: scores, answers, choices and tags."""

from typing import Any

import pytest

from bertworks.data.examples import (
    ChoiceExample,
    Found,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from bertworks.data.forms import make_example
from bertworks.evaluation.findings import Finding
from bertworks.evaluation.gold_checks import AnswerCheck, ChoiceCheck, ScoreCheck, TagCheck


def look(check: Any, **parts: list[Any]) -> dict[str, Finding]:
    """Return the findings about files by what was looked for."""
    for part, examples in parts.items():
        for example in examples:
            check.add(part, example)
    return {finding.check: finding for finding in check.findings()}


def scored(*scores: float) -> list[TextExample]:
    """Make a row for each score."""
    return [TextExample("a", "b", score=score, line=n) for n, score in enumerate(scores, 1)]


def tagged(*sequences: str) -> list[TaggedExample]:
    """Make a row for each sequence of tags."""
    made = []
    for line, tags in enumerate(map(str.split, sequences), 1):
        words = tuple((2 * n, 2 * n + 1) for n in range(len(tags)))
        text = " ".join("x" * len(tags))
        made.append(TaggedExample(text, words, tuple(tags), line=line))
    return made


# Scores


def test_a_constant_score_is_an_error_in_every_file() -> None:
    found = look(ScoreCheck(), train=scored(1, 2, 3), dev=scored(2.5, 2.5))
    assert found["constant score"].severity == "error"
    assert str(found["constant score"]).startswith("every score of dev is 2.5, so nothing agrees")


def test_scores_beyond_those_of_training_are_named() -> None:
    found = look(ScoreCheck(), train=scored(0, 2.5, 5), dev=scored(1, 55))["scores out of range"]
    assert str(found) == (
        "1 score of dev beyond those of train (0 to 5) (dev line 2); correct them, or remove "
        "the rows"
    )


def test_a_score_far_from_all_others_is_named() -> None:
    usual = [float(n % 6) for n in range(40)]
    found = look(ScoreCheck(), train=scored(*usual, 999.0))
    assert found["far scores"].places.first == [("train", 41)]
    assert "far scores" not in look(ScoreCheck(), train=scored(*usual))


def test_scores_are_told_in_percentiles() -> None:
    found = look(ScoreCheck(), train=scored(0, 1, 2, 3, 4))["scores"]
    row = {"file": "train", "scores": "5", "least": "0", "25 %": "1", "50 %": "2", "75 %": "3"}
    assert found.details == (row | {"greatest": "4"},)


# Answers and choices


def answered(**changed: Any) -> QuestionExample:
    """Read a row with a question."""
    row = {"question": "Who?", "passage": "A cat saw a dog.", "answers": [], **changed}
    return make_example(row, 3, form="answers")  # type: ignore[return-value]


def test_misplaced_and_lost_answers_are_counted() -> None:
    right, wrong = {"text": "cat", "start": 2}, {"text": "dog", "start": -1}
    rows = [answered(answers=[right]), answered(answers=[wrong])]
    rows.append(answered(answers=[right, {"text": "cow", "start": 2}]))
    rows.append(answered(answers=[{"text": "dog"}]))
    found = look(AnswerCheck(), train=rows)
    assert {name: finding.places.count for name, finding in found.items()} == {
        "misplaced answers": 1,
        "lost answers": 1,
    }


def test_questions_without_answers_are_counted_and_all_of_them_are_an_error() -> None:
    some = look(AnswerCheck(), train=[answered(), answered(answers=[{"text": "cat"}])])
    assert some["questions without answer"].severity == "note"
    every = look(AnswerCheck(), train=[answered(), answered()])["questions without answer"]
    assert (every.severity, every.said) == ("error", "2 questions of 2 in train have no answer")
    found = look(AnswerCheck(), train=[answered(answers=[{"text": "cat"}])], dev=[answered()])
    assert found["questions without answer"].severity == "warning"


def test_choices_that_need_no_reading_are_found() -> None:
    always = [ChoiceExample("Who?", ("cat", "dog"), label=0, line=n) for n in (1, 2)]
    found = look(ChoiceCheck(), train=[*always, ChoiceExample("?", ("a", "a"), label=0, line=3)])
    assert found["equal choices"].places.first == [("train", 3)]
    assert found["place of the right choice"].severity == "warning"
    mixed = look(ChoiceCheck(), train=[*always, ChoiceExample("?", ("a", "b"), label=1, line=3)])
    assert mixed["place of the right choice"].said.endswith("by its number: 0 67%, 1 33%")


@pytest.mark.parametrize(
    ("labels", "is_found"),
    [
        ([1, 2, 3] * 7, True),
        ([1, 2, 3] * 6, False),  # too few to tell
        ([1, 2, 3] * 7 + [0], False),
        ([*range(1, 10)] * 3, False),
        ([1] * 40, False),  # which is said in another way
    ],
)
def test_labels_that_may_count_from_1_are_found(labels: list[int], is_found: bool) -> None:
    choices = tuple(map(str, range(max(labels) + 1)))
    rows = [ChoiceExample("Who?", choices, label=label, line=1) for label in labels]
    found = look(ChoiceCheck(), train=rows).get("labels that may count from 1")
    assert (found is not None) == is_found
    if found:
        assert str(found).startswith("the first choice, number 0, is right in none of 21 rows of")


# Tags


@pytest.mark.parametrize(
    ("scheme", "rows"),
    [
        ("BIO", ["O B-X I-X", "B-X B-X O"]),
        ("IOB1", ["O I-X I-X", "I-X B-X O"]),
        ("BIOES", ["B-X E-X O", "S-X B-X I-X E-X"]),
        (None, ["NOUN VERB", "VERB DET"]),
    ],
)
def test_tags_in_order_are_only_told_by_their_scheme(scheme: str | None, rows: list[str]) -> None:
    found = look(TagCheck(), train=tagged(*rows))
    assert list(found) == ["tag scheme"]
    said = f"tags in {scheme}" if scheme else "the tags are of single words"
    assert found["tag scheme"].said == said


@pytest.mark.parametrize(
    ("rows", "pair", "line"),
    [
        (["B-X I-X B-X", "O I-X O"], ("O", "I-X"), 2),
        (["B-X I-X B-X", "B-X O", "I-X"], ("the start", "I-X"), 3),
        (["B-X B-X I-X", "B-Y I-X"], ("B-Y", "I-X"), 2),
        (["B-X E-X S-X", "B-X O"], ("B-X", "O"), 2),
        (["B-X E-X S-X", "O B-X"], ("B-X", "the end"), 2),
    ],
)
def test_a_tag_that_may_not_stand_there_is_named(
    rows: list[str], pair: tuple[str, str], line: int
) -> None:
    found = look(TagCheck(), train=tagged(*rows))["misplaced tags"]
    assert found.severity == "warning"
    assert found.places.first == [("train", line)]
    assert tuple(found.details[0].values()) == (*pair, "1")


@pytest.mark.parametrize(
    ("rows", "said", "lines"),
    [
        (
            ["O B-PER", "O X B-PER"],
            "1 tag of train not in BIO as the others: X; so no tag is read as part of a span "
            "(train line 2); correct them, or write O",
            [2],
        ),
        (
            ["B-X E-X", "S-X L-X", "S-X K-X"],
            "2 tags of train not in BIOES as the others: L-X, K-X; so no tag is read as part of a "
            "span (train lines 2, 3); correct them, or write O",
            [2, 3],
        ),
        (
            ["B-X I-X B-X", "B O"],
            "1 tag of train not in BIO as the others: B; so they mark no span (train line 2); "
            "correct them, or write O",
            [2],
        ),
        (
            ["NOUN VERB NOUN", "DET B-PER NOUN"],
            "1 tag of train like part of a span among tags of words: B-PER; so they are read as "
            "tags of words (train line 2); correct them, or all others",
            [2],
        ),
        (
            ["B M E S S B E S S S", "B E S S S S S S S X"],
            "1 tag of train not in BMES as the others: X; so no tag is read as part of a span "
            "(train line 2); correct them, or write O",
            [2],
        ),
    ],
)
def test_a_tag_that_is_written_otherwise_than_most_is_named(
    rows: list[str], said: str, lines: list[int]
) -> None:
    found = look(TagCheck(), train=tagged(*rows))["stray tags"]
    assert (found.severity, str(found)) == ("warning", said)
    assert found.places.first == [("train", line) for line in lines]


@pytest.mark.parametrize("form", ["B_PER I_PER", "PER-B PER-I", "b-PER i-PER"])
def test_tags_of_spans_in_another_form_are_a_warning(form: str) -> None:
    found = look(TagCheck(), train=tagged(f"O {form} O", "O O"))
    assert list(found) == ["tag scheme", "misspelt tags"]
    first, second = form.split()
    assert str(found["misspelt tags"]) == (
        f"the tags of train seem to mean spans, but are written as {first}, {second}; so no span "
        "is read from them (train lines 1, 1); write them as B-PER, I-PER, and O for words outside"
    )


def test_a_stray_tag_elsewhere_does_not_change_what_training_tells() -> None:
    found = look(TagCheck(), train=tagged("B-X I-X O"), dev=tagged("B-X I-X X"))
    assert found["tag scheme"].said == "tags in BIO"
    assert str(found["stray tags"]).startswith(
        "1 tag of dev not in BIO as the others: X; so they mark no span (dev line 1)"
    )


def test_examples_of_other_forms_are_passed_over() -> None:
    row = TextExample("a", label="b")
    for check in (ScoreCheck(), AnswerCheck(), ChoiceCheck(), TagCheck()):
        assert look(check, train=[row]) == {}
    assert look(AnswerCheck(), train=[QuestionExample("a", "b", (Found("b", 0),))]) == {}
