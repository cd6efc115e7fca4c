"""Signals wait for the end of the step at hand."""

import os
import signal
import threading

import pytest

from bertworks.training.signals import heeded_signals

pytestmark = pytest.mark.usefixtures("hears_signals")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_collected_and_the_handler_before_comes_back(number: int) -> None:
    before = signal.getsignal(number)
    with heeded_signals() as received:
        assert received == []
        os.kill(os.getpid(), number)
        assert received == [number]
    assert signal.getsignal(number) is before


def test_the_handler_comes_back_after_an_error_too() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyError), heeded_signals():
        raise KeyError
    assert signal.getsignal(signal.SIGTERM) is before


def test_nested_work_leaves_signals_to_what_surrounds_it() -> None:
    with heeded_signals() as outer, heeded_signals(is_nested=True) as inner:
        os.kill(os.getpid(), signal.SIGTERM)
        assert (outer, inner) == ([signal.SIGTERM], [])


def test_a_thread_collects_none_and_does_not_fail() -> None:
    found: list[list[int]] = []

    def work() -> None:
        with heeded_signals() as received:
            found.append(received)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[]]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with heeded_signals() as received:
            os.kill(os.getpid(), signal.SIGHUP)
            assert received == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
