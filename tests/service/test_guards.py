"""What stands around all routes: the names of the service, keys, and headers for browsers."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bertworks.service.guards import ANY_HOST, OWN_HOSTS, HostCheck, name_of

LOCAL = (*OWN_HOSTS, "127.0.0.1")
OWN_NAMES = ["localhost", "localhost:8080", "LOCALHOST.", "127.0.0.1:9", "[::1]", "[::1]:8080"]
OTHER_NAMES = [
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil.example@localhost",
    "localhost:8080.evil.example",
    "[::1].evil.example",
    "192.168.0.4",
    "0.0.0.0",
    "",
    "[]",
    "[]:80",
]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("a.b:80", "a.b"),
        ("A.b.", "a.b"),
        ("[::1]:80", "::1"),
        ("::1", "::1"),
        ("a:b:80", "a:b:80"),
        ("a:", "a"),
        ("[]:80", ""),
    ],
)
def test_a_name_is_told_without_its_port(host: str, name: str) -> None:
    assert name_of(host) == name


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/info", "/metrics", "/", "/nothing"])
def test_a_local_service_answers_to_no_name_but_its_own(make_client, path: str) -> None:
    client = make_client(hosts=LOCAL)
    for host in OWN_NAMES:
        assert client.get(path, headers={"host": host}).status_code != 421, host
    for host in OTHER_NAMES:
        refused = client.get(path, headers={"host": host})
        assert refused.status_code == 421, host
        assert refused.json()["error"]["code"] == "wrong_host"
        assert refused.headers["x-content-type-options"] == "nosniff"
    assert 'bertworks_requests_total{route="none",status="421"} 12\n' in _metrics(client)


def test_without_the_check_a_page_of_another_site_could_speak_to_it(make_client) -> None:
    client = make_client(hosts=(ANY_HOST,))
    for host in OTHER_NAMES:
        assert client.get("/info", headers={"host": host}).status_code == 200


def test_names_can_be_added(make_client) -> None:
    client = make_client(hosts=(*LOCAL, "www.example.org"))
    assert client.get("/livez", headers={"host": "www.Example.org:443"}).status_code == 200
    assert client.get("/livez", headers={"host": "example.org"}).status_code == 421


def test_two_names_at_once_are_none() -> None:
    client = TestClient(HostCheck(Starlette(), LOCAL))
    twice = [("host", "localhost"), ("host", "localhost")]
    assert client.get("/", headers=twice).status_code == 421


def _metrics(client: TestClient) -> str:
    return client.get("/metrics", headers={"host": "localhost"}).text
