"""What the service tells of itself: whether it lives, whether it can answer, what it serves."""

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bertworks.core import __version__
from bertworks.service.asking import NUM_READERS, Asker
from bertworks.service.failures import Failure
from bertworks.service.metrics import CONTENT_TYPE
from bertworks.service.operations import OF_BODIES, Operation, as_json
from bertworks.service.schemas import Info, Status, Swapped, SwapRequest, decoder_of

FAMILY = "service"
OPEN_PATHS = frozenset({"/livez", "/readyz"})  # no key is asked here
SWAP = decoder_of(SwapRequest)
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}


async def live(request: Request, asker: Asker) -> Response:
    """Tell that the process lives, whatever its models do."""
    return as_json(Status("alive"))


async def ready(request: Request, asker: Asker) -> Response:
    """Tell that every model can answer."""
    if asker.models.is_stopping:
        raise Failure("stopping", "the service stops and takes no more", retry_after=1)
    asker.models.require_loaded()
    if not asker.models.is_ready:
        raise Failure("worker_lost", "a model cannot answer now; ask again soon", retry_after=1)
    return as_json(Status("ready"))


async def info(request: Request, asker: Asker) -> Response:
    """Tell what the models are."""
    models = [served.info() for served in asker.models]
    first, limits = models[0], asker.limits
    told = Info(
        model_id=first["name"],
        model_sha=first["revision"],
        model_dtype=DTYPES[first["precision"]],
        model_type=_type_of(first),
        max_concurrent_requests=limits.max_requests,
        max_input_length=first["longest"],
        max_batch_tokens=asker.models.get().batch_tokens,
        max_client_batch_size=limits.max_items,
        auto_truncate=True,
        tokenization_workers=NUM_READERS,
        version=__version__,
        models=models,
        asks_for_key=request.app.state.has_keys,
    )
    return as_json(told)


def _type_of(info: dict[str, Any]) -> dict[str, Any]:
    labels: list[str] = next((found for found in info["labels"].values() if found), [])
    if not labels:
        return {"embedding": {"pooling": info["pooling"]}}
    kind = "reranker" if "match" in info["abilities"] else "classifier"
    by_number = {str(number): label for number, label in enumerate(labels)}
    by_label = {label: number for number, label in enumerate(labels)}
    return {kind: {"id2label": by_number, "label2id": by_label}}


async def metrics(request: Request, asker: Asker) -> Response:
    """Give the counts."""
    text = asker.metrics.text(asker.models)
    return Response(text, headers={"content-type": CONTENT_TYPE})


async def swap(request: Request, asker: Asker) -> Response:
    """Put another folder in the place of a model, if it can be served."""
    name = request.path_params["name"]
    asker.models.get(name)
    asked: SwapRequest = await asker.read(request, SWAP)
    new = await asyncio.to_thread(asker.models.swap, name, Path(asked.path))
    return as_json(Swapped(name, new.revision))


OPERATIONS = (
    Operation(
        path="/livez",
        method="GET",
        summary="Tell that the process lives.",
        handle=live,
        needs_models=False,
        family=FAMILY,
        answer=Status,
    ),
    Operation(
        path="/readyz",
        method="GET",
        summary="Tell that every model can answer.",
        handle=ready,
        needs_models=False,
        family=FAMILY,
        answer=Status,
        codes=("loading", "worker_lost", "stopping"),
    ),
    Operation(
        path="/health",
        method="GET",
        summary="Tell that every model can answer.",
        handle=ready,
        needs_models=False,
        family="text-embeddings-inference",
        answer=Status,
        codes=("loading", "worker_lost", "stopping"),
    ),
    Operation(
        path="/info",
        method="GET",
        summary="Tell what the models are.",
        handle=info,
        family="text-embeddings-inference",
        answer=Info,
    ),
    Operation(
        path="/metrics",
        method="GET",
        summary="Give counts as Prometheus reads them.",
        handle=metrics,
        needs_models=False,
        family=FAMILY,
        media="text/plain",
    ),
)
SWAPPING = Operation(
    path="/models/{name:path}",
    summary="Put another folder in the place of a model.",
    handle=swap,
    family=FAMILY,
    request=SwapRequest,
    answer=Swapped,
    codes=(*OF_BODIES, "unknown_model"),
)
