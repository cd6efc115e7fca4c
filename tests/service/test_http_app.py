"""The application as a whole: every route, keys, limits, and errors that are always JSON."""

import gzip
import json
import logging
from hashlib import sha256
from urllib.parse import unquote

import msgspec
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from bertworks.service.asking import BRIEF
from bertworks.service.failures import STATUSES
from bertworks.service.http_app import OPERATIONS, AppSettings, make_app
from bertworks.service.models import Models
from bertworks.service.schemas import ErrorAnswer

JSON = {"content-type": "application/json"}
DIGEST = sha256(b"open sesame").hexdigest()
PAIR = {"source_sentence": "cat", "sentences": ["dog", "cat"]}
EXAMPLES = {  # of every route to which something is posted
    "/v1/embeddings": {"input": ["cat", "dog"]},
    "/embed": {"inputs": "cat"},
    "/embed_all": {"inputs": ["cat", "the dog"]},
    "/similarity": {"inputs": PAIR},
    "/predict": {"inputs": [["cat"], ["dog"]], "model": "classify"},
    "/tokenize": {"inputs": "the cat"},
    "/rerank": {"query": "cat", "texts": ["dog", "cat"]},
    "/v1/rerank": {"query": "cat", "documents": ["dog", {"text": "cat"}]},
    "/v2/rerank": {"query": "cat", "documents": ["dog", "cat"]},
    "/encode": {"id": 7, "texts": ["cat"]},
    "/classify": {"inputs": ["cat", "dog"], "model": "classify"},
    "/tag": {"inputs": ["the cat"], "model": "tag"},
    "/answer": {"inputs": [{"question": "Who?", "passage": "the cat"}], "model": "answer"},
    "/choose": {"inputs": [{"question": "Who?", "choices": ["a", "b"]}], "model": "choose"},
    "/fill-mask": {"inputs": ["the [MASK]"]},
    "/zero-shot": {"inputs": ["the cat"], "labels": ["cat", "dog"]},
    "/generate": {"inputs": ["the cat"], "model": "generate"},
    "/attention": {"text": "the cat"},
    "/": {"inputs": PAIR},
    "/pipeline/{task}": {"inputs": "the [MASK]"},
    "/models/{name:path}/pipeline/{task}": {"inputs": "the [MASK]"},
}
POSTS = [operation for operation in OPERATIONS if operation.method == "POST"]
GETS = [operation for operation in OPERATIONS if operation.method == "GET"]
BAD_BODIES = [
    (b"{", "bad_request"),
    (b'{"a": 1, "a": 2}', "bad_request"),
    (b"[" * 10_000, "bad_request"),
    (b'{"inputs": "\\ud800"}', "bad_request"),
    (b"\xef\xbb\xbf{}", "bad_request"),
    (b"\xff\xfe{\x00}\x00", "bad_request"),
    (b"NaN", "bad_request"),
    (b'{"odd": NaN}', "bad_request"),
    (b"[]", "bad_value"),
    (b"{}", "bad_value"),
    (b'{"inputs": 5, "input": 5, "query": 5, "texts": 5, "text": 5}', "bad_value"),
    (b'{"inputs": [], "input": [], "texts": [], "data": [], "text": 1}', "bad_value"),
]


def filled(path: str) -> str:
    """Put a name and a task into the places of a path."""
    known = {"{name:path}": "fill_mask", "{task}": "fill-mask", "{file}": "main.js"}
    for place, word in known.items():
        path = path.replace(place, word)
    return path


def is_error(answer, code: str) -> bool:
    """Tell whether an answer is an error as all are, of a code."""
    error = msgspec.json.decode(answer.content, type=ErrorAnswer).error
    kind = answer.headers["content-type"]
    return (error.code, answer.status_code, kind) == (code, STATUSES[code], "application/json")


@pytest.mark.parametrize("operation", POSTS, ids=lambda one: one.path)
def test_every_route_answers_as_it_is_described(client, operation) -> None:
    answer = client.post(filled(operation.path), json=EXAMPLES[operation.path])
    assert answer.status_code == 200, answer.text
    msgspec.json.decode(answer.content, type=operation.answer)
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("operation", POSTS, ids=lambda one: one.path)
def test_every_answer_says_which_model_gave_it_and_what_it_read(
    client, served_models, operation
) -> None:
    body = EXAMPLES[operation.path]
    answer = client.post(filled(operation.path), json=body)
    model = served_models.get(body.get("model"))
    assert operation.tells_model
    assert answer.headers["x-bertworks-model"] == model.name
    assert answer.headers["x-bertworks-revision"] == model.revision != ""
    assert int(answer.headers["x-compute-tokens"]) > 1
    assert answer.headers["x-truncated"] == "0"
    told = answer.json()
    if isinstance(told, dict) and "model" in told:
        assert (told["model"], told["revision"]) == (model.name, model.revision)
        assert any(told["usage"].values())
        assert not any(told["truncated"])


LONG = "the cat " * 5000
OF_LONG_TEXTS = {
    "/v1/embeddings": {"input": [LONG, "a"]},
    "/embed": {"inputs": [LONG, "a"]},
    "/embed_all": {"inputs": [LONG, "a"]},
    "/similarity": {"inputs": {"source_sentence": "a", "sentences": [LONG, "b"]}},
    "/predict": {"inputs": [[LONG], ["a"]], "model": "classify"},
    "/rerank": {"query": "a", "texts": [LONG, "b"]},
    "/v1/rerank": {"query": "a", "documents": [LONG, "b"]},
    "/encode": {"texts": [LONG, "a"]},
    "/classify": {"inputs": [LONG, "a"], "model": "classify"},
    "/fill-mask": {"inputs": ["[MASK] " + LONG, "a [MASK]"]},
    "/zero-shot": {"inputs": [LONG, "a"], "labels": ["b", "c"]},
    "/pipeline/feature-extraction": {"inputs": [LONG, "a"]},
}


@pytest.mark.parametrize("path", OF_LONG_TEXTS)
def test_every_route_says_that_a_text_was_cut(client, path: str) -> None:
    answer = client.post(path, json=OF_LONG_TEXTS[path])
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-truncated"] == "1"
    told = answer.json()
    if isinstance(told, dict):
        assert told["truncated"] == [True, False]


def test_a_name_of_other_letters_fits_into_a_header(model_folder) -> None:
    models = Models.open([f"模型={model_folder('classify')}"])
    answer = TestClient(make_app(models, AppSettings())).post("/embed", json={"inputs": "a"})
    models.stop(0.0)
    assert answer.status_code == 200
    assert unquote(answer.headers["x-bertworks-model"]) == "模型"


@pytest.mark.parametrize("operation", GETS, ids=lambda one: one.path)
def test_every_route_that_is_only_read_answers_as_it_is_described(client, operation) -> None:
    answer = client.get(filled(operation.path))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(operation.media)
    if operation.answer is not None:
        msgspec.json.decode(answer.content, type=operation.answer)


@pytest.mark.parametrize("operation", POSTS, ids=lambda one: one.path)
def test_every_route_refuses_bad_bodies_with_the_same_codes(client, operation) -> None:
    for body, code in BAD_BODIES:
        answer = client.post(filled(operation.path), content=body, headers=JSON)
        assert is_error(answer, code), (body[:40], answer.text)


@pytest.mark.parametrize("operation", POSTS, ids=lambda one: one.path)
def test_every_route_refuses_what_is_no_json_or_is_packed(client, operation) -> None:
    path, body = filled(operation.path), json.dumps(EXAMPLES[operation.path]).encode()
    kinds = [{"content-type": "text/plain"}, {}, {**JSON, "content-encoding": "gzip"}]
    for headers in kinds:
        answer = client.post(path, content=gzip.compress(body), headers=headers)
        assert is_error(answer, "wrong_content_type")


@pytest.mark.parametrize("operation", POSTS, ids=lambda one: one.path)
def test_every_route_knows_when_a_model_is_unknown(client, operation) -> None:
    path = operation.path.replace("{name:path}", "nobody").replace("{task}", "fill-mask")
    body = EXAMPLES[operation.path] | {"model": "nobody"}
    if operation.path in ("/", "/pipeline/{task}"):  # whose model is always the first
        assert client.post(path, json=body).status_code == 200
    else:
        assert is_error(client.post(path, json=body), "unknown_model")


def test_a_body_may_be_as_long_as_the_limit_and_no_longer(make_client) -> None:
    client = make_client(max_body=100)
    body = json.dumps({"inputs": "a"}).encode()
    fits, too_long = (body + b" " * (size - len(body)) for size in (100, 101))
    assert client.post("/embed", content=fits, headers=JSON).status_code == 200
    assert is_error(client.post("/embed", content=too_long, headers=JSON), "too_large")


def test_a_body_without_a_length_is_measured_as_it_comes(make_client) -> None:
    client, drawn = make_client(max_body=1000), []

    def chunks():
        for number in range(10_000):
            drawn.append(number)
            yield b" " * 100

    answer = client.post("/embed", content=chunks(), headers=JSON)
    assert "content-length" not in answer.request.headers
    assert is_error(answer, "too_large")
    short = client.post("/embed", content=iter([b'{"inputs"', b': "a"}']), headers=JSON)
    assert short.status_code == 200


def test_a_length_that_is_no_number_does_no_harm(client) -> None:
    headers = JSON | {"content-length": "9" * 400}
    assert is_error(client.post("/embed", content=b"{}", headers=headers), "too_large")


def test_more_inputs_than_allowed_are_refused_before_they_are_cut(make_client) -> None:
    client = make_client(max_items=3, max_characters=20)
    assert client.post("/embed", json={"inputs": ["a"] * 3}).status_code == 200
    for path in ("/embed", "/tokenize"):
        assert is_error(client.post(path, json={"inputs": ["a"] * 4}), "too_large")
        assert is_error(client.post(path, json={"inputs": "a" * 21}), "too_large")


def test_unknown_paths_and_methods_are_json_errors(client) -> None:
    for path in (
        "/nothing",
        "/embed/",
        "/../etc/passwd",
        "/models/a",
        "/%00",
        "/docs/x",
    ):
        assert is_error(client.get(path), "unknown_route"), path
    for path, meant in (("/embeddings", "/v1/embeddings"), ("/embed/", "/embed")):
        assert f"did you mean {meant}?" in client.post(path, json={}).text
    assert "see /openapi.json for all" in client.get("/nothing").text
    wrong = client.get("/embed")
    assert is_error(wrong, "method_not_allowed")
    assert wrong.headers["allow"] == "POST"
    assert is_error(client.put("/info"), "method_not_allowed")
    assert client.put("/").headers["allow"] == "GET, HEAD, POST"
    assert is_error(client.options("/embed", headers={"origin": "http://a"}), "method_not_allowed")


def test_browsers_are_told_to_trust_nothing(client) -> None:
    for answer in (client.get("/info"), client.get("/nothing"), client.post("/embed")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.fixture(scope="module")
def locked(served_models):
    return make_app(served_models, AppSettings(keys=(DIGEST,), allow_swap=True))


def places(app) -> list[tuple[str, str]]:
    """Return every path and method that the router knows, and some that it does not."""
    found = [
        (method, filled(route.path))
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods
    ]
    assert len(found) == sum(len(route.methods) for route in app.routes) > 25
    return [*found, ("GET", "/nothing"), ("OPTIONS", "/embed"), ("DELETE", "/livez/x")]


def test_nothing_but_the_probes_opens_without_the_key(locked) -> None:
    client = TestClient(locked)
    wrong = [None, "Bearer", "Bearer wrong", "open sesame", "Bearer open  sesame"]
    wrong += ["Bearer Open Sesame", f"Bearer {DIGEST}", "Basic open sesame", "Bearer open sesame "]
    for method, path in places(locked):
        if path in ("/livez", "/readyz"):
            assert client.request(method, path).status_code == 200
            continue
        for header in wrong[:4] if path != "/embed" else wrong:
            headers = {} if header is None else {"authorization": header}
            answer = client.request(method, path, headers=headers)
            assert answer.status_code == 401, (method, path, header)
            asked = "Basic" if path in ("/", "/docs") or path.startswith("/page/") else "Bearer"
            assert answer.headers["www-authenticate"].split()[0] == asked
            if method != "HEAD":
                assert is_error(answer, "unauthorized")


def test_everything_opens_with_the_key(locked) -> None:
    client = TestClient(locked, headers={"authorization": "Bearer open sesame"})
    for method, path in places(locked):
        assert client.request(method, path).status_code != 401
    assert client.post("/embed", json={"inputs": "a"}).status_code == 200


def test_a_browser_opens_the_page_with_the_key_as_its_password(locked) -> None:
    client = TestClient(locked)
    assert client.get("/", auth=("anybody", "open sesame")).status_code == 200
    assert client.get("/info", auth=("", "open sesame")).json()["asks_for_key"]
    assert client.get("/", auth=("open sesame", "anybody")).status_code == 401


def test_without_keys_nobody_is_asked(client) -> None:
    answer = client.get("/info", headers={"authorization": "Bearer anything"})
    assert answer.status_code == 200
    assert not answer.json()["asks_for_key"]


def test_the_key_is_told_nowhere(locked, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    client = TestClient(locked, headers={"authorization": "Bearer open sesame"})
    told = [client.get(path).text for path in ("/info", "/metrics", "/openapi.json", "/docs")]
    told.append(client.post("/embed", json={"inputs": 5}).text)
    for text in [*told, caplog.text]:
        assert "sesame" not in text
        assert DIGEST not in text


def test_sockets_of_another_kind_are_closed(locked) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), TestClient(locked).websocket_connect("/embed"):
        pass


def test_the_page_is_there_unless_it_is_not_wanted(make_client) -> None:
    assert make_client().get("/").headers["content-type"].startswith("text/html")
    bare = make_client(page=False)
    assert is_error(bare.get("/"), "method_not_allowed")
    assert is_error(bare.get("/page/main.js"), "unknown_route")
    assert is_error(make_client().get("/page/nothing.js"), "unknown_route")


def test_what_nobody_foresaw_is_an_error_that_tells_nothing(served_models, caplog) -> None:
    app = make_app(served_models, AppSettings())
    app.state.asker.close()  # no thread is left that could read
    answer = TestClient(app).post("/embed", json={"inputs": "a" * BRIEF})
    assert is_error(answer, "failed")
    assert "shutdown" not in answer.text
    assert "shutdown" in caplog.text
