"""What clients are told when they get no answer."""

from bertworks.core.errors import BertworksError
from bertworks.service.failures import STATUSES, Failure


def test_a_failure_has_the_status_of_its_code_and_says_when_to_come_again() -> None:
    found = Failure("overloaded", "there is too much to do; come again later", retry_after=2.5)
    assert (found.status, found.code, found.retry_after) == (429, "overloaded", 2.5)
    assert isinstance(found, BertworksError)
    assert "too much to do" in str(found)


def test_every_code_stands_for_an_error() -> None:
    assert all(400 <= status < 600 for status in STATUSES.values())
