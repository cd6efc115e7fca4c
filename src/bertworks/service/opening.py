"""The opening of models behind a port that is open already."""

from collections.abc import Callable
from threading import Thread

from bertworks.service.interpreter import keep_what_is_there
from bertworks.service.models import Models


class Opening(Thread):
    """Opens the models while the port says that they are not there yet."""

    def __init__(
        self, models: Models, *, on_ready: Callable[[], None], on_failure: Callable[[], None]
    ) -> None:
        super().__init__(name="bertworks-opening", daemon=True)
        self.error: BaseException | None = None
        self._models = models
        self._on_ready = on_ready
        self._on_failure = on_failure

    def run(self) -> None:
        """Open them all, or note why that cannot be done."""
        try:
            self._models.load(last=keep_what_is_there)
            if self._models.is_loaded:
                self._on_ready()
        except BaseException as error:
            self.error = error
            self._on_failure()
