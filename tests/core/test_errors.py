"""Errors carry the exit code that a shell sees."""

import signal

import pytest

from bertworks.core import errors


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.BertworksError, 1),
        (errors.DataError, 1),
        (errors.ArtifactError, 1),
        (errors.MissingPackageError, 1),
        (errors.TrainingError, 1),
        (errors.UsageError, 2),
    ],
)
def test_bad_use_exits_with_two_and_failure_with_one(
    kind: type[errors.BertworksError], code: int
) -> None:
    assert kind("what, where and how").exit_code == code
    assert issubclass(kind, errors.BertworksError)


def test_what_was_found_travels_with_the_error() -> None:
    found = errors.FoundError("one error", result={"findings": []})
    assert (found.exit_code, str(found), found.result) == (1, "one error", {"findings": []})
    assert isinstance(found, errors.DataError)


def test_an_interrupted_run_exits_as_shells_expect() -> None:
    stopped = errors.InterruptedRunError("saved", signal_number=signal.SIGTERM)
    assert (stopped.exit_code, str(stopped)) == (143, "saved")
    assert errors.InterruptedRunError("saved", signal_number=signal.SIGINT).exit_code == 130
