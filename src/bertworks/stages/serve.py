"""serve: models -> answers over HTTP, until a signal ends it."""

import re
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertworks.core.device import prepare
from bertworks.core.errors import UsageError
from bertworks.core.lines import require_content
from bertworks.core.optional import import_optional
from bertworks.core.progress import say
from bertworks.core.shipped import shipped_models
from bertworks.service.batcher import BatchLimits
from bertworks.service.models import Models, named_folders
from bertworks.serving.predictor import load
from bertworks.stages.answer_settings import ServeSettings

if TYPE_CHECKING:
    from bertworks.service.http_app import AppSettings

PACKAGES = ("httptools", "msgspec", "starlette", "uvicorn", "uvloop")
BATCH_TOKENS = {"cpu": 1024, "cuda": 16384}  # by default, on a device
HOST = re.compile(r"[\w.-]+(?::\d+)?|\[?[\da-fA-F:.]+\]?")
SHORTEST_KEY = 16  # characters; a shorter one can be guessed


def run(settings: ServeSettings) -> dict[str, Any]:
    """Open the models behind a port and answer; what cannot be served is refused before that."""
    for name in PACKAGES:
        import_optional(name, extra="serve", purpose="serve")
    from bertworks.service.http_app import make_app
    from bertworks.service.ports import address_of, is_local, open_socket
    from bertworks.service.server import serve

    keys = _read_keys(settings.api_key_file)
    if not keys and not is_local(settings.host):
        raise UsageError(
            f"--host {settings.host} lets other machines in; give an --api-key-file, or keep to "
            "127.0.0.1"
        )
    folders = named_folders(settings.model or tuple(shipped_models()))
    app_settings = _app_settings(settings, keys)
    with closing(open_socket(settings.host, settings.port)) as taken:
        models = Models(
            folders,
            partial(load, **vars(settings.machine), **vars(settings.runtime)),
            limits=_limits(settings),
            drain=settings.drain,
        )
        app, address = make_app(models, app_settings), address_of(taken)
        say(f"listening on {address}; opening {', '.join(models.names)}")
        with closing(app.state.asker) as asker:
            serve(
                app,
                taken,
                models,
                drain=settings.drain,
                on_ready=lambda: _introduce(models, address, settings, has_keys=bool(keys)),
                on_unreadable=asker.metrics.count_unreadable,
            )
        answered = sum(model.count("num_computed") for model in models)
    return {"address": address, "models": list(models.names), "answered": answered}


def _introduce(models: Models, address: str, settings: ServeSettings, *, has_keys: bool) -> None:
    """Say what is served, where it is tried and read about, and who may ask."""
    for model in models:
        told = model.info()
        how = ", ".join(told[name] for name in ("backend", "precision", "device"))
        can = ", ".join(told["abilities"])
        say(f"{model.name} ({how}, revision {model.revision}) can {can}")
    address = address.replace("//0.0.0.0:", "//localhost:").replace("//[::]:", "//localhost:")
    tried = f"try it at {address}/ in a browser; " if settings.page else ""
    asked = "every request needs a key" if has_keys else "no key is asked"
    swaps = "; clients may exchange models" if settings.allow_swap else ""
    say(f"ready; {tried}all routes are at {address}/docs; {asked}{swaps}")


def _app_settings(settings: ServeSettings, keys: tuple[str, ...]) -> "AppSettings":
    from bertworks.service.http_app import AppSettings

    return AppSettings(
        max_body=settings.max_body,
        max_items=settings.max_items,
        max_characters=settings.max_body,
        deadline=settings.deadline,
        keys=keys,
        hosts=_hosts(settings.host, settings.allowed_hosts),
        allow_swap=settings.allow_swap,
        page=settings.page,
        access_log=settings.access_log,
    )


def _hosts(host: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the names to which the service answers: its own, and those that are given."""
    from bertworks.service.guards import ANY_HOST, OWN_HOSTS
    from bertworks.service.ports import is_local

    for name in allowed:
        if name != ANY_HOST and not HOST.fullmatch(name):
            raise UsageError(
                f"--allowed-hosts {name} is no name of a host; give it as www.example.org, or * "
                "for any"
            )
    if not allowed and not is_local(host):
        return (ANY_HOST,)
    return (*OWN_HOSTS, host, *allowed)


def _limits(settings: ServeSettings) -> BatchLimits:
    """Return how much is computed at once and may wait; a GPU takes more before it is slower."""
    device = prepare(**vars(settings.machine)).device.type
    return BatchLimits(
        batch_tokens=settings.batch_tokens or BATCH_TOKENS[device],
        queue_tokens=settings.queue_tokens,
        wait=settings.wait,
    )


def _read_keys(file: Path | None) -> tuple[str, ...]:
    """Return the digests of the keys of a file, one in each line."""
    if file is None:
        return ()
    require_content(file)
    try:
        keys = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8; write one key into each line") from error
    for number, key in enumerate(keys, 1):
        if key and len(key) < SHORTEST_KEY:
            raise UsageError(
                f"line {number} of {file} is shorter than {SHORTEST_KEY} characters, so it can be "
                "guessed; make longer keys"
            )
    digests = tuple(sha256(key.encode()).hexdigest() for key in keys if key)
    if not digests:
        raise UsageError(f"{file} holds no key; write one into each line")
    return digests
