"""Processes that work together: they agree on everything, and none waits for ever for another."""

import os
import signal
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from bertworks.core import crew as module
from bertworks.core.crew import Crew, joined
from bertworks.core.errors import FoundError, InterruptedRunError, UsageError
from bertworks.core.progress import progress, say

SHAPES = ((3, 5), (7,), (2, 1, 3), (1,))


def draw(rank: int) -> list[Tensor]:
    """Draw other tensors for each process, one of them empty."""
    random = torch.Generator().manual_seed(5 + rank)
    drawn = [torch.randn(shape, generator=random) for shape in SHAPES]
    return [*drawn, torch.empty(0, 4)]


def talk(crew: Crew) -> list[Any]:
    aside = crew.aside()
    return [
        crew.sum([1.5, 10.0**crew.rank]),
        crew.largest(-7.0 + crew.rank % 2),
        crew.agree(f"from {crew.rank}"),
        aside.gather({"rank": crew.rank}),
        crew.lead(lambda: os.getpid()) == os.getpid(),
        crew.own(2),
    ]


def tell_what_is_no_json(crew: Crew) -> list[Any]:
    class Trap:
        def __reduce__(self) -> Any:
            return (os._exit, (7,))

    try:
        return crew.gather(Trap())  # type: ignore[list-item]
    except TypeError as error:
        return [str(error)]


def add_up(crew: Crew) -> list[Any]:
    module.BUCKET = 11
    tensors = draw(crew.rank)
    crew.add_up(tensors)
    return [tensor.tolist() for tensor in tensors]


def refuse(crew: Crew) -> None:
    def fail() -> None:
        raise UsageError("this cannot be meant")

    crew.lead(fail)


def fail_in_other_ways(crew: Crew) -> list[Any]:
    def fail(error: Exception) -> None:
        raise error

    found = []
    for error in (
        PermissionError(13, "Permission denied", "runs/a"),
        FoundError("nothing fits", result={"rows": 0}),
        InterruptedRunError("it was ended", signal_number=15),
    ):
        try:
            crew.lead(lambda error=error: fail(error))
        except Exception as told:
            found.append([type(told).__name__, str(told), getattr(told, "exit_code", None)])
    return [*found, crew.sum([1.0])]


def speak(crew: Crew) -> None:
    say(f"process {crew.rank} says")
    say(f"process {crew.rank} complains", is_error=True)
    with progress("working", total=3, unit="steps") as meter:
        meter.advance(3)


def lose(crew: Crew) -> float:
    crew.sum([1.0])
    if crew.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return crew.sum([1.0])[0]


def fail_alone(crew: Crew) -> float:
    if crew.rank == 1:
        raise UsageError("only here")
    return crew.sum([1.0])[0]


def err(crew: Crew) -> None:
    raise RuntimeError("a mistake of ours")


def stick(crew: Crew) -> None:
    if crew.rank == 1:
        time.sleep(5)
        os._exit(3)
    with crew.in_time():
        time.sleep(60)


def test_one_alone_needs_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with joined() as crew:
        told = talk(crew)
    assert told == [[1.5, 1.0], -7.0, "from 0", [{"rank": 0}], True, [0, 1]]
    assert not torch.distributed.is_initialized()
    tensors = draw(0)
    crew.add_up(tensors)
    assert all(map(torch.equal, tensors, draw(0)))
    with pytest.raises(UsageError, match="cannot be meant"):
        refuse(crew)


def test_all_hear_the_same(crews: Any) -> None:
    members = crews.run(talk, size=3)
    assert [member.code for member in members] == [0, 0, 0], members
    ranks = [{"rank": rank} for rank in range(3)]
    for rank, member in enumerate(members):
        told = [[4.5, 111.0], -6.0, "from 0", ranks, rank == 0, [rank, rank + 3]]
        assert member.result == told


def test_tensors_are_summed_whatever_their_shapes(crews: Any) -> None:
    first, second = (member.result for member in crews.run(add_up, size=2))
    assert first == second
    for summed, a, b in zip(first, draw(0), draw(1), strict=True):
        assert torch.equal(torch.tensor(summed).view_as(a), a + b)


def test_the_error_of_the_first_is_that_of_all(crews: Any) -> None:
    members = crews.run(refuse, size=2)
    assert [member.result for member in members] == [
        "UsageError: this cannot be meant",
        "BertworksError: this cannot be meant",
    ]


def test_whatever_fails_in_the_first_is_told_to_all(crews: Any) -> None:
    first, second = (member.result for member in crews.run(fail_in_other_ways, size=2))
    denied = "[Errno 13] Permission denied: 'runs/a'"
    assert first == [
        ["PermissionError", denied, None],
        ["FoundError", "nothing fits", 1],
        ["InterruptedRunError", "it was ended", 143],
        [2.0],
    ]
    told = f"process 0 failed (PermissionError: {denied}); see what it said"
    assert second == [
        ["BertworksError", told, 1],
        ["BertworksError", "nothing fits", 1],
        ["BertworksError", "it was ended", 143],
        [2.0],
    ]


def test_only_the_first_tells_how_it_goes_but_each_tells_its_errors(crews: Any) -> None:
    first, second = (member.said.splitlines() for member in crews.run(speak, size=2))
    assert first[:2] == ["process 0 says", "process 0 complains"]
    assert first[2].startswith("working: 3/3 steps")
    assert second == ["process 1 complains"]


def test_a_killed_process_ends_the_others_with_one_sentence(crews: Any) -> None:
    members = crews.run(lose, size=3)
    assert members[1].code == -signal.SIGKILL
    for rank in (0, 2):
        told = members[rank].result
        assert told.startswith(f"TrainingError: process {rank} of 3 cannot reach the others (")
        assert told.endswith("then start all again with --resume auto")
        assert "\n" not in told
        assert ".cc" not in told


def test_an_error_in_one_process_ends_the_others(crews: Any) -> None:
    first, second = crews.run(fail_alone, size=2)
    assert second.result == "UsageError: only here"
    assert "one of them is lost or stuck" in first.result


def test_a_mistake_is_not_taken_for_a_lost_process(crews: Any) -> None:
    for member in crews.run(err, size=2):
        assert member.code == 70
        assert "RuntimeError: a mistake of ours" in member.said


def test_a_stuck_process_is_not_waited_for_longer_than_patience_lasts(crews: Any) -> None:
    first, second = crews.run(stick, size=2, patience=3)
    assert (first.code, second.code) == (1, 3)
    assert first.said.startswith("bertworks: process 0 of 2 has waited 3 s for the others, so one")


def test_what_processes_tell_each_other_is_json_and_never_unpickled(crews: Any) -> None:
    members = crews.run(tell_what_is_no_json, size=2)
    assert all("not JSON serializable" in member.result[0] for member in members)
