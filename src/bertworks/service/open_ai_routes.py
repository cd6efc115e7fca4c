"""Vectors and the list of models, in OpenAI's shape."""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bertworks.service.asking import Answered, Asker, Exchange, Question
from bertworks.service.foreign_schemas import (
    ModelCard,
    ModelList,
    OpenAIAnswer,
    OpenAIRequest,
    OpenAIUsage,
    OpenAIVector,
)
from bertworks.service.models import ServedModel
from bertworks.service.operations import JSON, Operation, answering
from bertworks.service.vector_shapes import as_written

FAMILY = "OpenAI"


def ask(request: OpenAIRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for vectors of length 1, as OpenAI's are."""
    texts = [request.input] if isinstance(request.input, str) else request.input
    return [Question("embed", texts, {"normalize": True, "dims": request.dimensions})]


def shape(request: OpenAIRequest, answered: Answered) -> OpenAIAnswer:
    """Give each vector its number."""
    count = answered.num_tokens
    return OpenAIAnswer(
        object="list",
        data=[
            OpenAIVector("embedding", number, as_written(vector, request.encoding_format))
            for number, vector in enumerate(answered.answers)
        ],
        model=answered.served.name,
        usage=OpenAIUsage(count, count),
        truncated=answered.is_cut,
    )


async def list_models(request: Request, asker: Asker) -> Response:
    """Tell which models are served."""
    cards = [
        ModelCard(served.name, "model", 0, "bertworks", served.revision, sorted(served.abilities))
        for served in asker.models
    ]
    return Response(msgspec.json.encode(ModelList("list", cards)), media_type=JSON)


OPERATIONS = (
    answering(
        "/v1/embeddings",
        "Return a vector for each text.",
        Exchange(OpenAIRequest, ask, shape),
        answer=OpenAIAnswer,
        family=FAMILY,
    ),
    Operation(
        path="/v1/models",
        method="GET",
        summary="Tell which models are served.",
        handle=list_models,
        family=FAMILY,
        answer=ModelList,
    ),
)
