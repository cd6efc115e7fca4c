"""The process that listens: it answers, and leaves without breaking its word."""

import socket
from collections.abc import Callable
from functools import partial
from threading import Timer
from types import FrameType
from typing import Any, cast

import uvicorn

from bertworks.core.errors import BertworksError
from bertworks.service.interpreter import lent_interpreter
from bertworks.service.models import Models
from bertworks.service.opening import Opening
from bertworks.service.ports import BACKLOG
from bertworks.service.protocol import IDLE, PatientProtocol

NOTICE = 1.0  # seconds in which the service says that it leaves, and still answers
DOORS = 16  # to one port: the loop takes one connection at each whenever it looks


def serve(
    app: Any,
    taken: socket.socket,
    models: Models,
    *,
    drain: float,
    on_ready: Callable[[], None] = lambda: None,
    on_unreadable: Callable[[], None] = lambda: None,
) -> None:
    """Open the models behind a port that tells so; answer until a signal comes, and finish."""
    config = uvicorn.Config(
        app,
        http=cast(Any, partial(PatientProtocol, on_unreadable=on_unreadable)),
        loop="uvloop",
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="error",  # what clients do wrong is counted, not written
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=max(round(drain), 1),
    )
    server = _Server(config, models)
    models.on_give_up = server.give_up
    opening = Opening(models, on_ready=on_ready, on_failure=server.leave)
    with lent_interpreter():
        opening.start()
        try:
            server.run(sockets=[taken, *(taken.dup() for _ in range(DOORS - 1))])
        finally:
            patience = 0.0 if server.force_exit else drain
            opening.join(patience)
            models.stop(patience)
    if opening.error is not None:
        raise opening.error
    if server.has_given_up:
        raise BertworksError(
            "the service ends, for its worker was lost again and again; the lines above tell why"
        )


class _Server(uvicorn.Server):
    """Uvicorn's server, which says for a while that it leaves before it takes no more."""

    def __init__(self, config: uvicorn.Config, models: Models) -> None:
        super().__init__(config)
        self.has_given_up = False
        self._models = models

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to leave; a second signal does not wait for anybody."""
        if self._models.is_stopping:
            self.leave_at_once()
            return
        self._models.refuse_new()
        if not self._models.is_loaded:  # nobody was promised an answer
            self.leave()
            return
        notice = Timer(NOTICE, self.leave)
        notice.daemon = True
        notice.start()

    def give_up(self) -> None:
        """Leave at once, for nothing can be answered any more."""
        self.has_given_up = True
        self.leave_at_once()

    def leave_at_once(self) -> None:
        """Leave, and wait for nobody."""
        self.should_exit = self.force_exit = True

    def leave(self) -> None:
        """Take no more, and finish what was begun."""
        self.should_exit = True
