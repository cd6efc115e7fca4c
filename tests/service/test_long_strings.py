"""Strings far longer than what is read of any: only their beginnings are kept, nothing else."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.service import long_strings
from bertworks.service.admission import decode
from bertworks.service.failures import Failure
from bertworks.service.long_strings import without_ends

ANY = msgspec.json.Decoder()
ODD = st.sampled_from(
    [
        "a",
        '"',
        "\\",
        "\\\\",
        '\\"',
        "é",
        "北",
        "\U0001f469\u200d",
        "\n",
        "\x00",
        "/",
        "u",
        "\\ud83d",
    ]
)
STRINGS = st.lists(ODD, max_size=90).map("".join)
BODIES = st.recursive(
    st.none() | st.integers(0, 9) | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=9,
)


@pytest.fixture
def tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in parts that are torn everywhere."""
    monkeypatch.setattr(long_strings, "PART", 13)


def shortened(value: Any, *, kept: int) -> bytes:
    return bytes(without_ends(bytearray(json.dumps(value).encode()), kept=kept))


def require_beginning(short: Any, whole: Any, *, kept: int) -> None:
    """Require that only the ends of strings are missing, and only of those that are long."""
    assert type(short) is type(whole)
    if isinstance(whole, str):
        assert whole.startswith(short)
        assert short == whole or kept <= len(short) <= kept + 13
    elif isinstance(whole, list):
        assert len(short) == len(whole)
        for one, other in zip(short, whole, strict=True):
            require_beginning(one, other, kept=kept)
    elif isinstance(whole, dict):
        require_beginning(list(short), list(whole), kept=kept)
        require_beginning(list(short.values()), list(whole.values()), kept=kept)
    else:
        assert short == whole


@pytest.mark.usefixtures("tiny_parts")
@pytest.mark.parametrize("is_ascii", [True, False])
def test_all_but_the_ends_of_long_strings_stays(is_ascii: bool) -> None:
    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(BODIES)
    def look(value: Any) -> None:
        body = json.dumps(value, ensure_ascii=is_ascii).encode()
        found = bytes(without_ends(bytearray(body), kept=20))
        assert len(found) <= len(body)
        pairs = json.loads(found, object_pairs_hook=list)
        whole = json.loads(body, object_pairs_hook=list)
        require_beginning(_lists(pairs), _lists(whole), kept=20)

    look()


def _lists(value: Any) -> Any:
    return [_lists(one) for one in value] if isinstance(value, list | tuple) else value


def test_parts_of_any_size_tear_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '\\u\\\\"\U0001f469é\n\\ud83d' * 9
    for size in range(13, 60):
        monkeypatch.setattr(long_strings, "PART", size)
        for is_ascii in (True, False):
            body = bytearray(json.dumps([text, "b"], ensure_ascii=is_ascii).encode())
            found, rest = json.loads(without_ends(body, kept=10))
            assert text.startswith(found)
            assert 10 <= len(found) < 10 + size
            assert rest == "b"


def test_what_is_short_is_not_even_copied() -> None:
    body = bytearray(b'{"inputs": "a cat"}')
    assert without_ends(body, kept=len(body)) is body
    assert without_ends(body, kept=7) is body


def test_a_string_of_the_length_that_is_kept_may_lose_nothing() -> None:
    assert shortened(["ab" * 50], kept=100) == json.dumps(["ab" * 50]).encode()


def test_myriads_of_strings_are_not_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_strings, "MOST_STRINGS", 3)
    monkeypatch.setattr(long_strings, "PART", 10)
    strings = ["a", "b" * 99, "c", "d" * 99]
    assert json.loads(shortened(strings, kept=20)) == ["a", "b" * 20, "c", "d" * 99]


LONG = b'{"inputs": "' + b"a" * 99
UNREADABLE = {
    "no end": LONG,
    "an end in an escape": LONG + b"\\",
    "an end in a long escape": LONG + b"\\u00",
    "an unknown escape": LONG + b'\\x"}',
    "an escape that is no number": LONG + b'\\u00g0"}',
    "a line end": LONG + b'\n"}',
    "a NUL": LONG + b'\x00"}',
    "half a pair": LONG + b'\\ud83d"}',
    "two first halves": LONG + b'\\ud83d\\ud83d"}',
    "a second half": LONG + b'\\udc69 "}',
    "a lone byte": LONG + b'\xff"}',
    "half a letter": LONG + b'\xe5\x8c"}',
    "half a letter at the end": LONG + b"\xe5\x8c",
    "a surrogate in UTF-8": LONG + b'\xed\xa0\x80"}',
}


@pytest.mark.usefixtures("tiny_parts")
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_string_is_refused_as_in_short_bodies(body: bytes) -> None:
    codes = []
    for read in (lambda: decode(body, ANY), lambda: without_ends(bytearray(body), kept=20)):
        with pytest.raises(Failure) as caught:
            read()
        codes.append(caught.value.code)
    assert codes == ["bad_request"] * 2


@pytest.mark.usefixtures("tiny_parts")
@pytest.mark.parametrize("name", ["half a pair", "two first halves", "a second half"])
def test_half_a_character_is_called_so(name: str) -> None:
    body = UNREADABLE[name]
    for read in (lambda: decode(body, ANY), lambda: without_ends(bytearray(body), kept=20)):
        with pytest.raises(Failure, match="as JSON: an escape stands for half of a surrogate pair"):
            read()


@pytest.mark.usefixtures("tiny_parts")
def test_the_place_of_what_is_no_utf_8_is_told() -> None:
    with pytest.raises(Failure, match=rf"byte {len(LONG)} of the body is not UTF-8"):
        without_ends(bytearray(UNREADABLE["a lone byte"]), kept=20)
    with pytest.raises(Failure, match=r"cannot be read as JSON: .*, in or behind byte 1\d\d$"):
        without_ends(bytearray(UNREADABLE["an unknown escape"]), kept=20)
