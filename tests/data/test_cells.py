"""Values become what forms read: lists of words, spans, answers and choices."""

from typing import Any

import pytest

from bertworks.core.errors import DataError
from bertworks.data import cells
from bertworks.data.forms import COLUMNS


def arrange(row: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    return cells.arrange(row, columns, COLUMNS)


TEXT = "叶老桂在浙商银行"
CLUE = {"name": {"叶老桂": [[0, 2]]}, "company": {"浙商银行": [[4, 7]]}}


@pytest.mark.parametrize(
    ("ours", "written", "read"),
    [
        ("tokens", "fly to  boston", ["fly", "to", "boston"]),
        ("tokens", '["new york", "x"]', ["new york", "x"]),
        ("tokens", ["a b", "c"], ["a b", "c"]),
        ("tags", "O O B-city", ["O", "O", "B-city"]),
        ("tokens", "[1], see [2]", ["[1],", "see", "[2]"]),
        ("tokens", """['he', '"', "'s", '" "']""", ["he", '"', "'s", '" "']),
        ("labels", """["rock 'n' 'x'", 'b']""", ["rock 'n' 'x'", "b"]),
        ("labels", "", []),
        ("labels", '["a", "b"]', ["a", "b"]),
        ("labels", "a|b", "a|b"),  # the form parts these
        ("answers", "Paris", [{"text": "Paris"}]),
        ("answers", " ", []),
        (
            "answers",
            ["Paris", {"text": "x", "start": 7}],
            [{"text": "Paris"}, {"text": "x", "start": 7}],
        ),
        ("answers", {"text": ["x"], "start": [7]}, {"text": ["x"], "start": [7]}),
        ("choices", '["a", "b"]', ["a", "b"]),
        ("choices", "['a', 'b']", ["a", "b"]),
        ("tokens", "['王', '芳']", ["王", "芳"]),
        ("tokens", """[ "it's", 'so']""", ["it's", "so"]),
        ("tokens", "('王', '芳')", ["王", "芳"]),
        ("tags", "['B-PER', 'I-PER']", ["B-PER", "I-PER"]),
        ("tokens", "[CLS] a , b [SEP]", ["[CLS]", "a", ",", "b", "[SEP]"]),
        ("tokens", "[ 1 ] Ada", ["[", "1", "]", "Ada"]),
        ("tokens", "(a, b)", ["(a,", "b)"]),
        ("labels", "['a', 'b']", ["a", "b"]),
        ("labels", "[a]|[b]", "[a]|[b]"),
        ("answers", "['Paris']", [{"text": "Paris"}]),
        ("answers", "[sic] Paris", [{"text": "[sic] Paris"}]),
        ("first", "[0, 3]", [0, 3]),
        ("second", '{"start": 0, "end": 3}', {"start": 0, "end": 3}),
        ("spans", '[[0, 3, "x"]]', [[0, 3, "x"]]),
        ("spans", "[(0, 3, 'x')]", [[0, 3, "x"]]),
        ("text", "[not a list]", "[not a list]"),
    ],
)
def test_cells_are_read_as_their_column_wants(ours: str, written: Any, read: Any) -> None:
    assert arrange({"theirs": written}, {ours: "theirs"}) == {"theirs": read}
    assert arrange({ours: written}, {}) == {ours: read}


@pytest.mark.parametrize(
    ("ours", "written"),
    [
        ("tokens", "['王' '芳']"),  # an array, whose texts Python would join
        ("tokens", "['王', '芳"),
        ("labels", "['rock ''n'' roll', 'b']"),  # which Python would join, too
        ("tokens", "[王, 芳]"),
        ("tags", "[0 1 0]"),
        ("labels", "['a', nan]"),
        ("labels", "{'a', 'b'}"),
        ("labels", '["a", "b"'),
        ("choices", "[torn"),
        ("first", "[0; 3]"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_instead_of_cut_at_blanks(
    ours: str, written: str
) -> None:
    with pytest.raises(DataError) as raised:
        arrange({ours: written}, {})
    assert str(raised.value) == (f'{written!r} looks like a list but is no JSON; write ["a", "b"]')


@pytest.mark.parametrize("name", ["answer_start", "start", "Answer_Start "])
def test_a_column_beside_bare_answers_tells_where_they_start(name: str) -> None:
    columns = {"answers": "answer"}
    found = arrange({"answer": "a b", name: "12"}, columns)
    assert found["answer"] == [{"text": "a b", "start": "12"}]
    assert arrange({"answer": "a b", name: ""}, columns)["answer"] == [{"text": "a b"}]
    assert arrange({"answer": "", name: "-1"}, columns)["answer"] == []
    several = arrange({"answers": ["a", "b"], name: "[1, 7]"}, {})
    assert several["answers"] == [{"text": "a", "start": 1}, {"text": "b", "start": 7}]
    with pytest.raises(DataError, match="2 answers but 1 starts; each answer needs one"):
        arrange({"answers": ["a", "b"], name: 1}, {})
    if name == "start":  # perhaps that of something else
        assert arrange({"answers": "a", name: "00:01:20"}, {})["answers"] == [{"text": "a"}]
    own = [{"text": "a", "start": 5}]
    assert arrange({"answers": own, name: 7}, {})["answers"] == own


def test_a_row_is_not_changed_in_its_place() -> None:
    row = {"tokens": "a b"}
    arrange(row, {})
    assert row == {"tokens": "a b"}


def test_spans_of_clue_include_their_last_character() -> None:
    row = {"text": TEXT, "label": CLUE}
    found = arrange(row, {"spans": "label"})
    assert found["label"] == [[0, 3, "name"], [4, 8, "company"]]


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ({"name": {"叶老": [[0, 2]]}}, "'叶老' is not what stands at 0..3 of the text"),
        ({"name": {"叶老桂": [0, 2]}}, "are not {kind: {words: places}}"),
        ({"name": [[0, 2]]}, "are not {kind: {words: places}}"),
        ({"name": {"叶老桂": [["0", "2"]]}}, "are not {kind: {words: places}}"),
    ],
)
def test_spans_of_clue_that_are_not_there_are_refused(label: Any, reason: str) -> None:
    with pytest.raises(DataError) as raised:
        arrange({"text": TEXT, "label": label}, {"spans": "label"})
    assert reason in str(raised.value)


ARC = {"choices": "A,B,C,D", "label": "answer"}


@pytest.mark.parametrize(
    ("answer", "label"), [("A", 0), ("C", 2), ("2", 2), ("third", "third"), ("E", "E"), (1, 1)]
)
def test_a_choice_is_named_by_its_column_or_number(answer: Any, label: Any) -> None:
    row = {"A": "B", "B": "A", "C": "third", "D": "x", "answer": answer}
    found = arrange(row, ARC)
    assert found["A,B,C,D"] == ["B", "A", "third", "x"]
    assert found["answer"] == label


def test_a_number_that_is_too_long_is_no_place() -> None:
    row = {"A": "x", "B": "y", "C": "z", "D": "", "answer": "7" * 5000}
    assert arrange(row, ARC)["answer"] == "7" * 5000


def test_what_python_warns_of_is_not_said(recwarn: pytest.WarningsRecorder) -> None:
    assert arrange({"labels": "[1if|x"}, {})["labels"] == "[1if|x"
    assert arrange({"labels": r"['C:\d', 'b']"}, {})["labels"] == [r"C:\d", "b"]
    assert not recwarn


def test_a_number_that_is_the_text_of_a_choice_is_its_text() -> None:
    row = {"A": "4", "B": " 2", "C": "1", "D": "3"}
    assert arrange(row | {"answer": "4"}, ARC)["answer"] == "4"  # the form finds it among the texts
    assert arrange(row | {"answer": "3"}, ARC)["answer"] == "3"  # its number is the same
    assert arrange(row | {"answer": "0"}, ARC)["answer"] == 0
    assert arrange(row | {"answer": 2}, ARC)["answer"] == 2
    with pytest.raises(DataError) as raised:
        arrange(row | {"answer": "2"}, ARC)
    assert str(raised.value) == (
        "the label '2' is the text of the choice 'B' and the number of 'C'; write the name of the "
        "column that is meant"
    )
    unlabelled = cells.arrange(row | {"answer": "2"}, ARC, ("question", "choices"))
    assert unlabelled["A,B,C,D"] == ["4", " 2", "1", "3"]


def test_numbered_columns_are_not_mistaken_for_numbers_of_choices() -> None:
    row = {"1": "q", "2": "x", "3": "y", "4": "z", "5": "2"}
    found = arrange(row, {"question": "1", "choices": "2,3,4", "label": "5"})
    assert found["5"] == 2
    assert arrange(row | {"2": "2"}, {"choices": "2,3,4", "label": "5"})["5"] == 2
    assert arrange(row | {"5": "B"}, {"choices": "2,3,4", "label": "5"})["5"] == 1


@pytest.mark.parametrize("mark", ["B", "2"])
def test_choices_may_have_marks_that_the_label_names(mark: str) -> None:
    marks = ["A", "B"] if mark == "B" else ["1", "2"]
    listed = [{"label": name, "text": text} for name, text in zip(marks, ("x", "y"), strict=True)]
    for choices in (listed, {"label": marks, "text": ["x", "y"]}):
        row = {"choices": choices, "answerKey": mark}
        assert arrange(row, {"label": "answerKey"}) == {"choices": ["x", "y"], "answerKey": 1}


@pytest.mark.parametrize(
    "choices", [{"text": ["x"]}, {"text": "x", "label": ["A"]}, [{"label": "A"}] * 2, {"label": 7}]
)
def test_choices_without_marks_or_texts_are_refused(choices: Any) -> None:
    with pytest.raises(DataError, match="are no texts with a label each"):
        arrange({"choices": choices, "label": "A"}, {})


def test_fewer_choices_leave_the_last_columns_empty() -> None:
    row = {"A": "x", "B": "y", "C": "z", "D": "", "answer": "C"}
    assert arrange(row, ARC)["A,B,C,D"] == ["x", "y", "z"]
    assert arrange(row | {"B": ""}, ARC)["A,B,C,D"] == ["x", "", "z"]  # the form refuses it
    with pytest.raises(DataError, match="no 'D' "):
        arrange({"A": "x", "B": "y", "C": "z", "answer": "A"}, ARC)


def test_a_label_that_nobody_agreed_on_is_refused() -> None:
    columns = {"text": "sentence1", "text_b": "sentence2", "label": "gold_label"}
    row = {"sentence1": "x", "sentence2": "y", "gold_label": "-"}
    with pytest.raises(DataError, match="the label is '-': its annotators agreed on none"):
        arrange(row, columns)
    assert arrange({"text": "x", "text_b": "y", "label": "-"}, {})["label"] == "-"
    assert arrange({"sentence": "x", "label": "-"}, {"text": "sentence"})["label"] == "-"


def test_columns_that_are_not_wanted_are_left_as_they_are() -> None:
    row = {
        "sentence2": "x",
        "label": "-",
        "choices": {"label": 7},
        "tokens": "a b",
        "spans": {"x": 1},
    }
    columns = {"text_b": "sentence2"}
    assert cells.arrange(row, columns, ("text", "text_b")) == row
    with pytest.raises(DataError, match="its annotators agreed on none"):
        cells.arrange(row, columns, ("text", "text_b", "label"))
