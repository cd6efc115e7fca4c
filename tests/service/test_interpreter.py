"""Python while a service works, and afterwards."""

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bertworks.service.interpreter import SELDOM, TURN


@pytest.fixture
def own_process() -> Iterator[None]:
    """Let Python be as it comes, and afterwards as it was."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(0.005)
    gc.set_threshold(700, 10, 10)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("own_process")
def test_who_goes_on_after_a_service_finds_the_process_as_it_was(
    predictor_of: Callable[..., Any], run_service: Callable[..., Any]
) -> None:
    running = run_service(lambda _: predictor_of())
    running.wait()
    assert sys.getswitchinterval() == pytest.approx(TURN)
    assert gc.get_freeze_count() > 0
    running.close()
    assert sys.getswitchinterval() == pytest.approx(0.005)
    assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("own_process")
def test_garbage_is_looked_for_seldom_once_models_are_open(
    predictor_of: Callable[..., Any], run_service: Callable[..., Any]
) -> None:
    running = run_service(lambda _: predictor_of())
    try:
        running.wait()
        assert gc.get_threshold() == (SELDOM, 10, 10)
        assert gc.isenabled()
    finally:
        running.close()
