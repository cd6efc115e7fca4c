"""Tasks in our own shape answer as the model does in Python."""

import random
from collections import Counter

import pytest

QUESTION = {"question": "Where is the cat?", "passage": "The cat sat on the mat."}
EXTREMES: dict[str, list] = {  # the ends of what is allowed
    "beams": [1, 16],
    "length_penalty": [-5, 5],
    "no_repeat": [0, 1, 256],
    "shortest_reply": [0, 9, 256],
    "longest_reply": [1, 9, 256],
    "begin": ["", "北京 [SEP]", "cat " * 60],
    "temperature": [0.01, 100],
    "top_k": [1, 100_000],
    "top_p": [0.001, 1],
    "draw_seed": [0, 2**32 - 1],
    "truncate": [True, False],
}
CHOICE = {"question": "Who sat?", "choices": ["the cat", "a dog", "北京"]}


@pytest.mark.parametrize(
    ("route", "model", "inputs"),
    [
        ("/classify", "classify", ["the cat", "北京"]),
        ("/classify", "match", [["the cat", "a dog"], {"text": "a", "text_b": "b"}]),
        ("/classify", "score", [["the cat", "a dog"]]),
        ("/tag", "tag", ["The cat sat on the mat."]),
        ("/answer", "answer", [QUESTION]),
        ("/choose", "choose", [CHOICE]),
        ("/generate", "generate", ["the cat sat", "北京"]),
    ],
)
def test_a_route_answers_as_the_model_does(
    client, served_models, same_answer, route: str, model: str, inputs: list
) -> None:
    told = client.post(route, json={"model": model, "inputs": inputs}).json()
    served = served_models.get(model)
    expected = served.predictor.predict(inputs)
    assert same_answer(told["answers"], expected)
    assert told["model"] == model
    assert told["revision"] == served.revision
    assert told["usage"]["tokens"] > len(inputs)
    assert told["truncated"] == [False] * len(inputs)


@pytest.fixture(scope="module")
def same_answer():
    def same(one, other) -> bool:
        if isinstance(one, float):
            return one == pytest.approx(other, abs=1e-5)
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        if isinstance(one, list):
            return len(one) == len(other) and all(map(same, one, other))
        return one == other

    return same


def test_masks_have_as_many_candidates_as_are_wanted(client) -> None:
    body = {"inputs": ["the [MASK] sat", "[MASK] and [MASK]"], "num_candidates": 3}
    first, second = client.post("/fill-mask", json=body).json()["answers"]
    assert [len(mask) for mask in first["masks"]] == [3]
    assert [len(mask) for mask in second["masks"]] == [3, 3]


def test_labels_that_were_never_learned_are_chosen_among(client) -> None:
    body = {"inputs": ["the cat"], "labels": ["cat", "dog"], "by": "vectors"}
    (answer,) = client.post("/zero-shot", json=body).json()["answers"]
    assert answer["label"] in ("cat", "dog")
    assert sum(answer["probabilities"].values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("model", "by"), [("fill_mask", "cloze"), ("fill_mask", "vectors"), ("match", "entailment")]
)
def test_labels_are_chosen_without_what_nothing_says_of_them(
    client, served_models, model: str, by: str
) -> None:
    texts, labels = ["the cat sat", "北京"], {"first": "a cat", "second": "the dog", "third": "sat"}
    body = {"inputs": texts, "labels": labels, "by": by, "model": model, "calibrate": True}
    found = client.post("/zero-shot", json=body).json()
    predictor = served_models.get(model).predictor
    plain, fair = (
        predictor.classify(texts, labels=labels, by=by, calibrate=calibrate)
        for calibrate in (False, True)
    )
    assert found["truncated"] == [False, False]
    for one, expected, other in zip(found["answers"], fair, plain, strict=True):
        assert one["label"] == expected["label"]
        assert one["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-4)
        assert one["probabilities"] != pytest.approx(other["probabilities"], abs=1e-3)
    short = client.post("/zero-shot", json={**body, "top_k": 1}).json()["answers"]
    assert [list(one["probabilities"]) for one in short] == [[one["label"]] for one in fair]


def test_texts_are_written_in_the_way_that_is_asked_for(client, served_models) -> None:
    predictor, texts = served_models.get("generate").predictor, ["the cat sat", "北京 14"]
    ways: list[dict] = [
        {"beams": 4, "length_penalty": 0.5, "no_repeat": 2, "longest_reply": 9},
        {"shortest_reply": 5, "longest_reply": 7, "begin": "the dog"},
        {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "draw_seed": 3, "longest_reply": 9},
    ]
    for way in ways:
        body = {"inputs": texts, "model": "generate", **way}
        told = client.post("/generate", json=body).json()
        replies = [answer["text"] for answer in told["answers"]]
        assert replies == predictor.generate(texts, **way)
        pieces = predictor.tokenizer.ids_of(replies)
        assert told["usage"]["written"] == sum(map(len, pieces)) > 0
        assert told["usage"]["tokens"] == 2 * 2 + sum(map(len, predictor.tokenizer.ids_of(texts)))


def test_pieces_are_counted_as_they_were_written_not_as_their_text_would_be_cut(client) -> None:
    for length in (1, 5, 9):
        way = {"shortest_reply": length, "longest_reply": length, "begin": "the cat"}
        body = {"inputs": ["the cat sat", "dog"], "model": "generate", **way}
        told = client.post("/generate", json=body).json()
        assert told["usage"]["written"] == 2 * (2 + length)


def test_no_way_that_the_schema_allows_breaks_the_network(client) -> None:
    chance, statuses = random.Random(4), Counter()
    for _ in range(60):
        names = chance.sample(list(EXTREMES), chance.choice((1, 2, 3)))
        way = {name: chance.choice(EXTREMES[name]) for name in names}
        inputs = chance.sample(["cat", "the dog " * 80, "北京" * 90, "\x00 14"], 2)
        answer = client.post("/generate", json={"inputs": inputs, "model": "generate", **way})
        assert answer.status_code in (200, 413, 422), (way, answer.text)
        statuses[answer.status_code] += 1
    assert len(statuses) == 3


def test_a_source_that_is_too_long_is_cut_and_told_or_refused(client) -> None:
    body = {"inputs": ["the cat", "the cat " * 99], "model": "generate", "longest_reply": 3}
    answer = client.post("/generate", json=body)
    assert answer.json()["truncated"] == [False, True]
    assert answer.headers["x-truncated"] == "1"
    assert answer.headers["x-compute-tokens"] == str(4 + 67)
    refused = client.post("/generate", json={**body, "truncate": False})
    assert refused.status_code == 413
    assert "input 2 is longer than what is read of it, which is 67" in refused.text
    empty = client.post("/generate", json={**body, "inputs": ["the cat", " "]})
    assert (empty.status_code, empty.json()["error"]["code"]) == (422, "bad_value")
    assert "input 2" in empty.json()["error"]["message"]


@pytest.mark.parametrize(
    "way",
    [
        {"beams": 0},
        {"beams": 17},
        {"beams": 16, "longest_reply": 65},
        {"longest_reply": 257},
        {"longest_reply": 3, "shortest_reply": 4},
        {"temperature": 0},
        {"top_p": 0},
        {"beams": 2, "top_k": 5},
        {"length_penalty": 1e300},
        {"begin": "the cat " * 40},
        {"draw_seed": -1},
        {"num_beams": 4},
    ],
)
def test_a_way_that_cannot_be_is_refused(client, way: dict) -> None:
    answer = client.post("/generate", json={"inputs": ["cat"], "model": "generate", **way})
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "bad_value"


def test_attention_is_told_by_layer_and_head(client) -> None:
    told = client.post("/attention", json={"text": "the cat"}).json()
    assert len(told["layers"]) == 3
    assert len(told["layers"][0]) == 3
    assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in told["layers"][2][1])
    assert len(told["pieces"]) == len(told["layers"][0][0])


def test_what_a_model_cannot_do_is_refused_with_what_it_can(client) -> None:
    answer = client.post("/tag", json={"inputs": ["the cat"], "model": "classify"})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "cannot_do"
    assert "cannot tag; it can: attention, classify, embed" in error["message"]


@pytest.mark.parametrize(
    "inputs", [[""], ["   "], [["a", "b", "c", "d"]], [{"label": "x"}], [[]], [{"text": 3}]]
)
def test_inputs_that_are_no_text_are_refused_by_number(client, inputs: list) -> None:
    answer = client.post("/classify", json={"inputs": ["fine", *inputs], "model": "classify"})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "bad_value"
    assert "input 2" in answer.json()["error"]["message"]


def test_a_misspelled_name_is_refused(client) -> None:
    answer = client.post("/classify", json={"inputs": ["a"], "modle": "classify"})
    assert answer.json()["error"]["code"] == "bad_value"
    assert "modle" in answer.json()["error"]["message"]
