"""Turns in the loop: a few at a time, in order, and others in between."""

import asyncio

import pytest

from bertworks.service.turns import Turns, turns_of


def test_others_come_in_between_and_nobody_is_overtaken() -> None:
    async def work() -> list[str]:
        seen, turns = [], Turns(at_once=2)
        for number in range(5):
            turns.add(lambda number=number: seen.append(str(number)))

        def other(left: int) -> None:
            seen.append("other")
            if left:
                asyncio.get_running_loop().call_soon(other, left - 1)

        asyncio.get_running_loop().call_soon(other, 2)
        while len(seen) < 8:
            await asyncio.sleep(0)
        return seen

    seen = asyncio.run(work())
    assert seen == ["0", "1", "other", "2", "3", "other", "4", "other"]


def test_what_is_added_by_a_turn_has_one_of_its_own() -> None:
    async def work() -> list[str]:
        seen, turns = [], Turns(at_once=8)

        def first() -> None:
            seen.append("first")
            turns.add(lambda: seen.append("second"))

        turns.add(first)
        await asyncio.sleep(0)
        seen.append("other")
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(work()) == ["first", "other", "second"]


def test_one_that_fails_keeps_nobody_from_his_turn() -> None:
    async def work() -> tuple[list[str], list[str]]:
        seen, told, turns = [], [], Turns(at_once=2)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))

        def fail() -> None:
            raise RuntimeError("no turn")

        turns.add(fail)
        for name in ("a", "b", "c"):
            turns.add(lambda name=name: seen.append(name))
        for _ in range(4):
            await asyncio.sleep(0)
        return seen, told

    assert asyncio.run(work()) == (["a", "b", "c"], ["no turn"])


def test_each_loop_has_turns_of_its_own() -> None:
    async def work() -> Turns:
        loop = asyncio.get_running_loop()
        assert turns_of(loop) is turns_of(loop)
        return turns_of(loop)

    assert asyncio.run(work()) is not asyncio.run(work())


def test_turns_are_for_a_loop() -> None:
    with pytest.raises(RuntimeError):
        Turns().add(lambda: None)
