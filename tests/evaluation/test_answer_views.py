"""Answers as a report sees them: of every form of example, with its places marked."""

from typing import Any

from bertworks.data.examples import (
    ChoiceExample,
    Found,
    QuestionExample,
    RelationExample,
    SourceExample,
    Span,
    TaggedExample,
    TextExample,
)
from bertworks.evaluation.answer_parts import Confusion, Pairs
from bertworks.evaluation.answer_views import MOST_ERRORS, Gallery, label_pairs, view_of
from bertworks.tasks.task import Verdict

WRONG = Verdict("gold", "given", 0.0, 0.75)


def marks_of(example: Any, answer: dict[str, Any]) -> list[tuple[str, str]]:
    texts = view_of(example, answer, WRONG).texts
    return [(p.text, p.marks) for pieces in texts.values() for p in pieces if p.marks]


def test_the_surest_mistakes_are_kept_and_right_answers_are_not() -> None:
    gallery = Gallery(["a", "b"])
    for number in range(50):
        example = TextExample(f"text {number}", label="a", line=number + 1)
        gallery.add(example, {"label": "b"}, Verdict("a", "b", 0.0, number / 50))
        gallery.add(example, {"label": "a"}, Verdict("a", "a", 1.0, 0.999))
    errors = gallery.errors()
    assert (errors.total, len(errors.views)) == (50, MOST_ERRORS)
    assert [view.line for view in errors.views] == list(range(50, 50 - MOST_ERRORS, -1))
    confusion = gallery.confusion()
    assert isinstance(confusion, Confusion)
    assert confusion.counts == ((50, 50), (0, 0))


def test_of_equal_mistakes_the_first_is_shown_first() -> None:
    gallery = Gallery()
    for line in (1, 2, 3):
        gallery.add(TextExample("t", label="a", line=line), {}, Verdict("a", "b", 0.0))
    assert [view.line for view in gallery.errors().views] == [1, 2, 3]
    assert gallery.errors().views[0].confidence is None


def test_spans_are_marked_and_told_with_their_places() -> None:
    spans = (Span(0, 4, "PER"), Span(12, 16, "LOC"))
    example = TaggedExample("Anna sees a Rome", spans=spans)
    found = [
        {"start": 0, "end": 4, "label": "PER", "text": "Anna"},
        {"start": 10, "end": 16, "label": "LOC", "text": "a Rome"},
    ]
    answer = {"tags": [], "spans": found}
    shown = view_of(example, answer, WRONG)
    assert (shown.gold, shown.answer) == ("Rome = LOC (12–16)", "a Rome = LOC (10–16)")
    assert marks_of(example, answer) == [
        ("Anna", "right: PER"),
        ("a ", "answer: LOC"),
        ("Rome", "gold: LOC, answer: LOC"),
    ]
    assert label_pairs(example, answer, WRONG) == [
        ("PER", "PER"),
        ("(none)", "LOC"),
        ("LOC", "(none)"),
    ]


def test_tags_of_words_are_read_as_spans_and_intents_come_first() -> None:
    words = ((0, 2), (3, 6), (7, 11))
    example = TaggedExample("to New York", words, ("O", "B-city", "I-city"), intent="fly")
    answer = {"intent": "book", "tags": ["O", "O", "O"], "slots": [], "probability": 0.9}
    shown = view_of(example, answer, WRONG)
    assert shown.gold == "intent fly; New York = city (3–11)"
    assert shown.answer == "intent book"


def test_of_plain_tags_only_wrong_words_are_marked() -> None:
    words = ((0, 3), (4, 8))
    example = TaggedExample("the runs", words, ("DET", "NOUN"))
    answer = {"tags": ["DET", "VERB"], "tokens": ["the", "runs"], "probabilities": [0.9, 0.8]}
    assert marks_of(example, answer) == [("runs", "gold: NOUN, answer: VERB")]
    assert label_pairs(example, answer, WRONG) == [("DET", "DET"), ("NOUN", "VERB")]


def test_answers_are_marked_in_their_passage() -> None:
    golds = (Found("in Rome", 8), Found("Rome", 11), Found("nowhere", None))
    example = QuestionExample("Where?", "She was in Rome, not in Oslo", golds)
    answer = {"answer": "Oslo", "start": 24, "end": 28}
    assert marks_of(example, answer) == [("in Rome", "gold"), ("Oslo", "answer")]
    unanswered = {"answer": "", "start": None, "end": None}
    assert marks_of(example, unanswered) == [("in Rome", "gold")]
    assert marks_of(QuestionExample("Where?", "Here", ()), unanswered) == []


def test_a_very_long_passage_is_cut_around_the_answer() -> None:
    example = QuestionExample(
        "Where?", "x" * 50_000 + " Rome " + "y" * 50_000, (Found("Rome", 50_001),)
    )
    texts = view_of(example, {"answer": "", "start": None, "end": None}, WRONG).texts
    assert sum(len(piece.text) for piece in texts["passage"]) < 1000
    assert any(piece.text == "Rome" for piece in texts["passage"])


def test_places_pairs_and_choices_are_shown() -> None:
    relation = RelationExample("Ann likes Bob", (0, 3), (10, 13), "likes")
    assert marks_of(relation, {}) == [("Ann", "first"), ("Bob", "second")]
    pair = view_of(TextExample("one", "two", label="a"), {}, WRONG)
    assert list(pair.texts) == ["first", "second"]
    choice = view_of(ChoiceExample("Which?", ("x", "y"), label=0), {}, WRONG)
    assert list(choice.texts) == ["question", "choice 1", "choice 2"]


def test_a_written_text_is_shown_below_its_source_and_counts_as_no_pair() -> None:
    gallery = Gallery()
    example = SourceExample("A cat.", ("Eine Katze.",))
    for _ in range(5):
        gallery.add(example, {"text": "Katze"}, Verdict("Eine Katze.", "Katze", 0.25))
    assert gallery.confusion() is None
    shown = gallery.errors().views[0]
    assert [piece.text for piece in shown.texts[""]] == ["A cat."]
    assert (shown.gold, shown.answer) == ("Eine Katze.", "Katze")


def test_written_texts_are_shown_by_their_chrf_the_lowest_first() -> None:
    gallery = Gallery()
    assert gallery.errors().are_texts is False
    for line, score in enumerate((0.5, 0.125, 1.0, 0.75), 1):
        example = SourceExample("A cat.", ("Eine Katze.",), line=line)
        gallery.add(example, {"text": "Katze"}, Verdict("Eine Katze.", "Katze", score))
    errors = gallery.errors()
    assert (errors.are_texts, errors.total) == (True, 3)
    assert [(view.line, view.chrf) for view in errors.views] == [(2, 0.125), (1, 0.5), (4, 0.75)]
    assert view_of(TextExample("t"), {}, Verdict("a", "b", 0.0)).chrf is None


def test_long_words_of_gold_and_answer_are_cut() -> None:
    shown = view_of(TextExample("t"), {}, Verdict("g" * 100_000, "a", 0.0))
    assert len(shown.gold) == 300


def test_answers_that_are_no_labels_are_shown_where_they_repeat() -> None:
    often, never = Gallery(), Gallery()
    for number in range(100):
        example = QuestionExample("q", "p", ())
        often.add(example, {}, Verdict("(no answer)", f"{number % 3}", 0.0))
        never.add(example, {}, Verdict(f"{number}", "x", 0.0))
    assert isinstance(often.confusion(), Pairs)
    assert never.confusion() is None
    assert Gallery().confusion() is None


def test_a_text_without_any_span_adds_no_pair() -> None:
    gallery = Gallery()
    gallery.add(
        TaggedExample("nothing", spans=()), {"tags": ["O"], "spans": []}, Verdict("O", "O", 1.0)
    )
    assert gallery.confusion() is None
    assert gallery.errors().total == 0
