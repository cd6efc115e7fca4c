"""Ports: taking one, telling where it is, and whether others can reach it."""

import socket
from ipaddress import ip_address

from bertworks.core.errors import UsageError

BACKLOG = 2048  # connections that wait to be taken


def open_socket(host: str, port: int) -> socket.socket:
    """Take a port before anything else is done; one that is taken is an error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen(BACKLOG)
    except OSError as error:
        taken.close()
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another "
            "--port or --host"
        ) from error
    return taken


def address_of(taken: socket.socket) -> str:
    """Return where a socket is reached."""
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(host: str) -> bool:
    """Tell whether only this machine can reach a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"
