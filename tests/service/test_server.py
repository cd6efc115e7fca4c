"""The process that listens: it leaves when it is told to, and when nothing can be answered."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from bertworks.core.errors import BertworksError
from bertworks.service.models import Models
from bertworks.service.ports import address_of, open_socket
from bertworks.service.server import _Server, serve


def test_a_signal_while_models_are_opened_waits_for_nobody() -> None:
    models = Models({"a": Path()}, lambda _: None)
    server = _Server(uvicorn.Config(Starlette()), models)
    server.handle_exit(15, None)
    assert server.should_exit
    assert not server.force_exit
    models.load()  # opens nothing any more
    assert not models.is_loaded
    server.handle_exit(15, None)
    assert server.force_exit


def test_a_service_whose_worker_is_lost_for_good_ends_with_an_error(
    predictor_of: Callable[..., Any],
) -> None:
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = Starlette(routes=[Route("/", hello)])
    models = Models({"a": Path()}, lambda _: predictor_of())
    with ThreadPoolExecutor(1) as pool, closing(open_socket("127.0.0.1", 0)) as taken:
        ended = pool.submit(serve, app, taken, models, drain=5.0)
        try:
            with urlopen(address_of(taken)) as response:
                assert response.read() == b"hello"
        finally:
            assert models.on_give_up is not None
            models.on_give_up()
        with pytest.raises(BertworksError, match="its worker was lost again and again"):
            ended.result(timeout=10)
    assert not models.is_ready
