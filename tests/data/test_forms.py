"""A row becomes an example of its form, or a reason why it is none."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import DataError
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
from bertworks.data.forms import FORMS, inputs_of, make_example, places_of

GOOD: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "label": (
        {"text": "x", "text_b": "y", "label": 1},
        TextExample("x", "y", "1", line=3),
        TextExample("x", "y", line=3),
    ),
    "labels": (
        {"text": "x", "labels": ["a", 2, "a"]},
        TextExample("x", labels=("a", "2"), line=3),
        TextExample("x", line=3),
    ),
    "score": (
        {"text": "x", "text_b": "y", "score": "2.5"},
        TextExample("x", "y", score=2.5, line=3),
        TextExample("x", "y", line=3),
    ),
    "texts": (
        {"text": "x", "text_b": "y"},
        TextExample("x", "y", line=3),
        TextExample("x", "y", line=3),
    ),
    "aspect": (
        {"text": "the soup", "aspect": "soup", "label": "good"},
        TextExample("the soup", "soup", "good", line=3),
        TextExample("the soup", "soup", line=3),
    ),
    "tags": (
        {"tokens": ["in", "Rome"], "tags": ["O", "B-LOC"]},
        TaggedExample("in Rome", ((0, 2), (3, 7)), ("O", "B-LOC"), line=3),
        TaggedExample("in Rome", ((0, 2), (3, 7)), line=3),
    ),
    "intent_slots": (
        {"tokens": ["to", "Rome"], "tags": ["O", "B-to"], "intent": "fly"},
        TaggedExample("to Rome", ((0, 2), (3, 7)), ("O", "B-to"), intent="fly", line=3),
        TaggedExample("to Rome", ((0, 2), (3, 7)), line=3),
    ),
    "answers": (
        {"question": "who?", "passage": "it was Ada", "answers": [{"text": "Ada", "start": 7}]},
        QuestionExample("who?", "it was Ada", (Found("Ada", 7),), line=3),
        QuestionExample("who?", "it was Ada", line=3),
    ),
    "choice": (
        {"question": "who?", "choices": ["Ada", "Bob"], "label": 1},
        ChoiceExample("who?", ("Ada", "Bob"), None, 1, line=3),
        ChoiceExample("who?", ("Ada", "Bob"), line=3),
    ),
    "relation": (
        {"text": "Ada knows Bob", "first": [0, 3], "second": [10, 13], "label": "knows"},
        RelationExample("Ada knows Bob", (0, 3), (10, 13), "knows", line=3),
        RelationExample("Ada knows Bob", (0, 3), (10, 13), line=3),
    ),
    "target": (
        {"source": "Ada knows Bob", "target": "Ada kennt Bob"},
        SourceExample("Ada knows Bob", ("Ada kennt Bob",), line=3),
        SourceExample("Ada knows Bob", line=3),
    ),
}


def reason(row: dict[str, Any], form: str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        make_example(row, 3, form=form, **options)
    return str(caught.value)


@pytest.mark.parametrize("form", GOOD)
def test_what_an_example_asks_is_read_again_as_the_same(form: str) -> None:
    _, _, asked = GOOD[form]
    assert make_example(inputs_of(asked, form), 3, form=form, labelled=False) == asked


def test_what_an_example_asks_has_no_empty_columns_and_no_labels() -> None:
    assert inputs_of(TextExample("x", label="a"), "label") == {"text": "x"}
    assert inputs_of(TaggedExample("in Rome"), "tags") == {"text": "in Rome"}
    told = inputs_of(QuestionExample("who?", "it was Ada"), "answers")
    assert told == {"question": "who?", "passage": "it was Ada"}


@pytest.mark.parametrize("form", FORMS)
def test_a_good_row_is_an_example(form: str) -> None:
    row, expected, asked = GOOD[form]
    assert make_example(row, 3, form=form) == expected
    assert make_example(row, 3, form=form, labelled=False) == asked


@pytest.mark.parametrize("form", [form for form, row in FORMS.items() if row.gold])
def test_what_is_sought_must_be_there_only_to_learn_or_to_score(form: str) -> None:
    row, _, asked = GOOD[form]
    told = {name: value for name, value in row.items() if name not in FORMS[form].gold}
    assert make_example(told, 3, form=form, labelled=False) == asked
    assert "(found " in reason(told, form)


@pytest.mark.parametrize("form", FORMS)
def test_any_row_may_say_where_its_text_is_from(form: str) -> None:
    row, expected, _ = GOOD[form]
    assert make_example(row, 3, form=form).origin is None
    for name in {"origin", "source"} if form != "target" else {"origin"}:
        found = make_example({**row, name: "web"}, 3, form=form)
        assert found.origin == "web"
        assert found == expected  # it is no part of what is learned
        renamed = make_example({**row, "domain": 7}, 3, form=form, columns={name: "domain"})
        assert renamed.origin == "7"


@pytest.mark.parametrize("form", FORMS)
def test_columns_may_have_other_names(form: str) -> None:
    row, expected, _ = GOOD[form]
    names = {name: f"their {name}" for name in row}
    renamed = {names[name]: value for name, value in row.items()}
    assert make_example(renamed, 3, form=form, columns=names) == expected
    broken = dict.fromkeys(renamed)
    assert "their " in reason(broken, form, columns=names)


@pytest.mark.parametrize(
    ("form", "change", "expected"),
    [
        ("label", {"text": " "}, "'text' is empty or not a string"),
        ("label", {"text_b": 7}, "'text_b' is 7, which is no text; write it as \"7\""),
        ("label", {"text_b": float("nan")}, "'text_b' is empty or not a string"),
        ("label", {"text_b": ["b"]}, "'text_b' is empty or not a string"),
        ("label", {"label": 1.5}, "the label is 1.5; a label is a string, a whole number"),
        ("labels", {"labels": 3}, "'labels' is 3; it must be a list"),
        ("labels", {"labels": None}, "'labels' is empty"),
        (
            "labels",
            {"labels": ["a", None]},
            "'labels' is ['a', None]; a label is a string, a whole",
        ),
        ("labels", {"labels": ["好", ""]}, "'labels' is ['好', '']; a label is a string, a whole"),
        ("labels", {"labels": ["\ud800"]}, r"'labels' is ['\ud800']; a label is a string, a whole"),
        ("score", {"score": "much"}, "'score' is 'much'; it must be a finite number"),
        ("score", {"score": float("nan")}, "'score' is nan; it must be a finite number"),
        ("score", {"score": True}, "'score' is True; it must be a finite number"),
        ("score", {"score": 10**400}, "000; it must be a finite number"),
        ("tags", {"tokens": None, "text": "a", "spans": [[0, 1, "\ud800"]]}, "has no label"),
        ("tags", {"tags": ["O"]}, "2 tokens but 1 tags; each token needs one"),
        ("tags", {"tokens": None, "text": "in Rome"}, "7 characters in the text but 2 tags; give"),
        ("tags", {"tokens": None, "text": "a ", "tags": ["O", "B-X"]}, "a blank token tagged B-X"),
        ("tags", {"tokens": []}, "'tokens' is empty"),
        ("tags", {"tokens": ["in", " "]}, "'tokens' holds ' ', which is no text"),
        ("answers", {"answers": [{"text": "Eve", "start": 7}]}, "'Eve' is not in its passage"),
        ("answers", {"answers": [{"text": " ", "start": 7}]}, "the answer ' ' is empty"),
        ("answers", {"answers": [{"text": "Ada"}, {"text": "\ud800"}]}, "is empty or no text"),
        ("answers", {"answers": "Ada"}, "are no list of texts with starts"),
        ("choice", {"choices": ["Ada"]}, "less than two choices"),
        ("choice", {"choices": [3, 7]}, "'choices' holds 3, which is no text; write it as \"3\""),
        ("choice", {"choices": ["x", True]}, 'holds True, which is no text; write it as "true"'),
        ("choice", {"choices": ["x", None]}, "'choices' holds None, which is no text"),
        ("choice", {"question": 10**400}, "000, which is no text; write it in quotes"),
        ("choice", {"question": -math.inf}, "'question' is -inf, which is no text"),
        ("choice", {"question": 2.5}, "'question' is 2.5, which is no text; write it as \"2.5\""),
        ("choice", {"label": 2}, "the label '2' names none of 2 choices"),
        ("relation", {"first": [0, 99]}, "the place 0..99 is not in the text of 13 characters"),
        ("relation", {"second": "Bob"}, "'Bob' is no place in a text"),
        ("target", {"source": " "}, "'source' is empty or not a string"),
        ("target", {"source": ["", " "]}, "'source' is empty"),
        ("target", {"source": ["Ada", 7]}, "'source' holds 7, which is no text; write it"),
        ("target", {"target": ""}, "'target' is empty or not a string"),
        ("target", {"target": []}, "'target' is empty"),
        ("target", {"target": 7}, "'target' is 7, which is no text; write it as \"7\""),
        ("target", {"target": ["Ada", ""]}, "'target' holds '', which is no text"),
        ("target", {"target": "\ud800"}, "half of a surrogate pair"),
    ],
)
def test_a_bad_row_says_why(form: str, change: dict[str, Any], expected: str) -> None:
    assert expected in reason(GOOD[form][0] | change, form)


def test_what_json_reads_as_infinite_is_not_to_be_written_so() -> None:
    assert "write it" not in reason(GOOD["choice"][0] | {"question": math.inf}, "choice")


@pytest.mark.parametrize("passage", [{}, {"passage": None}, {"passage": ""}, {"passage": " "}])
def test_a_choice_without_a_passage_may_have_an_empty_cell(passage: dict[str, Any]) -> None:
    row = {"question": "which?", "choices": ["this", "that"], "label": 0}
    assert make_example(row | passage, 3, form="choice").passage is None


def test_spans_are_taken_in_their_order_and_must_not_overlap() -> None:
    row = {"text": "Ada in Rome", "spans": [[7, 11, "LOC"], {"start": 0, "end": 3, "label": "PER"}]}
    found = make_example(row, 3, form="tags")
    assert found.spans == (Span(0, 3, "PER"), Span(7, 11, "LOC"))
    said = reason(row | {"spans": [[0, 3, "PER"], [2, 6, "LOC"]]}, "tags")
    assert "the spans 0..3 (PER) and 2..6 (LOC) overlap; a word has one tag, so keep one" in said
    assert "not a start, an end and a label" in reason(row | {"spans": [[0, 3]]}, "tags")


def test_a_text_with_a_tag_for_each_character_is_taken_as_its_characters() -> None:
    row = {"text": "张三 在", "tags": ["B-PER", "I-PER", "O", "O"], "intent": "find"}
    expected = TaggedExample(
        "张 三 在", ((0, 1), (2, 3), (4, 5)), ("B-PER", "I-PER", "O"), intent="find", line=3
    )
    assert make_example(row, 3, form="intent_slots") == expected
    assert make_example(row, 3, form="tags", labelled=False) == TaggedExample("张三 在", line=3)
    both = make_example(row | {"spans": [[0, 2, "PER"]]}, 3, form="tags")
    assert both == TaggedExample("张三 在", spans=(Span(0, 2, "PER"),), line=3)


def test_an_answer_is_found_where_it_is_nearest_to_what_is_said() -> None:
    row = {"question": "?", "passage": "a b a b a", "answers": [{"text": "a", "start": 5}]}
    assert make_example(row, 1, form="answers").answers == (Found("a", 4),)
    moved = []
    for answer in ({"text": "a", "start": 5}, {"text": "a", "start": 4}, {"text": "b"}):
        (found,) = make_example(row | {"answers": [answer]}, 1, form="answers").answers or ()
        moved.append(found.is_moved)
    assert moved == [True, False, False]
    row["answers"] = [{"text": "b", "start": -1}, {"text": "c", "start": 0}]
    assert make_example(row, 1, form="answers").answers == (Found("b", 2), Found("c", None))


@pytest.mark.parametrize("start", [4, 4.0, "4", " 4 ", "4.0"])
def test_the_start_of_an_answer_may_be_any_whole_number_or_its_text(start: object) -> None:
    row = {"question": "?", "passage": "a b a b a", "answers": [{"text": "a", "start": start}]}
    assert make_example(row, 1, form="answers").answers == (Found("a", 4),)


@pytest.mark.parametrize("start", [4.5, "b", True, [4], float("nan"), float("inf"), 10**400])
def test_another_start_of_an_answer_is_refused(start: object) -> None:
    row = {"question": "?", "passage": "a b a", "answers": [{"text": "a", "start": start}]}
    assert "of an answer is no whole number; count the characters" in reason(row, "answers")


@pytest.mark.parametrize("start", [None, ""])
def test_an_answer_without_a_start_is_taken_where_it_stands_first(start: object) -> None:
    row = {"question": "?", "passage": "b a a", "answers": [{"text": "a", "start": start}]}
    assert make_example(row, 1, form="answers").answers == (Found("a", 2),)


def test_answers_may_be_one_object_alone() -> None:
    row = {"question": "?", "passage": "b ab", "answers": {"text": "ab", "start": 0}}
    assert make_example(row, 1, form="answers").answers == (Found("ab", 2, is_moved=True),)


def test_answers_may_be_an_object_of_lists_or_none_at_all() -> None:
    row: dict[str, Any] = {"question": "?", "passage": "a b"}
    row["answers"] = {"text": ["b"], "answer_start": [2]}
    assert make_example(row, 1, form="answers").answers == (Found("b", 2),)
    for nothing in ([], {"text": [], "answer_start": []}):
        assert make_example(row | {"answers": nothing}, 1, form="answers").answers == ()


@pytest.mark.parametrize("label", [1, "1", "B", "Bob", " Bob "])
@pytest.mark.parametrize("choice", ["Bob", " Bob"])
def test_a_choice_is_named_by_number_letter_or_text(label: object, choice: str) -> None:
    row = {"question": "who?", "choices": ["Ada", choice], "label": label}
    assert make_example(row, 1, form="choice").label == 1


def test_a_source_may_be_in_sentences_and_a_target_in_several_wordings() -> None:
    row = {"source": ["We count. ", " ", "It works."], "target": ["Counting", "To count"]}
    expected = SourceExample("We count. It works.", ("Counting", "To count"), line=1)
    assert make_example(row, 1, form="target") == expected


@given(st.lists(st.text(min_size=1), max_size=9))
def test_words_are_found_at_their_places(words: list[str]) -> None:
    text = " ".join(words)
    assert [text[start:end] for start, end in places_of(words)] == words


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("news", ("news",)),
        ("news|10 | sport, local|news", ("news", "10", "sport, local")),
        ("news||sport|", ("news", "sport")),
        ("|", ()),
        ("", ()),
        (" ", ()),
        ([], ()),
        (["a|b", True, 3], ("a|b", "true", "3")),
    ],
)
def test_labels_are_a_list_or_a_text_with_strokes_between_them(
    written: Any, expected: tuple[str, ...]
) -> None:
    found = make_example({"text": "x", "labels": written}, 1, form="labels")
    assert found == TextExample("x", labels=expected, line=1)


def test_a_column_without_a_name_is_called_by_its_number() -> None:
    columns = {"source": "1", "target": "2"}
    for row, said in (({"1": " ", "2": "b"}, "column 1 is empty"), ({"1": "a"}, "no column 2 (")):
        with pytest.raises(DataError) as refused:
            make_example(row, 3, form="target", columns=columns)
        assert str(refused.value).startswith(said)
