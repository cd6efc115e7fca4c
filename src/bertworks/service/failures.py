"""What a client is told when its request is not answered: a status, a stable code, a sentence."""

from bertworks.core.errors import BertworksError

STATUSES = {
    "bad_request": 400,  # what was sent cannot be read
    "unauthorized": 401,
    "unknown_route": 404,
    "unknown_model": 404,
    "method_not_allowed": 405,
    "too_large": 413,  # body, items or text
    "wrong_content_type": 415,
    "wrong_host": 421,  # the service is not called so
    "bad_value": 422,  # read, but it makes no sense
    "cannot_do": 422,  # the model has no such ability
    "overloaded": 429,
    "failed": 500,
    "not_finite": 500,  # the network's numbers are no numbers
    "loading": 503,  # the models are still being opened
    "stopping": 503,
    "worker_lost": 503,
    "too_late": 504,  # waited longer than its deadline
}


class Failure(BertworksError):  # noqa: N818  it is told, not raised, as often
    """One request, or one item of it, that gets no answer."""

    def __init__(self, code: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUSES[code]
        self.retry_after = retry_after  # seconds
