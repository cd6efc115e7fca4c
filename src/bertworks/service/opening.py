"""The opening of models behind a port that is open already."""

import gc
from collections.abc import Callable
from threading import Thread

from bertworks.service.models import Models

SELDOM = 20_000  # objects more than before, after which garbage is looked for


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
            self._models.load(last=_keep_what_is_there)
            if self._models.is_loaded:
                self._on_ready()
        except BaseException as error:
            self.error = error
            self._on_failure()


def _keep_what_is_there() -> None:
    """Spare the collector of garbage from looking through the models again and again.

    A few hundred requests that wait are as many objects as it looks for by itself, and Python does
    nothing else while it goes through all of them: up to 15 ms, and several times a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM, *gc.get_threshold()[1:])
