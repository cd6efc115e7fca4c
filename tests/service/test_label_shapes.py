"""Answers of tasks as other servers tell them."""

import pytest

from bertworks.service.failures import Failure
from bertworks.service.label_shapes import (
    LABELLING,
    ability_for,
    candidates_of,
    entities_of,
    found_answers,
    labels_of,
)
from bertworks.service.models import ServedModel


def test_a_task_that_is_named_tells_which_ability_is_meant(predictor_of) -> None:
    served = ServedModel("m", predictor_of("classify", "match", "tag"))
    assert ability_for(LABELLING, served) == "classify"
    assert ability_for(LABELLING, served, task="match") == "match"
    assert ability_for(LABELLING, served, task="tag") == "classify"  # who is told so later on
    assert ability_for(["tag"], served, task="nobody") == "tag"
    with pytest.raises(Failure, match="cannot choose"):
        ability_for(["choose"], served, task="match")


def test_labels_come_likeliest_first_whatever_the_task() -> None:
    assert labels_of({"probabilities": {"a": 0.2, "b": 0.8}}) == [("b", 0.8), ("a", 0.2)]
    assert labels_of({"score": 3.5}) == [("score", 3.5)]
    assert labels_of({"intent": "go", "probability": 0.7, "tags": []}) == [("go", 0.7)]


def test_words_stand_for_themselves_where_tags_speak_of_no_spans() -> None:
    answer = {"tags": ["DET", "DET", "N"], "tokens": ["a", "a", "cat"]}
    found = entities_of("a  a cat", {**answer, "probabilities": [0.9, 0.8, 0.7]})
    assert [(one["start"], one["end"], one["entity"]) for one in found] == [
        (0, 1, "DET"),
        (3, 4, "DET"),
        (5, 8, "N"),
    ]


def test_no_answer_is_an_empty_text_before_the_candidates() -> None:
    likely = {"answer": "cat", "start": 4, "end": 7, "probability": 0.3}
    nothing = {"answer": "", "start": None, "end": None, "probability": 0.6}
    told = found_answers({**nothing, "no_answer": 0.6, "candidates": [likely]})
    assert told[0] == {"answer": "", "score": 0.6, "start": 0, "end": 0}
    assert told[1] == {"answer": "cat", "score": 0.3, "start": 4, "end": 7}


def test_the_best_answer_is_not_told_twice() -> None:
    likely = {"answer": "cat", "start": 4, "end": 7, "probability": 0.3}
    longer = {"answer": "cat sat", "start": 4, "end": 11, "probability": 0.2}
    told = found_answers({**likely, "candidates": [likely, longer]})
    assert [one["answer"] for one in told] == ["cat", "cat sat"]


def test_candidates_stand_in_the_text_in_place_of_their_mask(served_models) -> None:
    rows = [
        [
            {"token": "cat", "id": 7, "probability": 0.6},
            {"token": "##s", "id": 9, "probability": 0.2},
        ],
        [{"token": "mat", "id": 8, "probability": 0.5}],
    ]
    served = served_models.get("fill_mask")
    cat, end = candidates_of("A [MASK] on [MASK].", {"masks": rows}, served)
    assert [one["sequence"] for one in cat] == ["A cat on [MASK].", "As on [MASK]."]
    assert [one["token"] for one in cat] == [7, 9]
    assert end[0]["sequence"] == "A [MASK] on mat."
    assert candidates_of("A [MASK]", {"masks": rows[1:]}, served)[0]["sequence"] == "A mat"
