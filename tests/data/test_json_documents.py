"""JSON documents become rows: questions of SQuAD and DREAM, or the objects of a list."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import DataError
from bertworks.core.quarantine import Quarantine
from bertworks.data.json_documents import json_layout, read_dream, read_list, read_squad

Write = Callable[[str, str | bytes], Path]
ANSWER = {"text": "Paris", "answer_start": 0}
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "France",
            "paragraphs": [
                {
                    "context": "Paris is the capital.",
                    "qas": [
                        {"question": "What?", "id": "a", "answers": [ANSWER]},
                        {
                            "question": "Why?",
                            "id": "b",
                            "is_impossible": True,
                            "answers": [],
                            "plausible_answers": [ANSWER],
                        },
                        {"question": "Who?", "id": "c"},
                    ],
                }
            ],
        },
        {"paragraphs": [{"context": "Nothing.", "qas": [{"question": "So?", "answers": []}]}]},
    ],
}
RAW_CMRC = [
    {
        "context_id": "T1",
        "context_text": "首都是北京。",
        "qas": [{"query_text": "哪里？", "query_id": "T1-1", "answers": ["北京", "北京"]}],
        "title": "首都",
    },
    {"context_text": "无。", "qas": [{"query_text": "谁？", "answers": ["无"]}]},
]
TURNS = ["M: Hello?", "W: Yes."]
DREAM = [
    [TURNS, [{"question": "Who?", "choice": ["A man.", "1", "0"], "answer": "0"}], "1-1"],
    [["W: No."], [{"question": "Q1", "choice": ["x", "y"], "answer": "z"}, {"choice": []}], "1-2"],
]


def rows_of(read: Any, path: Path) -> list[tuple[int, dict[str, Any]]]:
    return list(read(path, Quarantine(), {}))


@pytest.mark.parametrize("indent", [None, 2])
def test_questions_of_squad_are_numbered_and_may_have_no_answer(
    file: Write, indent: int | None
) -> None:
    rows = rows_of(read_squad, file("a.json", json.dumps(SQUAD, indent=indent)))
    passage = "Paris is the capital."
    assert rows == [
        (1, {"question": "What?", "id": "a", "answers": [ANSWER], "passage": passage}),
        (2, {"question": "Why?", "id": "b", "answers": [], "passage": passage}),
        (3, {"question": "Who?", "id": "c", "passage": passage}),
        (4, {"question": "So?", "answers": [], "passage": "Nothing."}),
    ]


def test_questions_of_raw_cmrc_are_those_of_squad(file: Write) -> None:
    rows = rows_of(read_squad, file("a.json", json.dumps(RAW_CMRC)))
    first = {"question": "哪里？", "id": "T1-1", "answers": ["北京", "北京"]}
    assert rows == [
        (1, first | {"passage": "首都是北京。"}),
        (2, {"question": "谁？", "answers": ["无"], "passage": "无。"}),
    ]


@pytest.mark.parametrize(
    "document",
    [{"data": [7]}, {"data": [{"paragraphs": None}]}, {"data": [{"paragraphs": [{"qas": [7]}]}]}],
)
def test_what_is_no_question_is_a_row_without_one(file: Write, document: Any) -> None:
    [(number, row)] = rows_of(read_squad, file("a.json", json.dumps(document)))
    assert number == 1
    assert "question" not in row


def test_questions_of_dream_have_their_dialogue_and_a_numbered_answer(file: Write) -> None:
    rows = rows_of(read_dream, file("a.json", json.dumps([*DREAM, "torn"])))
    first = {"question": "Who?", "choices": ["A man.", "1", "0"], "label": 2}
    assert rows[0] == (1, first | {"passage": "M: Hello?\nW: Yes."})
    assert rows[1][1]["label"] == "z"  # none of the choices, which the form refuses
    assert rows[2][1] == {"question": None, "choices": [], "label": None, "passage": "W: No."}
    assert rows[3] == (4, {"question": None, "choices": None, "label": None, "passage": ""})


def test_a_list_may_stand_alone_or_under_data(file: Write) -> None:
    rows = [{"text": "x"}, 7, {"text": "y"}]
    for document in (rows, {"data": rows}):
        quarantine = Quarantine()
        found = list(read_list(file("a.json", json.dumps(document)), quarantine))
        assert found == [(1, {"text": "x"}), (3, {"text": "y"})]
        assert [(row.line, row.reason) for row in quarantine.rows] == [(2, "not a JSON object")]
    with pytest.raises(DataError, match="holds no list of rows"):
        list(read_list(file("a.json", '{"text": "x"}'), Quarantine()))


def test_a_number_that_is_too_long_to_be_read_is_told_as_one(file: Write) -> None:
    path = file("a.json", f'[{{"text": "x", "label": {"7" * 5000}}}]')
    with pytest.raises(DataError, match=r"a\.json holds a number of thousands of digits; write it"):
        list(read_list(path, Quarantine()))


@pytest.mark.parametrize("content", ['[{"text": "x"}', b'["\xff"]', "[" * 100_000, '[1]\n{"a": 1}'])
def test_what_is_no_document_is_one_sentence(file: Write, content: str | bytes) -> None:
    with pytest.raises(DataError, match=r"a\.json is no JSON document \([^\n]+name it \.jsonl if"):
        list(read_list(file("a.json", content), Quarantine()))


@pytest.mark.parametrize(
    ("content", "layout"),
    [
        (json.dumps(SQUAD), "squad"),
        (json.dumps(SQUAD, indent=1), "squad"),
        (json.dumps(SQUAD)[:200], "squad"),  # the head of one long line
        (json.dumps(RAW_CMRC), "squad"),
        (json.dumps(RAW_CMRC, indent=1), "squad"),
        (json.dumps([{"text": json.dumps(RAW_CMRC)}]), "list"),
        (json.dumps(DREAM), "dream"),
        (json.dumps(DREAM, indent=1), "dream"),
        ('[{"text": "x"}]', "list"),
        ('\n[\n {"text": "x"}\n]', "list"),
        ('{"data": [{"text": "x"}]}', "list"),
        ('{\n "data": [{"text": "x"}]\n}', "list"),
        ('{"text": "x"}', "lines"),
        ('{"text": "x"}\n{"text": "y"}', "lines"),
        ('\n{"text": "x", "data": 7}\ntorn', "lines"),
    ],
)
def test_the_first_lines_tell_a_document_from_lines(content: str, layout: str) -> None:
    assert json_layout(content.split("\n")) == layout
