"""Texts put in order for a query: text-embeddings-inference's shape, and Cohere's and Jina's."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from bertworks.service.asking import Answered, Exchange, Question
from bertworks.service.foreign_schemas import (
    DocumentText,
    PromptUsage,
    Rank,
    RankedDocument,
    RerankDocumentsAnswer,
    RerankDocumentsRequest,
    RerankRequest,
)
from bertworks.service.models import ServedModel
from bertworks.service.operations import Operation, answering


def ask(request: RerankRequest, served: ServedModel) -> Sequence[Question]:
    """Ask how well each text fits the query."""
    pairs = [(request.query, text) for text in request.texts]
    return [Question("rerank", pairs, {"truncate": request.truncate})]


def shape(request: RerankRequest, answered: Answered) -> list[Rank]:
    """Put the places of the texts in order, best first."""
    texts = request.texts if request.return_text else [None] * len(request.texts)
    scores = scores_of(answered.answers)
    return [Rank(place, scores[place], texts[place]) for place in best_first(scores)]


def ask_documents(request: RerankDocumentsRequest, served: ServedModel) -> Sequence[Question]:
    """Ask how well each document fits the query."""
    return [Question("rerank", [(request.query, text) for text in _texts(request)])]


def shape_documents(
    request: RerankDocumentsRequest, answered: Answered, *, version: str = "1"
) -> RerankDocumentsAnswer:
    """Put the documents in order, best first."""
    scores, texts = scores_of(answered.answers), _texts(request)
    best = best_first(scores)[: request.top_n]
    shown = [DocumentText(text) if request.return_documents else None for text in texts]
    return RerankDocumentsAnswer(
        id=answered.served.revision,
        model=answered.served.name,
        revision=answered.served.revision,
        object="list",
        results=[RankedDocument(place, scores[place], shown[place]) for place in best],
        usage=PromptUsage(answered.num_tokens, answered.num_tokens),
        truncated=answered.is_cut,
        meta={"api_version": {"version": version}, "billed_units": {"search_units": 1}},
    )


def scores_of(answers: Sequence[Any]) -> list[float]:
    """Return the numbers by which texts are put in order."""
    return [float(answer["score"]) for answer in answers]


def best_first(scores: Sequence[float]) -> list[int]:
    """Return the places of the highest scores first; equals stay in order."""
    return [int(place) for place in np.argsort(-np.array(scores), kind="stable")]


def _texts(request: RerankDocumentsRequest) -> list[str]:
    documents = request.documents
    return [document if isinstance(document, str) else document.text for document in documents]


def _documents(version: str) -> Operation:
    shape = partial(shape_documents, version=version)
    return answering(
        f"/v{version}/rerank",
        "Put documents in order for a query.",
        Exchange(RerankDocumentsRequest, ask_documents, shape),
        answer=RerankDocumentsAnswer,
        family="Cohere and Jina",
    )


OPERATIONS = (
    answering(
        "/rerank",
        "Put texts in order for a query.",
        Exchange(RerankRequest, ask, shape),
        answer=list[Rank],
        family="text-embeddings-inference",
    ),
    _documents("1"),
    _documents("2"),
)
