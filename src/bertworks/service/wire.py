"""What is read and written as bytes, past the router: offers, refusals."""

import re
from functools import cache
from http import HTTPStatus

from starlette.responses import Response

from bertworks.service.doorman import refused
from bertworks.service.guards import SAFE_HEADERS
from bertworks.service.refusals import response_of

OFFER = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
PART_OF_OFFER = 9  # bytes at the most


def without_offer(data: bytes, *, before: bytes = b"") -> bytes:
    """Rename the offer of another protocol, or the parser takes the body for words of that.

    Before the data, the parser may have read the beginning of the name already.
    """
    seen = before + data
    end = seen.find(b"\r\n\r\n")
    found = OFFER.search(seen, 0, len(seen) if end < 0 else end)
    if found is None:
        return data
    place = max(found.start() + 2 - len(before), 0)  # in the name, not in the end of the line
    return data[:place] + b"x-" + data[place:]


def as_bytes(response: Response, *, is_last: bool = True) -> bytes:
    """Return the bytes of a response, after which the connection may go on or not."""
    headers = {**SAFE_HEADERS, **response.headers, **({"connection": "close"} if is_last else {})}
    status = f"{response.status_code} {HTTPStatus(response.status_code).phrase}"
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + bytes(response.body)


@cache
def refusal_bytes(seconds: int, *, is_last: bool) -> bytes:
    """Return what is written to those who are turned away at the door."""
    return as_bytes(response_of(refused(seconds)), is_last=is_last)
