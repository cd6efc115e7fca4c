"""Our own shapes: what they read, and what they refuse."""

import msgspec
import pytest

from bertworks.service.schemas import (
    ErrorAnswer,
    FillMaskRequest,
    GenerateRequest,
    Own,
    Problem,
    SwapRequest,
    TaskRequest,
    ZeroShotRequest,
    decoder_of,
)


def test_inputs_are_texts_pairs_and_rows() -> None:
    asked = decoder_of(TaskRequest).decode('{"inputs": ["a", ["b", "c"], {"text": "d"}]}')
    assert asked.inputs == ["a", ["b", "c"], {"text": "d"}]
    assert asked.truncate
    assert asked.model is None


@pytest.mark.parametrize("kind", Own.__subclasses__(), ids=lambda kind: kind.__name__)
def test_no_shape_of_ours_reads_a_name_it_does_not_know(kind: type) -> None:
    assert kind.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FillMaskRequest, {"inputs": ["a"], "num_candidates": 0}),
        (FillMaskRequest, {"inputs": "a"}),
        (ZeroShotRequest, {"inputs": ["a"]}),
        (ZeroShotRequest, {"inputs": ["a"], "labels": []}),
        (ZeroShotRequest, {"inputs": ["a"], "labels": ["b"], "by": "magic"}),
        (TaskRequest, {"inputs": ["a"], "threshold": 1.5}),
        (GenerateRequest, {"inputs": ["a"], "beams": 17}),
        (GenerateRequest, {"inputs": ["a"], "longest_reply": 257}),
        (GenerateRequest, {"inputs": ["a"], "temperature": 0}),
        (GenerateRequest, {"inputs": [{"source": "a"}]}),
        (SwapRequest, {"path": ""}),
    ],
)
def test_values_out_of_their_range_are_refused(kind: type, body: dict) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoder_of(kind).decode(msgspec.json.encode(body))


def test_an_error_has_the_shape_that_other_clients_read() -> None:
    written = msgspec.json.encode(ErrorAnswer(Problem("failed", "why", "server_error")))
    assert written == b'{"error":{"code":"failed","message":"why","type":"server_error"}}'
