"""The documentation is made of the routes, and of all of them."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from bertworks.service.failures import STATUSES
from bertworks.service.http_app import OPERATIONS, AppSettings, make_app
from bertworks.service.openapi import describe, page_of, path_of
from bertworks.service.probes import SWAPPING


@pytest.fixture(scope="module")
def document() -> dict:
    return describe(OPERATIONS, has_keys=True)


def references(value) -> set[str]:
    """Return the names of all types that are spoken of."""
    return set(re.findall(r"'#/components/schemas/(\w+)'", str(value)))


def test_every_route_is_described_and_no_other(served_models) -> None:
    app = make_app(served_models, AppSettings(allow_swap=True))
    document = TestClient(app).get("/openapi.json").json()
    described = {
        (path, method.upper()) for path, methods in document["paths"].items() for method in methods
    }
    routed = {(r.path_format, m) for r in app.routes for m in r.methods if m != "HEAD"}
    assert routed - described == {("/page/{file}", "GET")}  # what the page itself asks for
    assert described <= routed


def test_every_type_that_is_spoken_of_is_there(document) -> None:
    assert references(document) <= document["components"]["schemas"].keys()
    assert "ErrorAnswer" in references(document)


def test_every_failure_of_a_route_is_described(document) -> None:
    for operation in OPERATIONS:
        described = document["paths"][path_of(operation)][operation.method.lower()]
        statuses = {str(STATUSES[code]) for code in operation.codes}
        assert statuses | {"200", "500"} <= described["responses"].keys()


def test_only_the_probes_need_no_key(document) -> None:
    free = {
        path
        for path, methods in document["paths"].items()
        for described in methods.values()
        if "security" not in described
    }
    assert free == {"/livez", "/readyz"}
    assert "securitySchemes" not in describe(OPERATIONS, has_keys=False)["components"]


def test_names_of_operations_are_their_own(document) -> None:
    names = [
        one["operationId"] for methods in document["paths"].values() for one in methods.values()
    ]
    assert len(set(names)) == len(names)


def test_places_in_paths_are_described(document) -> None:
    described = document["paths"]["/models/{name}/pipeline/{task}"]["post"]["parameters"]
    assert [one["name"] for one in described] == ["name", "task"]
    assert "fill-mask" in described[1]["schema"]["enum"]


def test_the_page_asks_nobody_else_and_runs_nothing(client) -> None:
    page = client.get("/docs")
    assert not re.search(r"https?://|<script|<link|<img|@import", page.text)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert all(path in page.text for path in ("/v1/embeddings", "/zero-shot", "ErrorAnswer"))


def test_the_documentation_names_every_route_and_every_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `((?:GET|POST) [^`]+)`", page, re.MULTILINE))
    operations = [*OPERATIONS, SWAPPING]
    known = {f"{operation.method} {path_of(operation)}" for operation in operations}
    assert told == known | {"GET /openapi.json", "GET /docs"}
    codes = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE))
    assert codes == {code: str(status) for code, status in STATUSES.items()}


def test_names_cannot_break_out_of_the_page(document) -> None:
    odd = {**document, "paths": {"/<script>": {"get": {"summary": "<b>", "responses": {}}}}}
    assert "<script>" not in page_of(odd)
    assert "<b>" not in page_of(odd)
