"""The door: who may come in, how much they may bring, and whether it can be read."""

import asyncio
import hmac
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from bertworks.service.failures import Failure

MOST_PARTS = 1 << 16  # lists, objects and names of one body
TOKEN = r"[\w!#$%&'*+.^`|~-]++"
PARAMETER = re.compile(  # nothing in it is tried twice, however long a header is
    rf'[ \t]*+;[ \t]*+(?:({TOKEN})=({TOKEN}|"(?:[^"\\]|\\.)*+"))?+', re.ASCII
)
JSON_TYPE = re.compile(rf"application/json(?:{PARAMETER.pattern})*+", re.ASCII | re.IGNORECASE)
SHOWN = 200  # characters of another's complaint that are passed on


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one request may bring, how long it may take, and how much may be inside at once."""

    max_body: int = 4 << 20  # bytes
    max_items: int = 2048
    max_characters: int = 4 << 20  # of all inputs together
    deadline: float = 10.0  # seconds from the first byte until the inputs are begun
    max_requests: int = 1024  # inside at once
    max_bytes: int = 64 << 20  # of all bodies that are inside
    max_numbers: int = 2 << 20  # of one answer: each takes many times its bytes while written


class Keys:
    """The keys that open the service, known by their digests only."""

    def __init__(self, digests: Sequence[str]) -> None:
        self._digests = tuple(digest.lower().encode() for digest in digests)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def opens(self, authorization: str | None) -> bool:
        """Tell whether a header holds one of the keys, in a time that tells nothing.

        Clients send a key as it is; a browser asks for a password and sends that.
        """
        scheme, _, sent = (authorization or "").partition(" ")
        key = sent.encode("latin-1", "replace")  # as it was sent
        if scheme.lower() == "basic":
            key = _password(key)
        given = sha256(key).hexdigest().encode()
        found = [hmac.compare_digest(given, digest) for digest in self._digests]
        return scheme.lower() in ("bearer", "basic") and any(found)


def _password(credentials: bytes) -> bytes:
    """Return what stands behind the name, or nothing."""
    try:
        return b64decode(credentials, validate=True).partition(b":")[2]
    except ValueError:
        return b""


class Door:
    """Counts the requests that are inside, the bytes they hold and those of large answers."""

    def __init__(self, *, max_requests: int, max_bytes: int) -> None:
        self.num_requests = 0
        self.num_bytes = 0
        self.num_answer_bytes = 0  # that are being sent
        self._max_requests = max_requests
        self._max_bytes = max_bytes

    @contextmanager
    def enter(self) -> Iterator[Callable[[int], None]]:
        """Hold a place; what is yielded takes room for bytes, which is given back in the end."""
        if self.num_requests >= self._max_requests:
            raise _crowded(f"{self.num_requests} requests are being answered")
        self.num_requests += 1
        held = 0

        def take(num_bytes: int) -> None:
            nonlocal held
            if self.num_bytes + num_bytes > self._max_bytes:
                raise _crowded(f"requests of {self.num_bytes} bytes are being read")
            self.num_bytes += num_bytes
            held += num_bytes

        try:
            yield take
        finally:
            self.num_requests -= 1
            self.num_bytes -= held

    def hold(self, num_bytes: int) -> Callable[[], None]:
        """Take room for an answer, the only one or not too much; what is returned gives it back."""
        if self.num_answer_bytes and self.num_answer_bytes + num_bytes > self._max_bytes:
            raise _crowded(f"answers of {self.num_answer_bytes} bytes are being sent")
        self.num_answer_bytes += num_bytes

        def give_back() -> None:
            self.num_answer_bytes -= num_bytes

        return give_back


def _crowded(found: str) -> Failure:
    return Failure("overloaded", f"{found}, and more do not fit; ask again soon", retry_after=1)


async def read_body(
    request: Request, *, most: int, within: float, take: Callable[[int], None]
) -> bytearray:
    """Return the body of a JSON request; one too long or too slow is not read to its end."""
    require_json(request.headers)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise _too_long(most)
    body = bytearray()
    try:
        async with asyncio.timeout(within):
            async for chunk in request.stream():
                if len(body) + len(chunk) > most:
                    raise _too_long(most)
                take(len(chunk))
                body += chunk
    except TimeoutError:
        raise Failure("too_late", f"the body did not arrive within {within:g} seconds") from None
    except ClientDisconnect:
        raise Gone from None
    return body  # a copy of a long one would keep others waiting


class Gone(Exception):  # noqa: N818
    """The client hung up; nobody reads an answer."""


def _too_long(most: int) -> Failure:
    return Failure("too_large", f"the body is longer than {most} bytes; send fewer texts at once")


def require_json(headers: Headers) -> None:
    """Refuse what is not said to be JSON, or is packed."""
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise Failure(
            "wrong_content_type", f"the body is packed as {coding!r:.60}; send it unpacked"
        )
    given = headers.get("content-type", "")
    if not JSON_TYPE.fullmatch(given):
        raise Failure(
            "wrong_content_type",
            f"the content type is {given!r:.60}; send JSON with content-type: application/json",
        )
    for name, value in PARAMETER.findall(given):
        charset = value.strip('"').lower()
        if name.lower() == "charset" and charset not in ("utf-8", "utf8"):
            raise Failure("wrong_content_type", f"the charset is {charset!r:.60}; send UTF-8")


def decode(body: bytes | bytearray, decoder: "msgspec.json.Decoder[Any]") -> Any:
    """Read a body of JSON into the type of a request."""
    try:
        text = body.decode("utf-8")
        _require_few_parts(text)
        _require_strict(text)
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise Failure(
            "bad_value", f"the body is not what this route reads: {error!s:.{SHOWN}}"
        ) from None
    except UnicodeDecodeError as error:
        raise Failure(
            "bad_request", f"byte {error.start} of the body is not UTF-8; send JSON in UTF-8"
        ) from None
    except RecursionError:
        raise Failure("bad_request", "the body is nested too deeply; send plain lists") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise Failure(
            "bad_request", f"the body cannot be read as JSON: {error!s:.{SHOWN}}"
        ) from None


def _require_few_parts(text: str) -> None:
    """Refuse myriads of lists or names, which nothing else can be done beside while they are read.

    Brackets and colons inside of strings do no harm, but counting them all is quicker.
    """
    if _num_parts(text) > MOST_PARTS and _num_parts(_outside_of_strings(text)) > MOST_PARTS:
        raise Failure(
            "too_large",
            f"the body has more than {MOST_PARTS} lists, objects and names; send fewer at once",
        )


def _outside_of_strings(text: str) -> str:
    """Return what stands between the strings of JSON; a backslash stands in strings only."""
    return "".join(text.replace(r"\\", "").replace(r"\"", "").split('"')[::2])


def _num_parts(text: str) -> int:
    return sum(map(text.count, "[{:"))


def _require_strict(text: str) -> None:
    """Stop at what is no JSON, at what JSON leaves open, and at half a surrogate pair."""
    json.loads(
        text,
        object_pairs_hook=_require_once,
        parse_constant=_refuse_constant,
        parse_int=len,
        parse_float=len,
    )
    if "\\u" in text:
        require_whole_characters(text)


def require_whole_characters(text: str) -> None:
    """Stop at an escape that stands for half of a character, in JSON that is sound otherwise."""
    try:
        msgspec.json.decode(text)
    except msgspec.ValidationError:  # a number out of range
        raise
    except msgspec.DecodeError:
        raise ValueError("an escape stands for half of a surrogate pair") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _require_once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueError(f"the name {name!a:.60} stands in one object twice")
        seen.add(name)


def require_room(inputs: Sequence[Any], *, max_items: int, max_characters: int) -> None:
    """Refuse more inputs, or longer ones, than one request may bring."""
    if len(inputs) > max_items:
        raise Failure(
            "too_large",
            f"the request has {len(inputs)} inputs, but {max_items} are the most; split it",
        )
    num_characters = sum(map(_num_characters, inputs))
    if num_characters > max_characters:
        raise Failure(
            "too_large",
            f"the inputs have {num_characters} characters, but {max_characters} are the most; "
            "split the request",
        )


def require_short(num_numbers: int, *, most: int) -> None:
    """Refuse an answer that would hold more numbers than may be written at once."""
    if num_numbers > most:
        raise Failure(
            "too_large",
            f"the answer would hold {num_numbers} numbers, but {most} are the most; split the "
            "request",
        )


def _num_characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_num_characters, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_num_characters, value))
    return 0
