"""What the service tells of itself."""

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Event

import numpy as np
import pytest
from starlette.testclient import TestClient

from bertworks.service.http_app import AppSettings, make_app
from bertworks.service.models import Models, revision_of
from bertworks.serving.predictor import load

DIGEST = sha256(b"open sesame").hexdigest()


def test_the_first_model_is_told_as_text_embeddings_inference_does(client, served_models) -> None:
    told = client.get("/info").json()
    first = served_models.get()
    assert (told["model_id"], told["model_sha"]) == (first.name, first.revision)
    assert told["max_input_length"] == 67
    assert told["model_type"] == {"embedding": {"pooling": "mean"}}
    assert [model["name"] for model in told["models"]] == list(served_models.names)


def test_it_is_ready_while_every_model_can_answer(client) -> None:
    assert client.get("/readyz").json() == client.get("/health").json() == {"status": "ready"}
    assert client.get("/livez").json() == {"status": "alive"}


@pytest.fixture
def own_models(model_folder):
    models = Models.open([f"one={model_folder('classify')}", f"two={model_folder('tag')}"])
    yield models
    models.stop(1.0)


def test_one_model_that_cannot_answer_makes_it_unready_but_alive(own_models) -> None:
    client = TestClient(make_app(own_models, AppSettings()))
    assert client.get("/readyz").status_code == 200
    own_models.get("two").batcher.stop(0.0)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "worker_lost"
    assert answer.headers["retry-after"] == "1"
    assert client.get("/livez").status_code == 200
    assert client.post("/embed", json={"inputs": "a", "model": "one"}).status_code == 200
    refused = client.post("/embed", json={"inputs": "a", "model": "two"})
    assert refused.json()["error"]["code"] == "stopping"


def test_a_service_that_stops_says_so(own_models) -> None:
    client = TestClient(make_app(own_models, AppSettings()))
    own_models.refuse_new()
    assert client.get("/readyz").json()["error"]["code"] == "stopping"
    assert client.get("/livez").status_code == 200


def test_until_the_models_are_opened_it_is_alive_and_not_ready(model_folder) -> None:
    models = Models({"one": model_folder("classify")}, load)
    client = TestClient(make_app(models, AppSettings(keys=(DIGEST,))))
    assert client.get("/livez").json() == {"status": "alive"}
    assert client.get("/readyz").json()["error"]["code"] == "loading"
    assert client.get("/readyz").headers["retry-after"] == "1"
    assert client.post("/embed", json={"inputs": "a"}).status_code == 401
    client.headers["authorization"] = "Bearer open sesame"
    for answer in (client.post("/embed", json={"inputs": "a"}), client.get("/info")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "loading")
    assert client.get("/nothing").status_code == 404
    models.load()
    assert client.get("/readyz").status_code == client.get("/info").status_code == 200
    models.stop(0.0)


def test_models_are_not_exchanged_unless_that_is_allowed(client, model_folder) -> None:
    answer = client.post("/models/classify", json={"path": str(model_folder("classify"))})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "unknown_route"


def test_a_model_is_exchanged_for_one_that_can_answer(own_models, model_folder, tmp_path) -> None:
    client = TestClient(make_app(own_models, AppSettings(allow_swap=True)))
    before = client.post("/classify", json={"inputs": ["the cat"]}).json()
    refused = client.post("/models/one", json={"path": str(tmp_path)})
    assert refused.status_code == 422
    assert client.post("/classify", json={"inputs": ["the cat"]}).json() == before
    new = model_folder("classify", seed=29)
    swapped = client.post("/models/one", json={"path": str(new)})
    assert swapped.status_code == 200, swapped.text
    after = client.post("/classify", json={"inputs": ["the cat"]}).json()
    assert after["revision"] == swapped.json()["revision"] != before["revision"]
    assert after["answers"] != before["answers"]


@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings", "/pipeline/feature-extraction"])
def test_answers_of_every_shape_say_of_which_revision_they_are(
    own_models, model_folder, path: str
) -> None:
    client = TestClient(make_app(own_models, AppSettings(allow_swap=True)))
    folders = [model_folder("classify", seed=seed) for seed in (29, 31)]
    wanted = {revision_of(folder): load(folder).embed(["the cat"])[0] for folder in folders}
    seen, is_over = [], Event()

    def ask() -> None:
        own = TestClient(client.app)
        while not is_over.is_set():
            seen.append(own.post(path, json={"inputs": ["the cat"], "input": ["the cat"]}))

    client.post("/models/one", json={"path": str(folders[0])})
    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        for number in range(1, 5):
            swapped = client.post("/models/one", json={"path": str(folders[number % 2])})
            assert swapped.status_code == 200
        is_over.set()
        for one in asking:
            one.result()
    for answer in seen:
        told = answer.json()
        vector = told[0] if isinstance(told, list) else told["data"][0]["embedding"]
        right = wanted[answer.headers["x-bertworks-revision"]]
        np.testing.assert_allclose(vector, right / np.linalg.norm(right), atol=1e-5)
    assert {answer.headers["x-bertworks-revision"] for answer in seen} == wanted.keys()
    assert np.abs(np.subtract(*wanted.values())).max() > 1e-2  # else a wrong label is not seen


def test_a_model_that_is_not_there_is_not_exchanged(own_models) -> None:
    client = TestClient(make_app(own_models, AppSettings(allow_swap=True)))
    assert client.post("/models/three", json={"path": "x"}).status_code == 404
