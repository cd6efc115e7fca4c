"""Vectors and the list of models, in OpenAI's shape."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from bertworks.service.asking import Answered, Asker, Exchange, Question
from bertworks.service.failures import Failure
from bertworks.service.foreign_schemas import (
    ModelCard,
    ModelList,
    OpenAIAnswer,
    OpenAIRequest,
    OpenAIVector,
    PromptUsage,
)
from bertworks.service.models import ServedModel
from bertworks.service.operations import Operation, answering, as_json
from bertworks.service.vector_shapes import as_written

FAMILY = "OpenAI"


def ask(request: OpenAIRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for vectors of length 1, as OpenAI's are."""
    texts = [request.input] if isinstance(request.input, str) else request.input
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise Failure(
                "bad_value",
                f"input {number} is given by the numbers of its tokens, which stand for others "
                "in this model; give it as a text",
            )
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
        revision=answered.served.revision,
        usage=PromptUsage(count, count),
        truncated=answered.is_cut,
    )


async def list_models(request: Request, asker: Asker) -> Response:
    """Tell which models are served."""
    cards = ModelList("list", [card_of(served) for served in asker.models])
    return as_json(cards)


async def describe_model(request: Request, asker: Asker) -> Response:
    """Tell of one model."""
    return as_json(card_of(asker.models.get(request.path_params["name"])))


def card_of(served: ServedModel) -> ModelCard:
    """Describe a model."""
    can = sorted(served.abilities)
    return ModelCard(served.name, "model", 0, "bertworks", served.revision, can)


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
    Operation(
        path="/v1/models/{name:path}",
        method="GET",
        summary="Tell of one model.",
        handle=describe_model,
        family=FAMILY,
        answer=ModelCard,
        codes=("unknown_model",),
    ),
)
