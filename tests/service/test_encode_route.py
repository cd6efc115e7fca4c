"""The shapes of bert-as-service."""

import pytest


def test_the_early_shape_has_results_and_its_id(client, served_models) -> None:
    answer = client.post("/encode", json={"id": 123, "texts": ["dog", "cat"]}).json()
    expected = served_models.get().predictor.embed(["dog", "cat"])
    assert answer["id"] == 123
    assert answer["status"] == 200
    assert answer["results"][1] == pytest.approx(expected[1].tolist(), abs=1e-5)
    assert "data" not in answer


def test_the_late_shape_has_texts_with_their_vectors(client) -> None:
    late = client.post("/encode", json={"data": ["dog", {"text": "cat"}]}).json()
    early = client.post("/encode", json={"texts": ["dog", "cat"]}).json()
    assert [row["text"] for row in late["data"]] == ["dog", "cat"]
    vectors = [row["embedding"] for row in late["data"]]
    for vector, expected in zip(vectors, early["results"], strict=True):
        assert vector == pytest.approx(expected, abs=1e-5)


def test_words_are_joined(client) -> None:
    words = {"texts": [["the", "cat"]], "is_tokenized": True}
    joined = client.post("/encode", json=words).json()["results"]
    plain = client.post("/encode", json={"texts": ["the cat"]}).json()["results"]
    assert joined[0] == pytest.approx(plain[0], abs=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"texts": ["a"], "data": ["a"]},
        {"texts": [["a"]]},
        {"texts": ["a"], "is_tokenized": True},
        {"texts": []},
    ],
)
def test_shapes_that_contradict_themselves_are_refused(client, body: dict) -> None:
    answer = client.post("/encode", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "bad_value"
