"""Vectors in the shapes of bert-as-service, the early and the late one."""

from collections.abc import Sequence

from bertworks.service.asking import Answered, Exchange, Question
from bertworks.service.failures import Failure
from bertworks.service.foreign_schemas import EncodeAnswer, EncodedText, EncodeRequest
from bertworks.service.models import ServedModel
from bertworks.service.operations import answering
from bertworks.service.schemas import Usage
from bertworks.service.vector_shapes import as_list


def ask(request: EncodeRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for one vector of each text."""
    return [Question("embed", texts_of(request))]


def shape(request: EncodeRequest, answered: Answered) -> EncodeAnswer:
    """Give the vectors under the name that the shape of the request has for them."""
    vectors = [as_list(vector) for vector in answered.answers]
    answer = EncodeAnswer(
        status=200,
        model=answered.served.name,
        revision=answered.served.revision,
        usage=Usage(answered.num_tokens),
        truncated=answered.is_cut,
        id=request.id,
    )
    if request.texts is not None:
        answer.results = vectors
    else:
        answer.data = [
            EncodedText(text, vector)
            for text, vector in zip(texts_of(request), vectors, strict=True)
        ]
    return answer


def texts_of(request: EncodeRequest) -> list[str]:
    """Return the texts of either shape; words of tokenized ones are joined."""
    if (request.texts is None) == (request.data is None):
        raise Failure("bad_value", "give the texts under `texts` or under `data`, and not both")
    if request.texts is None:
        data = request.data or []
        return [item if isinstance(item, str) else item.text for item in data]
    if any(isinstance(text, list) != request.is_tokenized for text in request.texts):
        raise Failure(
            "bad_value", "texts are lists of words with is_tokenized, and plain texts without it"
        )
    return [" ".join(text) if isinstance(text, list) else text for text in request.texts]


OPERATIONS = (
    answering(
        "/encode",
        "Return a vector for each text.",
        Exchange(EncodeRequest, ask, shape),
        answer=EncodeAnswer,
        family="bert-as-service",
    ),
)
