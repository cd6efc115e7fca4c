"""The shapes of text-embeddings-inference."""

from dataclasses import replace

import numpy as np
import pytest


def test_one_text_and_several_become_lists_of_vectors(client, served_models) -> None:
    one = client.post("/embed", json={"inputs": "dog"}).json()
    two = client.post("/embed", json={"inputs": ["dog", "the cat"]}).json()
    assert np.shape(one) == (1, 21)
    assert np.shape(two) == (2, 21)
    expected = served_models.get().predictor.embed(["dog", "the cat"], normalize=True)
    np.testing.assert_allclose(two, expected, atol=1e-5)


def test_vectors_keep_their_length_where_they_are_not_normalized(client, served_models) -> None:
    (vector,) = client.post("/embed", json={"inputs": "dog", "normalize": False}).json()
    expected = served_models.get().predictor.embed(["dog"], normalize=False)[0]
    np.testing.assert_allclose(vector, expected, atol=1e-5)
    assert np.linalg.norm(vector) > 1.1


def test_every_piece_has_a_vector(client) -> None:
    first, second = client.post("/embed_all", json={"inputs": ["dog", "the cat"]}).json()
    pieces = client.post("/tokenize", json={"inputs": ["dog", "the cat"]}).json()
    assert [len(first), len(second)] == [len(cut) for cut in pieces]


def test_more_vectors_than_can_be_written_are_not_computed(make_client, served_models) -> None:
    client, batcher = make_client(), served_models.get().batcher
    asker = client.app.state.asker
    asker.limits = replace(asker.limits, max_numbers=4 * 21)
    assert client.post("/embed_all", json={"inputs": "the cat"}).status_code == 200
    before = batcher.num_computed
    answer = client.post("/embed_all", json={"inputs": "the cat sat"})
    assert answer.status_code == 413
    assert "the answer would hold 105 numbers" in answer.json()["error"]["message"]
    assert batcher.num_computed == before


def test_a_text_is_most_like_itself(client) -> None:
    inputs = {"source_sentence": "the cat", "sentences": ["北京", "the cat"]}
    other, same = client.post("/similarity", json={"inputs": inputs}).json()
    assert same == pytest.approx(1, abs=1e-5)
    assert other < 0.99


@pytest.mark.parametrize(
    ("inputs", "model", "depth"),
    [
        ("cat", "classify", 1),
        (["cat"], "classify", 1),
        (["a cat", "a dog"], "match", 1),
        ([["cat"], ["dog"]], "classify", 2),
        ([["a cat", "a dog"], ["b", "c"]], "match", 2),
    ],
)
def test_labels_come_likeliest_first(client, inputs, model: str, depth: int) -> None:
    found = client.post("/predict", json={"inputs": inputs, "model": model}).json()
    rows = found if depth == 2 else [found]
    for row in rows:
        scores = [one["score"] for one in row]
        assert scores == sorted(scores, reverse=True)
        assert sum(scores) == pytest.approx(1, abs=1e-6)
    assert len(rows) == (len(inputs) if depth == 2 else 1)


def test_three_texts_in_one_list_are_no_pair(client) -> None:
    answer = client.post("/predict", json={"inputs": ["a", "b", "c"], "model": "classify"})
    assert answer.status_code == 422
    assert "put each text into a list of its own" in answer.json()["error"]["message"]


def test_raw_scores_are_refused_rather_than_made_up(client) -> None:
    body = {"inputs": "a", "model": "classify", "raw_scores": True}
    assert client.post("/predict", json=body).json()["error"]["code"] == "bad_value"


def test_pieces_say_where_they_stand(client) -> None:
    text = "The cat sat"
    (cut,) = client.post("/tokenize", json={"inputs": text}).json()
    assert [piece["special"] for piece in cut] == [True, False, False, False, True]
    assert [text[p["start"] : p["stop"]] for p in cut[1:-1]] == ["The", "cat", "sat"]
    (bare,) = client.post("/tokenize", json={"inputs": text, "add_special_tokens": False}).json()
    assert bare == cut[1:-1]


def test_what_may_not_be_cut_is_refused_with_the_limit(client) -> None:
    answer = client.post("/embed", json={"inputs": "cat " * 5000, "truncate": False})
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"
