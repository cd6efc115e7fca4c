"""Requests that get no answer, told: every error of the service is JSON and looks alike."""

import logging
from collections.abc import Awaitable, Callable
from math import ceil

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from bertworks.core.errors import BertworksError
from bertworks.service.admission import Gone
from bertworks.service.failures import Failure
from bertworks.service.schemas import ErrorAnswer, Problem

CLIENT_GONE = 499  # nobody reads it; it is counted
logger = logging.getLogger("bertworks.service")


async def answer_or_tell(answer: Callable[[], Awaitable[Response]]) -> Response:
    """Return the answer, or why there is none."""
    try:
        return await answer()
    except Failure as failure:
        return response_of(failure)
    except (Gone, ClientDisconnect):
        return Response(status_code=CLIENT_GONE)
    except BertworksError as error:
        return response_of(Failure("bad_value", str(error)))
    except Exception:
        logger.exception("a request failed")
        return response_of(Failure("failed", "the request could not be answered; see the log"))


def response_of(failure: Failure) -> Response:
    """Return a failure as every error of the service looks."""
    kind = "invalid_request_error" if failure.status < 500 else "server_error"
    message = str(failure).encode("utf-8", "replace").decode("utf-8")
    headers = {}
    if failure.retry_after is not None:
        headers["retry-after"] = str(max(1, ceil(failure.retry_after)))
    if failure.code == "unauthorized":
        headers["www-authenticate"] = "Bearer"
    content = msgspec.json.encode(ErrorAnswer(Problem(failure.code, message, kind)))
    return Response(content, failure.status, headers, media_type="application/json")
