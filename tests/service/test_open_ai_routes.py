"""OpenAI's own client, unmodified, and the shapes it reads."""

import base64
from hashlib import sha256

import numpy as np
import openai
import pytest

TEXTS = ["The cat sat on the mat.", "北京", "dog"]


@pytest.fixture(scope="module")
def open_ai(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_the_openai_client_gets_the_vectors_of_the_model(open_ai, served_models) -> None:
    answer = open_ai.embeddings.create(model="classify", input=TEXTS)
    vectors = np.array([row.embedding for row in answer.data])
    expected = served_models.get("classify").predictor.embed(TEXTS, normalize=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert [row.index for row in answer.data] == [0, 1, 2]
    assert answer.model == "classify"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 9


def test_bytes_and_numbers_say_the_same(open_ai, client) -> None:
    numbers = open_ai.embeddings.create(model="classify", input="dog", encoding_format="float")
    body = {"model": "classify", "input": "dog", "encoding_format": "base64"}
    written = client.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]
    read = np.frombuffer(base64.b64decode(written), dtype="<f4")
    np.testing.assert_allclose(read, numbers.data[0].embedding, atol=1e-6)


def test_fewer_dimensions_are_the_beginning_at_length_one(open_ai) -> None:
    whole = open_ai.embeddings.create(model="classify", input="dog").data[0].embedding
    short = open_ai.embeddings.create(model="classify", input="dog", dimensions=5).data[0].embedding
    assert np.linalg.norm(short) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(short, whole[:5] / np.linalg.norm(whole[:5]), atol=1e-5)


@pytest.mark.parametrize("dimensions", [0, -1, 22, 10**30])
def test_dimensions_that_vectors_do_not_have_are_refused(open_ai, dimensions: int) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        open_ai.embeddings.create(model="classify", input="dog", dimensions=dimensions)
    assert refused.value.code == "bad_value"


def test_the_openai_client_raises_its_own_errors(open_ai) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt'") as refused:
        open_ai.embeddings.create(model="gpt", input="dog")
    assert refused.value.code == "unknown_model"


def test_the_openai_client_lists_the_models(open_ai, served_models) -> None:
    assert [card.id for card in open_ai.models.list()] == list(served_models.names)


def test_the_openai_client_is_told_of_one_model(open_ai, served_models) -> None:
    assert open_ai.models.retrieve("tag").to_dict()["abilities"] == sorted(
        served_models.get("tag").abilities
    )
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt'"):
        open_ai.models.retrieve("gpt")


def test_a_text_that_is_cut_is_said_to_be(client) -> None:
    answer = client.post("/v1/embeddings", json={"input": ["cat " * 5000, "cat"]})
    assert answer.json()["truncated"] == [True, False]
    assert answer.headers["x-truncated"] == "1"


@pytest.mark.parametrize("numbers", [[15339, 11], [[15339, 11], [2]], ["cat", 7]])
def test_numbers_of_tokens_are_refused_in_a_sentence(open_ai, numbers: list) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="give it as a text") as refused:
        open_ai.embeddings.create(model="classify", input=numbers)
    assert refused.value.code == "bad_value"


@pytest.mark.parametrize("key", ["wrong", "open sesame"])
def test_a_wrong_key_is_the_clients_own_error(make_client, key: str) -> None:
    with make_client(keys=(sha256(b"open sesame").hexdigest(),)) as locked:
        given = {"base_url": "http://testserver/v1", "api_key": key, "max_retries": 0}
        client = openai.OpenAI(**given, http_client=locked)
        if key == "wrong":
            with pytest.raises(openai.AuthenticationError) as refused:
                client.embeddings.create(model="classify", input="dog")
            assert refused.value.code == "unauthorized"
        else:
            assert client.embeddings.create(model="classify", input="dog").data
