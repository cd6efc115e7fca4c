"""The opening of models: until it is done the port says so, and if it fails the service ends."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import URLError

import pytest

from bertworks.core.errors import ArtifactError

EMBED = b'{"inputs": "a cat"}'


def test_while_models_are_opened_it_lives_and_is_not_ready(
    predictor_of: Callable[..., Any], run_service: Callable[..., Any]
) -> None:
    go_on, opened = Event(), list[Path]()

    def open_slowly(path: Path) -> Any:
        assert go_on.wait(20)
        opened.append(path)
        return predictor_of()

    running = run_service(open_slowly, names="ab")
    try:
        assert running.ask("/livez")[0] == 200
        for path, body in (
            ("/readyz", b""),
            ("/embed", EMBED),
            ("/info", b""),
            ("/v1/models", b""),
        ):
            status, headers, told = running.ask(path, body)
            assert (status, told["error"]["code"]) == (503, "loading"), path
            assert headers["retry-after"] == "1"
        assert running.ask("/metrics")[0] == running.ask("/openapi.json")[0] == 200
        assert not opened
        assert not running.said
        go_on.set()
        running.wait()
        assert running.ask("/readyz")[0] == running.ask("/embed", EMBED)[0] == 200
    finally:
        go_on.set()
        running.close()
    assert len(opened) == 2
    assert running.said == ["ready"]


def test_a_model_that_cannot_be_opened_ends_the_service(
    predictor_of: Callable[..., Any], run_service: Callable[..., Any]
) -> None:
    folders = iter([predictor_of()])

    def open_first(path: Path) -> Any:
        for predictor in folders:
            return predictor
        raise ArtifactError("the folder b is torn; make it again")

    running = run_service(open_first, names="ab")
    with pytest.raises(ArtifactError, match="the folder b is torn"):
        running.ended.result(timeout=20)
    with pytest.raises(URLError):
        running.ask("/livez")
    running.close()
    assert not running.said
