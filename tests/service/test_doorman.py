"""Who is turned away by the head of a request, and who is not."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from bertworks.service.admission import Keys
from bertworks.service.batcher import BatchLimits
from bertworks.service.doorman import Doorman, Ticket
from bertworks.service.metrics import Metrics
from bertworks.service.models import Models

KEY = "a key that is long enough"
HEAD = [(b"host", b"here"), (b"content-length", b"80")]


@pytest.fixture(scope="module")
def models(model_folder) -> Iterator[Models]:
    folder = str(model_folder("classify"))
    models = Models.open([f"a={folder}", f"b={folder}"], limits=BatchLimits(wait=0.5))
    for served in models:
        served.batcher._pace.add(num_tokens=1000, seconds=1.0)
    yield models
    models.stop(1.0)


@pytest.fixture
def doorman(models) -> Doorman:
    return Doorman(models, Metrics(), Keys([]), frozenset({"/embed"}))


def test_while_little_waits_everybody_is_let_in(doorman) -> None:
    assert isinstance(doorman.refusal(b"POST", b"/embed", HEAD), Ticket)
    assert sum(doorman.expected) == 14
    assert not doorman.metrics.answered


def test_who_was_let_in_counts_until_its_ticket_is_given_back(doorman) -> None:
    tickets = []
    while isinstance(found := doorman.refusal(b"POST", b"/embed", HEAD), Ticket):
        tickets.append(found)
    assert (len(tickets), found) == (36, 1)  # 504 tokens take more than half a second
    tickets[0].give_back()
    tickets[0].give_back()
    assert sum(doorman.expected) == 490
    assert isinstance(doorman.refusal(b"POST", b"/embed", HEAD), Ticket)


def test_a_refusal_is_counted_and_tells_how_long(doorman) -> None:
    for expected, seconds in ((600, 1), (3600, 4), (10**6, 60)):
        doorman.expected[1] = expected
        assert doorman.refusal(b"POST", b"/embed", HEAD) == seconds
    assert doorman.metrics.answered == {("/embed", 429): 3}
    assert 'bertworks_request_seconds_count{route="/embed"} 3' in doorman.metrics.text([])


@pytest.mark.parametrize(
    ("method", "path"), [(b"GET", b"/embed"), (b"POST", b"/tokenize"), (b"GET", b"/livez")]
)
def test_what_waits_for_no_model_is_never_refused(doorman, method: bytes, path: bytes) -> None:
    doorman.expected[1] = 10**6
    assert doorman.refusal(method, path, HEAD) is None


def test_a_large_request_may_wait_longer_than_a_small_one(doorman) -> None:
    doorman.expected[1] = 2000
    assert doorman.refusal(b"POST", b"/embed", HEAD) == 2
    assert isinstance(doorman.refusal(b"POST", b"/embed", [(b"content-length", b"800")]), Ticket)
    assert doorman.refusal(b"POST", b"/embed", [(b"transfer-encoding", b"chunked")]) is not None


def test_large_requests_that_are_being_read_keep_no_small_one_out(doorman) -> None:
    for _ in range(30):
        Ticket(doorman, 1990)
    assert isinstance(doorman.refusal(b"POST", b"/embed", HEAD), Ticket)
    assert doorman.refusal(b"POST", b"/embed", [(b"content-length", b"11994")]) == 28


def test_while_one_of_several_models_has_room_nobody_is_refused(doorman, models) -> None:
    doorman.expected[1] = 1000
    batcher = models.get("b").batcher
    pace, batcher._pace = batcher._pace, type(batcher._pace)()
    try:
        assert isinstance(doorman.refusal(b"POST", b"/embed", HEAD), Ticket)
    finally:
        batcher._pace = pace
    assert doorman.refusal(b"POST", b"/embed", HEAD) == 1


@pytest.mark.parametrize(
    ("given", "is_refused"),
    [(f"Bearer {KEY}", True), ("Bearer another that is long enough", False), (None, False)],
)
def test_who_has_no_key_is_told_that_and_not_how_much_waits(
    models, given: str | None, is_refused: bool
) -> None:
    digest = sha256(KEY.encode()).hexdigest()
    doorman = Doorman(models, Metrics(), Keys([digest]), frozenset({"/embed"}))
    doorman.expected[1] = 10**6
    headers = HEAD if given is None else [*HEAD, (b"authorization", given.encode())]
    found = doorman.refusal(b"POST", b"/embed", headers)
    assert isinstance(found, int) is is_refused


def test_while_models_are_opened_nobody_is_told_that_too_much_waits() -> None:
    opening = Models({"a": Path()}, lambda _: None)
    doorman = Doorman(opening, Metrics(), Keys([]), frozenset({"/embed"}))
    doorman.expected[0] = 10**6
    assert isinstance(doorman.refusal(b"POST", b"/embed", HEAD), Ticket)
    assert not doorman.metrics.answered
