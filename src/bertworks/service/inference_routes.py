"""Vectors, labels and pieces, in the shapes of text-embeddings-inference."""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bertworks.service.asking import Answered, Asker, Exchange, Question, told_by_headers
from bertworks.service.failures import Failure
from bertworks.service.foreign_schemas import (
    EmbedAllRequest,
    EmbedRequest,
    Prediction,
    PredictRequest,
    SimilarityParameters,
    SimilarityRequest,
    Token,
    TokenizeRequest,
)
from bertworks.service.label_shapes import LABELLING, ability_for, labels_of
from bertworks.service.models import ServedModel
from bertworks.service.operations import OF_BODIES, Operation, answering
from bertworks.service.schemas import decoder_of
from bertworks.service.vector_shapes import as_list, cosines

FAMILY = "text-embeddings-inference"


def ask_vectors(request: EmbedRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for one vector of each text."""
    options = {
        "normalize": request.normalize,
        "truncate": request.truncate,
        "prompt_name": request.prompt_name,
        "dims": request.dimensions,
    }
    return [Question("embed", in_list(request.inputs), options)]


def ask_piece_vectors(request: EmbedAllRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for the vectors of all pieces of each text."""
    options = {"truncate": request.truncate, "prompt_name": request.prompt_name}
    return [Question("embed_all", in_list(request.inputs), options)]


def shape_vectors(request: Any, answered: Answered) -> list[Any]:
    """Give the bare numbers."""
    return [as_list(vector) for vector in answered.answers]


def ask_similarity(request: SimilarityRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for the vectors of all texts, those of the first and the others alike."""
    parameters = request.parameters or SimilarityParameters()
    options = {
        "normalize": True,
        "truncate": parameters.truncate,
        "prompt_name": parameters.prompt_name,
    }
    texts = [request.inputs.source_sentence, *request.inputs.sentences]
    return [Question("embed", texts, options)]


def shape_similarity(request: SimilarityRequest, answered: Answered) -> list[float]:
    """Compare the first vector with the others."""
    first, *others = answered.answers
    return cosines(first, others)


def ask_labels(request: PredictRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for the labels of texts or pairs."""
    if request.raw_scores:
        raise Failure("bad_value", "raw_scores is true, but only chances are told; leave it out")
    inputs = [as_input(item) for item in _sequences(request)]
    return [Question(ability_for(LABELLING, served), inputs, {"truncate": request.truncate})]


def shape_labels(request: PredictRequest, answered: Answered) -> list[Any]:
    """Give the labels, likeliest first: of one input bare, of several in lists."""
    found = [[Prediction(*pair) for pair in labels_of(answer)] for answer in answered.answers]
    return found if _is_batch(request) else found[0]


def _is_batch(request: PredictRequest) -> bool:
    return not isinstance(request.inputs, str) and isinstance(request.inputs[0], list)


def _sequences(request: PredictRequest) -> list[Any]:
    """Return the inputs, each a list of one or two texts."""
    inputs = request.inputs
    if isinstance(inputs, str):
        return [[inputs]]
    if _is_batch(request):
        return [[item] if isinstance(item, str) else item for item in inputs]
    if len(inputs) > 2 or not all(isinstance(item, str) for item in inputs):
        raise Failure(
            "bad_value",
            f"inputs is a list of {len(inputs)} texts, which is read as one text or one pair; "
            "put each text into a list of its own",
        )
    return [inputs]


def as_input(texts: Sequence[str]) -> str | tuple[str, ...]:
    """Return one text bare and two as a pair."""
    return texts[0] if len(texts) == 1 else tuple(texts)


def in_list(inputs: str | list[str]) -> list[str]:
    """Return a lone text as a list."""
    return [inputs] if isinstance(inputs, str) else inputs


async def tokenize(request: Request, asker: Asker) -> Response:
    """Cut texts into pieces."""

    def cut(asked: TokenizeRequest) -> tuple[bytes, dict[str, str]]:
        served, texts = asker.models.get(asked.model), in_list(asked.inputs)
        asker.require_room(texts)
        pieces = served.tokenize(texts, special=asked.add_special_tokens, prompt=asked.prompt_name)
        num_tokens = sum(map(len, pieces))
        headers = told_by_headers(served, num_tokens=num_tokens, num_cut=0)
        return msgspec.json.encode(pieces), headers

    return await asker.convert(request, TOKENIZE, cut)


TOKENIZE = decoder_of(TokenizeRequest)
VECTORS = Exchange(EmbedRequest, ask_vectors, shape_vectors)
SIMILARITY = Exchange(SimilarityRequest, ask_similarity, shape_similarity)
OPERATIONS = (
    answering(
        "/embed", "Return a vector for each text.", VECTORS, answer=list[list[float]], family=FAMILY
    ),
    answering(
        "/embed_all",
        "Return the vectors of all pieces of each text.",
        Exchange(EmbedAllRequest, ask_piece_vectors, shape_vectors),
        answer=list[list[list[float]]],
        family=FAMILY,
    ),
    answering(
        "/similarity",
        "Tell how alike a text and others are.",
        SIMILARITY,
        answer=list[float],
        family=FAMILY,
    ),
    answering(
        "/predict",
        "Tell how likely each label is.",
        Exchange(PredictRequest, ask_labels, shape_labels),
        answer=list[Prediction | list[Prediction]],
        family=FAMILY,
    ),
    Operation(
        path="/tokenize",
        summary="Cut texts into pieces.",
        handle=tokenize,
        family=FAMILY,
        request=TokenizeRequest,
        answer=list[list[Token]],
        tells_model=True,
        codes=(*OF_BODIES, "unknown_model", "cannot_do"),
    ),
)
