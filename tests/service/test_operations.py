"""The table of what can be asked."""

from bertworks.service.failures import STATUSES
from bertworks.service.http_app import OPERATIONS


def test_no_two_operations_share_a_path_and_a_method() -> None:
    places = [(operation.path, operation.method) for operation in OPERATIONS]
    assert len(set(places)) == len(places) > 20


def test_every_operation_names_failures_that_there_are() -> None:
    assert all(set(operation.codes) <= set(STATUSES) for operation in OPERATIONS)


def test_what_a_model_must_compute_is_known() -> None:
    asking = {operation.path for operation in OPERATIONS if operation.asks_model}
    assert {"/embed", "/v1/embeddings", "/rerank", "/tag", "/"} <= asking
    assert not asking & {"/tokenize", "/info", "/metrics", "/livez", "/readyz", "/v1/models"}


def test_what_is_posted_is_described() -> None:
    posts = [operation for operation in OPERATIONS if operation.method == "POST"]
    assert all(
        operation.request is not None and operation.answer is not None for operation in posts
    )
