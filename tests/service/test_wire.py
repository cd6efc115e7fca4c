"""What is read and written as bytes, past the router."""

import json

import pytest

from bertworks.service.failures import Failure
from bertworks.service.refusals import response_of
from bertworks.service.wire import PART_OF_OFFER, as_bytes, refusal_bytes, without_offer

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize("name", [b"Upgrade", b"upgrade", b"UPGRADE"])
def test_an_offer_of_another_protocol_is_renamed(name: bytes) -> None:
    sent = HEAD + name + b": h2c\r\n\r\nbody"
    assert without_offer(sent) == HEAD + b"x-" + name + b": h2c\r\n\r\nbody"


@pytest.mark.parametrize("place", range(len(HEAD) - 9, len(HEAD) + 12))
def test_an_offer_that_comes_in_two_parts_is_renamed_once(place: int) -> None:
    sent = HEAD + b"Upgrade: h2c\r\n\r\n\r\nUpgrade: body"
    first = without_offer(sent[:place])
    whole = first + without_offer(sent[place:], before=sent[:place][-PART_OF_OFFER:])
    name, _, rest = whole[len(HEAD) :].partition(b": ")
    assert whole.startswith(HEAD)
    assert name.replace(b"x-", b"", 1) == b"Upgrade"
    assert name != b"Upgrade"
    assert rest == b"h2c\r\n\r\n\r\nUpgrade: body"


@pytest.mark.parametrize(
    "sent",
    [HEAD + b"\r\n", HEAD + b"\r\na\r\nUpgrade: b", HEAD + b"X-Upgrade: a\r\n\r\n", b"", b"\r\n"],
)
def test_what_is_no_offer_stays_as_it_is_and_so_does_a_body(sent: bytes) -> None:
    assert without_offer(sent) == sent


@pytest.mark.parametrize("is_last", [True, False])
def test_a_response_is_written_with_the_headers_of_all_others(is_last: bool) -> None:
    written = as_bytes(response_of(Failure("bad_request", "no é")), is_last=is_last)
    head, _, body = written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"\r\nx-content-type-options: nosniff" in head
    assert b"\r\ncontent-length: %d" % len(body) in head
    assert (b"\r\nconnection: close" in head) is is_last
    assert json.loads(body)["error"]["message"] == "no é"


def test_who_is_turned_away_is_told_when_to_come_again() -> None:
    head, _, body = refusal_bytes(7, is_last=False).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"\r\nretry-after: 7" in head
    assert json.loads(body)["error"]["code"] == "overloaded"
    assert b"\r\nconnection: close" in refusal_bytes(7, is_last=True)
