"""Answers on their way: large ones are sent in parts, and hold their room until they are read."""

from collections.abc import Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bertworks.service.admission import Door

PART = 256 << 10  # bytes that are sent without looking whether they are read
JSON = "application/json"


def deliver(content: bytes, door: Door, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON as an answer; where too much is on its way already, a large one is refused."""
    if len(content) <= PART:
        return Response(content, headers=headers, media_type=JSON)
    return Delivery(content, door.hold(len(content)), headers)


class Delivery(Response):
    """A large answer; what is not read yet waits here, not in the buffers of a connection."""

    def __init__(
        self, content: bytes, give_back: Callable[[], None], headers: Mapping[str, str] | None
    ) -> None:
        super().__init__(content, headers=headers, media_type=JSON)
        self._give_back = give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send one part after the other, as fast as they are read."""
        content = memoryview(self.body)
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            for start in range(0, len(content), PART):
                part, is_more = content[start : start + PART], start + PART < len(content)
                await send({"type": "http.response.body", "body": part, "more_body": is_more})
        finally:
            self._give_back()
