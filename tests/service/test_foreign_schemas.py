"""The shapes of other servers: names that we do not know do no harm."""

import inspect

import msgspec
import pytest

from bertworks.service import foreign_schemas
from bertworks.service.foreign_schemas import (
    EmbedRequest,
    OpenAIRequest,
    PipelineRequest,
    PredictRequest,
    Rank,
    RerankDocumentsRequest,
)

KINDS = [
    kind
    for _, kind in inspect.getmembers(foreign_schemas, inspect.isclass)
    if issubclass(kind, msgspec.Struct) and kind.__name__.endswith("Request")
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_names_that_other_clients_may_send_are_passed_over(kind: type) -> None:
    assert not kind.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (OpenAIRequest, {"input": "a", "model": "m", "user": "me", "encoding_format": "base64"}),
        (EmbedRequest, {"inputs": ["a"], "truncation_direction": "Right", "new": 1}),
        (PredictRequest, {"inputs": [["a", "b"], ["c"]]}),
        (RerankDocumentsRequest, {"query": "q", "documents": ["a", {"text": "b", "id": 3}]}),
        (PipelineRequest, {"inputs": {"question": "q", "context": "c"}, "parameters": {}}),
    ],
)
def test_documented_requests_are_read(kind: type, body: dict) -> None:
    asked = msgspec.convert(body, kind)
    assert asked == msgspec.json.decode(msgspec.json.encode(body), type=kind)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (OpenAIRequest, {"input": [1.5, {}]}),
        (OpenAIRequest, {"input": "a", "encoding_format": "hex"}),
        (EmbedRequest, {"inputs": "a", "truncation_direction": "Left"}),
        (PredictRequest, {"inputs": [["a", "b", "c"]]}),
        (RerankDocumentsRequest, {"query": "q", "documents": ["a"], "top_n": 0}),
    ],
)
def test_what_cannot_be_done_is_refused(kind: type, body: dict) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, kind)


def test_what_was_not_asked_for_is_not_written() -> None:
    assert msgspec.json.encode(Rank(1, 0.5)) == b'{"index":1,"score":0.5}'
