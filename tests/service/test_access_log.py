"""A line for every request, which tells nothing of what stands in it."""

import re

import pytest

from bertworks.service.access_log import line_of

LINE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ (\S+) (\S+) (\d+) \d+\.\d ms"


def test_every_request_is_said_with_how_it_ended(make_client, capfd) -> None:
    client = make_client(access_log=True, hosts=("localhost",))
    client.post("/embed", json={"inputs": "private"}, headers={"host": "localhost"})
    client.get("/no%0Athing?q=private", headers={"host": "localhost"})
    client.get("/info", headers={"authorization": "Bearer private"})
    lines = capfd.readouterr().err.splitlines()
    found = [found.groups() for line in lines if (found := re.fullmatch(LINE, line))]
    assert found == [
        ("POST", "/embed", "200"),
        ("GET", "/no%0Athing", "404"),
        ("GET", "/info", "421"),
    ]
    assert not [line for line in lines if "private" in line]


def test_nothing_is_said_unless_that_is_wanted(make_client, capfd) -> None:
    make_client().get("/livez")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("path", ["/\r\n2026 forged", "/\x1b[2J", "/" + "a" * 999, "/\ud800"])
def test_a_path_cannot_forge_a_line(path: str) -> None:
    line = line_of({"path": path, "method": "GET", "client": None}, 404, 0.0123)
    assert re.fullmatch(LINE, line)
    assert len(line) < 300
    assert line.endswith(" 404 12.3 ms")
