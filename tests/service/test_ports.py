"""Ports: one of one's own, known before anything else is done."""

import socket
from contextlib import closing

import pytest

from bertworks.core.errors import UsageError
from bertworks.service.ports import address_of, is_local, open_socket


def test_a_free_port_is_taken_and_told() -> None:
    with closing(open_socket("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert address_of(taken) == f"http://127.0.0.1:{port}"
        with closing(socket.create_connection(("127.0.0.1", port))):
            pass


def test_a_port_that_is_taken_is_refused_in_a_sentence() -> None:
    with closing(open_socket("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"cannot listen on 127.0.0.1 port {port}: .*; choo"):
            open_socket("127.0.0.1", port)
    open_socket("127.0.0.1", port).close()


def test_a_host_that_is_not_here_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.7 port 0"):
        open_socket("192.0.2.7", 0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.4", False),
        ("localhost.example", False),
    ],
)
def test_only_this_machine_reaches_local_hosts(host: str, expected: bool) -> None:
    assert is_local(host) is expected
