"""Memory that was freed goes back now and then, not always."""

import pytest

from bertworks.service import freed_memory
from bertworks.service.freed_memory import Housekeeping


def test_it_is_given_back_no_more_often_than_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now, given = [100.0], list[float]()
    monkeypatch.setattr(freed_memory.time, "monotonic", lambda: now[0])
    keeping = Housekeeping(lambda: given.append(now[0]), every=1.0)
    for moment in (100.2, 100.9, 101.0, 101.5, 102.1, 105.0):
        now[0] = moment
        keeping.look()
    assert given == [101.0, 102.1, 105.0]
