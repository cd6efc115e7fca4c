"""Large answers hold their room until they are read."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bertworks.service.admission import Door
from bertworks.service.delivery import PART, Delivery, deliver
from bertworks.service.failures import Failure

SCOPE = {"type": "http"}


async def never() -> Any:
    await asyncio.sleep(20)


def send_all(response: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    asyncio.run(response(SCOPE, never, send))


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 3 * PART, 3 * PART + 7])
def test_an_answer_arrives_whole(size: int) -> None:
    content, sent = (bytes(range(251)) * (size // 251 + 1))[:size], list[Any]()
    door = Door(max_requests=1, max_bytes=1)

    async def send(message: Any) -> None:
        sent.append(message)

    send_all(deliver(content, door, {"x-truncated": "0"}), send)
    start, *parts = sent
    assert start["status"] == 200
    assert (b"content-length", str(size).encode()) in start["headers"]
    assert {(b"content-type", b"application/json"), (b"x-truncated", b"0")} <= set(start["headers"])
    assert b"".join(bytes(part["body"]) for part in parts) == content
    assert [part.get("more_body", False) for part in parts] == [True] * (len(parts) - 1) + [False]
    assert door.num_answer_bytes == 0


def test_what_is_not_read_yet_keeps_other_large_answers_back() -> None:
    door = Door(max_requests=9, max_bytes=5 * PART)
    held: list[int] = []

    async def send(message: Any) -> None:
        held.append(door.num_answer_bytes)
        with pytest.raises(Failure, match=r"answers of \d+ bytes are being sent") as refused:
            deliver(bytes(3 * PART), door)
        assert (refused.value.code, refused.value.retry_after) == ("overloaded", 1)
        assert not isinstance(deliver(bytes(PART), door), Delivery)

    send_all(deliver(bytes(4 * PART), door), send)
    assert held == [4 * PART] * 5
    assert door.num_answer_bytes == 0
    deliver(bytes(9 * PART), door)  # the only one, however large


def test_a_client_that_breaks_off_gives_its_room_back() -> None:
    door = Door(max_requests=9, max_bytes=5 * PART)

    async def send(message: Any) -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011
        send_all(deliver(bytes(4 * PART), door), send)
    assert door.num_answer_bytes == 0
