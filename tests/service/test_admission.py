"""Who may come in, how much they may bring, and what can be read."""

import json
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import Decoder
from starlette.datastructures import Headers

from bertworks.service.admission import (
    Door,
    Keys,
    _outside_of_strings,
    decode,
    require_json,
    require_room,
    require_short,
)
from bertworks.service.failures import Failure
from bertworks.service.schemas import TaskRequest

DECODER = Decoder(TaskRequest)
DEEP = b"[" * 10_000 + b"]" * 10_000
UNREADABLE = {
    "twice": b'{"inputs": ["a"], "inputs": ["b"]}',
    "twice inside": b'{"inputs": [{"text": "a", "text": "b"}]}',
    "twice by another spelling": b'{"inputs": ["a"], "\\u0069nputs": ["b"]}',
    "no number": b'{"inputs": [{"text": NaN}]}',
    "no end": b'{"inputs": [{"text": Infinity}]}',
    "deep": b'{"inputs": ' + DEEP + b"}",
    "deep elsewhere": b'{"inputs": ["a"], "x": ' + DEEP + b"}",
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "half a pair": b'{"inputs": ["\\ud800"]}',
    "half a pair as a name": b'{"\\udc00": 1, "inputs": ["a"]}',
    "half a pair in bytes": b'{"inputs": ["\xed\xa0\x80"]}',
    "mark of byte order": b'\xef\xbb\xbf{"inputs": ["a"]}',
    "UTF-16": '{"inputs": ["a"]}'.encode("utf-16"),
    "UTF-32": '{"inputs": ["a"]}'.encode("utf-32"),
    "no UTF-8": b'{"inputs": ["\xff"]}',
    "zero byte": b'{"inputs": ["a\x00"]}',
    "nothing": b"",
    "cut off": b'{"inputs": ["a"',
    "more behind": b'{"inputs": ["a"]} {}',
}
SENSELESS = {
    "list": b'["a"]',
    "null": b"null",
    "no inputs": b"{}",
    "no item": b'{"inputs": []}',
    "a number": b'{"inputs": [3]}',
    "a huge number": b'{"inputs": ["a"], "top_k": ' + b"9" * 10_000 + b"}",
    "another huge number": b'{"inputs": ["a"], "top_k": 99999999999999999999}',
    "too large a fraction": b'{"inputs": ["a"], "threshold": 1e999}',
    "unknown": b'{"inputs": ["a"], "inptus": ["a"]}',
    "yes as text": b'{"inputs": ["a"], "truncate": "true"}',
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_a_bad_request(name: str) -> None:
    with pytest.raises(Failure) as failed:
        decode(UNREADABLE[name], DECODER)
    assert failed.value.code == "bad_request"
    assert len(str(failed.value)) < 300


@pytest.mark.parametrize("name", SENSELESS)
def test_what_makes_no_sense_is_a_bad_value(name: str) -> None:
    with pytest.raises(Failure) as failed:
        decode(SENSELESS[name], DECODER)
    assert failed.value.code == "bad_value"


def test_what_is_well_written_is_read() -> None:
    body = '{"inputs": ["ä", "\\ud83d\\ude00", "\\u0000"], "top_k": 3}'
    asked = decode(body.encode(), DECODER)
    assert asked.inputs == ["ä", "\U0001f600", "\x00"]


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_fail(body: bytes) -> None:
    with pytest.raises(Failure):
        decode(body, DECODER)


@given(st.integers(0, 44), st.integers(0, 255))
def test_a_damaged_body_is_read_or_refused(place: int, byte: int) -> None:
    body = bytearray(b'{"inputs": ["a", {"text": "b"}], "top_k": 17}')
    body[place] = byte
    with suppress(Failure):
        assert decode(bytes(body), DECODER).inputs


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": ""},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json; x=y; charset=latin-1"},
        {"content-type": "application/json; charset"},
        {"content-type": 'application/json; x="never closed'},
        {"content-type": "application/jsonx"},
        {"content-type": "application/json text/plain"},
        {"content-type": "application/json" + "; " * 30_000 + "x"},  # quickly, too
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": "application/json", "content-encoding": "identity, br"},
    ],
)
def test_what_is_not_plain_json_is_refused(headers: dict) -> None:
    with pytest.raises(Failure) as failed:
        require_json(Headers(headers))
    assert failed.value.code == "wrong_content_type"


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON; charset=UTF-8",
        'application/json;charset="utf-8"',
        "application/json; charset=utf-8; x=y",
        "application/json ; profile=a\t;CHARSET=utf-8 ;",
        'application/json; x="a quoted \\" one; charset=latin-1"',
    ],
)
def test_json_is_let_in(kind: str) -> None:
    require_json(Headers({"content-type": kind}))


def test_keys_are_known_by_their_digests() -> None:
    keys = Keys([sha256(b"one").hexdigest(), sha256(b"two").hexdigest().upper()])
    assert keys.opens("Bearer one")
    assert keys.opens("bearer two")
    assert keys.opens("Basic " + b64encode(b"name:one").decode())
    assert not keys.opens("Basic " + b64encode(b"one:name").decode())
    assert not keys.opens("Basic !")
    wrong = ["one", "Bearer One", "Bearer  one", "Bearer one ", "Basic one", "Bearer", "", None]
    assert not [header for header in wrong if keys.opens(header)]
    assert not keys.opens(f"Bearer {sha256(b'one').hexdigest()}")


def test_a_key_is_the_bytes_that_were_sent() -> None:
    keys = Keys([sha256("schlüssel".encode()).hexdigest()])
    assert keys.opens(f"Bearer {'schlüssel'.encode().decode('latin-1')}")
    assert not keys.opens("Bearer schlüssel")
    assert not keys.opens("Bearer 钥匙")


def test_no_key_opens_where_there_are_none() -> None:
    assert not Keys([])
    assert not Keys([]).opens("Bearer ")


def test_a_full_door_stays_shut_and_opens_again() -> None:
    door = Door(max_requests=2, max_bytes=10)
    with door.enter() as take, door.enter():
        take(7)
        with pytest.raises(Failure) as crowded, door.enter():
            pass
        with pytest.raises(Failure) as heavy:
            take(4)
    assert crowded.value.code == heavy.value.code == "overloaded"
    assert crowded.value.retry_after
    assert (door.num_requests, door.num_bytes) == (0, 0)


def test_an_answer_holds_no_more_than_can_be_written() -> None:
    require_short(9, most=9)
    with pytest.raises(Failure, match="10 numbers, but 9 are the most") as failed:
        require_short(10, most=9)
    assert failed.value.code == "too_large"


def test_a_request_brings_no_more_than_it_may() -> None:
    inputs = ["abc", ("de", "f"), {"text": "gh", "choices": ["i", 5]}]
    require_room(inputs, max_items=3, max_characters=9)
    with pytest.raises(Failure, match="3 inputs, but 2 are the most") as many:
        require_room(inputs, max_items=2, max_characters=9)
    with pytest.raises(Failure, match="9 characters, but 8 are the most") as long:
        require_room(inputs, max_items=3, max_characters=8)
    assert many.value.status == long.value.status == 413


@pytest.mark.parametrize("part", [b"[],", b"{},", b'{"a": 1},'])
def test_myriads_of_parts_are_refused_before_they_are_made(part: bytes) -> None:
    with pytest.raises(Failure, match="more than 65536 lists, objects and names") as failed:
        decode(b'{"inputs": [' + part * 70_000 + b'"a"]}', DECODER)
    assert failed.value.code == "too_large"


@given(texts=st.lists(st.text('"\\\\[{:a,')))
def test_what_stands_outside_of_strings_is_found(texts: list[str]) -> None:
    without = json.dumps({"inputs": ["" for _ in texts]}).replace('"inputs"', "").replace('""', "")
    assert _outside_of_strings(json.dumps({"inputs": texts})) == without


@pytest.mark.parametrize("text", ["[{:", '\\"[{:', "\\\\[{: "])
def test_a_text_may_be_full_of_brackets(text: str) -> None:
    body = json.dumps({"inputs": [text * 30_000, "]}"]}).encode()
    assert decode(body, DECODER).inputs == [text * 30_000, "]}"]
