"""A connection as uvicorn keeps it: the one place that knows uvicorn's inner names."""

from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bertworks.service.turns import turns_of


class Connection(HttpToolsProtocol):
    """Uvicorn's connection, with plain names for what we ask of its inside."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._turns = turns_of(self.loop)
        self._begun: Any = None  # the request that is answered; others may have come behind it

    @property
    def takes_turns(self) -> bool:
        """Tell whether the request at hand begins when it is its turn, or at once."""
        return False

    @property
    def has_answered(self) -> bool:
        """Tell whether nothing that was asked is still to be answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def has_answered_one(self) -> bool:
        """Tell whether the request at hand, or the last, has its answer."""
        return self.cycle is not None and self.cycle.response_complete

    @property
    def is_answering(self) -> bool:
        """Tell whether a request is being answered, other than one whose body cannot be read."""
        if self.has_answered:
            return False
        is_read = self.cycle.response_started or not self.cycle.more_body
        return is_read or bool(self.pipeline)

    @property
    def is_kept_idle(self) -> bool:
        """Tell whether uvicorn itself closes the connection if nothing comes."""
        return self.timeout_keep_alive_task is not None

    @property
    def is_last(self) -> bool:
        """Tell whether the client wants to leave after the request whose head has come."""
        return self.parser.get_http_version() != "1.1" or not self.parser.should_keep_alive()

    @property
    def head(self) -> tuple[bytes, bytes, list[tuple[bytes, bytes]]]:
        """Return the method, the address and the headers of the request whose head has come."""
        return self.parser.get_method(), self.url, self.headers

    @property
    def peer(self) -> tuple[str, int] | None:
        """Return the address of the client."""
        return self.client

    def of_app(self, name: str) -> Any:
        """Return what an application keeps under a name; None where it keeps nothing."""
        app: Any = self.config.app
        return getattr(app.state, name, None)

    def hand_over(self, name: str, thing: Any) -> None:
        """Let the application find something in the state of the request whose head has come."""
        self.scope["state"][name] = thing

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Let a request begin when it is its turn, if it asks for work that takes the loop long."""
        self._begun = cycle
        begin = partial(super()._start_asgi_task, cycle, app)
        if self.takes_turns:
            self._turns.add(begin)
        else:
            begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is answered too; uvicorn tells the last whose head has come."""
        super().connection_lost(exc)
        if self._begun is not None and not self._begun.response_complete:
            self._begun.disconnected = True
            self._begun.message_event.set()

    def close_after_answer(self) -> None:
        """Close when the request at hand has its answer."""
        self.cycle.keep_alive = False

    def mark_unreadable(self) -> None:
        """Let the application know that the body of the request at hand cannot be read."""
        if self.cycle is not None:
            cast(dict[str, Any], self.cycle.scope)["is_unreadable"] = True
