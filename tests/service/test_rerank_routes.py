"""Texts in order for a query, as text-embeddings-inference, Cohere and Jina tell it."""

import pytest

from bertworks.service.rerank_routes import best_first

TEXTS = ["北京", "the cat", "a dog ran"]


@pytest.mark.parametrize("model", ["classify", "match", "score"])
def test_texts_come_in_the_order_in_which_the_model_ranks_them(
    client, served_models, model: str
) -> None:
    body = {"query": "the cat", "texts": TEXTS, "model": model, "return_text": True}
    found = client.post("/rerank", json=body).json()
    expected = served_models.get(model).predictor.rank("the cat", TEXTS)
    assert [row["index"] for row in found] == [ranked.place for ranked in expected]
    assert [row["text"] for row in found] == [ranked.text for ranked in expected]
    scores = [row["score"] for row in found]
    assert scores == pytest.approx([ranked.score for ranked in expected], abs=1e-5)


def test_texts_are_not_repeated_unless_wanted(client) -> None:
    found = client.post("/rerank", json={"query": "the cat", "texts": TEXTS}).json()
    assert all(set(row) == {"index", "score"} for row in found)


def test_documents_may_be_texts_or_objects(client) -> None:
    documents = [{"text": text} for text in TEXTS]
    body = {"model": "match", "query": "the cat", "return_documents": True}
    plain = client.post("/v1/rerank", json={**body, "documents": TEXTS}).json()
    objects = client.post("/v1/rerank", json={**body, "documents": documents}).json()
    assert plain == objects
    assert sorted(row["index"] for row in plain["results"]) == [0, 1, 2]
    assert all(TEXTS[r["index"]] == r["document"]["text"] for r in plain["results"])
    assert plain["usage"]["total_tokens"] > 9
    assert plain["truncated"] == [False] * 3


def test_only_the_best_are_told_where_few_are_wanted(client) -> None:
    body = {"query": "the cat", "documents": TEXTS}
    whole = client.post("/v1/rerank", json=body).json()["results"]
    best = client.post("/v1/rerank", json={**body, "top_n": 2}).json()["results"]
    assert [row["index"] for row in best] == [row["index"] for row in whole[:2]]
    assert all("document" not in row for row in whole)


def test_equal_scores_keep_their_order() -> None:
    assert best_first([0.5, 0.7, 0.5, 0.7]) == [1, 3, 0, 2]


def test_the_second_version_differs_in_its_number_only(client) -> None:
    body = {"query": "the cat", "documents": TEXTS, "top_n": 2}
    first, second = (client.post(f"/v{number}/rerank", json=body).json() for number in (1, 2))
    assert first.pop("meta")["api_version"] == {"version": "1"}
    assert second.pop("meta")["api_version"] == {"version": "2"}
    assert first == second


@pytest.mark.parametrize("name", ["rank_fields", "max_chunks_per_doc", "max_tokens_per_doc"])
def test_what_would_change_the_order_and_cannot_be_done_is_refused(client, name: str) -> None:
    body = {"query": "the cat", "documents": TEXTS}
    assert client.post("/v2/rerank", json={**body, name: None}).status_code == 200
    answer = client.post("/v2/rerank", json={**body, name: 7})
    assert answer.status_code == 422
    assert name in answer.json()["error"]["message"]
