"""Refusals: whatever goes wrong, it is told as JSON of one shape."""

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from bertworks.core.errors import DataError
from bertworks.service.admission import Gone
from bertworks.service.failures import STATUSES, Failure
from bertworks.service.refusals import CLIENT_GONE, answer_or_tell, response_of


def told_of(error: Exception) -> Response:
    """Return what is told when an answer ends in an error."""

    async def fail() -> Any:
        raise error

    return asyncio.run(answer_or_tell(fail))


@pytest.mark.parametrize("code", STATUSES)
def test_every_failure_is_json_with_its_code_and_status(code: str) -> None:
    response = told_of(Failure(code, "a sentence"))
    kind = "invalid_request_error" if STATUSES[code] < 500 else "server_error"
    assert response.status_code == STATUSES[code]
    assert json.loads(bytes(response.body)) == {
        "error": {"code": code, "message": "a sentence", "type": kind}
    }


def test_a_failure_can_always_be_written() -> None:
    response = response_of(Failure("overloaded", "half \ud800 a pair", retry_after=0.2))
    assert json.loads(bytes(response.body))["error"]["message"] == "half ? a pair"
    assert response.headers["retry-after"] == "1"


@pytest.mark.parametrize("error", [Gone(), ClientDisconnect()])
def test_nobody_is_told_when_the_client_has_gone(error: Exception) -> None:
    assert (told_of(error).status_code, bytes(told_of(error).body)) == (CLIENT_GONE, b"")


def test_bad_data_is_the_clients_and_a_surprise_is_ours(caplog) -> None:
    assert told_of(DataError("text 3 is no text")).status_code == 422
    surprise = told_of(RuntimeError("a secret"))
    assert json.loads(bytes(surprise.body))["error"]["code"] == "failed"
    assert b"secret" not in bytes(surprise.body)
    assert "secret" in caplog.text
