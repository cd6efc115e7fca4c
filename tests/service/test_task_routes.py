"""Tasks in our own shape answer as the model does in Python."""

import pytest

QUESTION = {"question": "Where is the cat?", "passage": "The cat sat on the mat."}
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
