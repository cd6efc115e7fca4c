"""The shapes of Hugging Face's InferenceClient, which posts every task to one address."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bertworks.service.asking import Answered, Asker, Exchange, Question
from bertworks.service.failures import Failure
from bertworks.service.foreign_schemas import (
    EmbedRequest,
    PipelineParameters,
    PipelineRequest,
    SimilarityRequest,
)
from bertworks.service.inference_routes import SIMILARITY, VECTORS
from bertworks.service.label_shapes import (
    LABELLING,
    TAGGING,
    ability_for,
    candidates_of,
    entities_of,
    found_answers,
    labels_of,
)
from bertworks.service.models import ServedModel
from bertworks.service.operations import OF_MODELS, Operation
from bertworks.serving.inputs import refuse_others_than_texts

FAMILY = "Hugging Face"
OF_CHANCE = ("temperature", "top_k", "top_p", "seed")
TEXTS = ("generated_text", "translation_text", "summary_text")  # for who does not say the task
WAYS = {  # how others name the ways in which texts are written
    "max_new_tokens": "longest_reply",
    "max_length": "longest_reply",
    "min_new_tokens": "shortest_reply",
    "min_length": "shortest_reply",
    "num_beams": "beams",
    "length_penalty": "length_penalty",
    "no_repeat_ngram_size": "no_repeat",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "seed": "draw_seed",
}


def ask_vectors(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for one vector of each text."""
    return VECTORS.ask(_as(EmbedRequest, request), served)


def ask_similarity(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for the vectors of texts to compare."""
    return SIMILARITY.ask(_as(SimilarityRequest, request), served)


def ask_labels(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for the labels of texts."""
    inputs = [tuple(item) if isinstance(item, list) else item for item in _listed(request)]
    return [Question(ability_for(LABELLING, served), inputs, _options(request, "top_k"))]


def ask_entities(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for the spans of texts."""
    return [Question(ability_for(TAGGING, served), _texts(request), _options(request))]


def ask_answers(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for the answers to questions."""
    rows = [
        {"question": row.get("question"), "passage": row.get("context")}
        if isinstance(row, dict)
        else row
        for row in _listed(request)
    ]
    return [Question("answer", rows, _options(request, "top_k"))]


def ask_masks(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask what stands behind masks."""
    return [Question("fill_mask", _texts(request), _options(request, "top_k"))]


def ask_zero_shot(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for one of labels that the model never learned."""
    given = request.parameters or PipelineParameters()
    if given.multi_label:
        raise Failure("bad_value", "multi_label is true, but one label is chosen; leave it out")
    template = given.hypothesis_template
    options = {
        "truncate": request.truncate,
        "labels": given.candidate_labels,
        "template": template and template.replace("{}", "{label}"),
    }
    return [Question("zero_shot", _listed(request), options)]


def ask_texts(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for texts that answer others."""
    given = request.parameters or PipelineParameters()
    if request.stream or given.return_full_text:
        name = "stream" if request.stream else "return_full_text"
        raise Failure("bad_value", f"{name} is true, but replies come whole; leave it out")
    truncate = False if given.truncation == "do_not_truncate" else request.truncate
    options = {"truncate": truncate, **_way_of(given)}
    return [Question("generate", _texts(request), options)]


def _way_of(given: PipelineParameters) -> dict[str, Any]:
    """Return how texts are to be written, in our own names."""
    names = ("max_new_tokens", "do_sample", *OF_CHANCE)
    told = {name: value for name in names if (value := getattr(given, name)) is not None}
    told |= given.generate_parameters or {}
    is_drawn = told.pop("do_sample", None)
    if not isinstance(is_drawn, bool | None):
        raise Failure("bad_value", f"do_sample is {is_drawn!r:.60}; give true or false")
    if is_drawn is False:
        told = {name: value for name, value in told.items() if name not in OF_CHANCE}
    elif is_drawn is True and not told.keys() & set(OF_CHANCE):
        told["temperature"] = 1.0
    for name in told:
        if name not in WAYS:
            known = ", ".join(WAYS)
            raise Failure("bad_value", f"texts cannot be written by {name!r:.60}; give {known}")
    return {WAYS[name]: value for name, value in told.items()}


def shaper_of_texts(*names: str) -> Callable[[PipelineRequest, Answered], list[Any]]:
    """Return what gives the texts that were written under the names of a task, of one text too."""

    def shape(request: PipelineRequest, answered: Answered) -> list[Any]:
        return [dict.fromkeys(names, answer["text"]) for answer in answered.answers]

    return shape


def shape_labels(request: PipelineRequest, answered: Answered) -> list[Any]:
    """Give lists of labels, likeliest first, of one text too."""
    return [_scored(answer) for answer in answered.answers]


def shape_zero_shot(request: PipelineRequest, answered: Answered) -> list[Any]:
    """Give the labels, likeliest first."""
    return _unlisted(request, [_scored(answer) for answer in answered.answers])


def shape_entities(request: PipelineRequest, answered: Answered) -> list[Any]:
    """Give the spans with where they stand."""
    texts = _listed(request)
    found = [entities_of(*pair) for pair in zip(texts, answered.answers, strict=True)]
    return _unlisted(request, found)


def shape_answers(request: PipelineRequest, answered: Answered) -> Any:
    """Give the best answer, or as many as were asked for."""
    given = request.parameters or PipelineParameters()
    found = [found_answers(answer)[: given.top_k or 1] for answer in answered.answers]
    many = given.top_k not in (None, 1)
    return _unlisted(request, found if many else [answers[0] for answers in found])


def shape_masks(request: PipelineRequest, answered: Answered) -> list[Any]:
    """Give the candidates of each mask, best first."""
    found = [
        candidates_of(text, answer, answered.served)
        for text, answer in zip(_listed(request), answered.answers, strict=True)
    ]
    return _unlisted(request, found)


def _scored(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"label": label, "score": score} for label, score in labels_of(answer)]


def _listed(request: PipelineRequest) -> list[Any]:
    return request.inputs if isinstance(request.inputs, list) else [request.inputs]


def _texts(request: PipelineRequest) -> list[Any]:
    """Return inputs that must be texts, for the answer shows them."""
    refuse_others_than_texts(_listed(request), "read here")
    return _listed(request)


def _unlisted(request: PipelineRequest, answers: list[Any]) -> Any:
    return answers if isinstance(request.inputs, list) else answers[0]


def _options(request: PipelineRequest, *names: str) -> dict[str, Any]:
    given = request.parameters or PipelineParameters()
    return {"truncate": request.truncate, **{name: getattr(given, name) for name in names}}


def _as(kind: Any, request: PipelineRequest) -> Any:
    """Read the request again as one of another shape."""
    given = msgspec.to_builtins(request)
    values = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise Failure("bad_value", f"the body is not what this task reads: {error}") from None


def _exchange(ask: Callable[..., Any], shape: Callable[..., Any]) -> Exchange:
    return Exchange(PipelineRequest, ask, shape)


def _compare(request: PipelineRequest, answered: Answered) -> Any:
    return SIMILARITY.shape(request, answered)


PIPELINES = {
    "feature-extraction": _exchange(ask_vectors, VECTORS.shape),
    "sentence-similarity": _exchange(ask_similarity, _compare),
    "text-classification": _exchange(ask_labels, shape_labels),
    "token-classification": _exchange(ask_entities, shape_entities),
    "question-answering": _exchange(ask_answers, shape_answers),
    "fill-mask": _exchange(ask_masks, shape_masks),
    "zero-shot-classification": _exchange(ask_zero_shot, shape_zero_shot),
    "translation": _exchange(ask_texts, shaper_of_texts("translation_text")),
    "summarization": _exchange(ask_texts, shaper_of_texts("summary_text")),
    "text-generation": _exchange(ask_texts, shaper_of_texts("generated_text")),
    "text2text-generation": _exchange(ask_texts, shaper_of_texts(*TEXTS)),
}


def task_of(request: PipelineRequest, served: ServedModel) -> str:
    """Guess a task by what is sent and what the model can do."""
    inputs, parameters = request.inputs, request.parameters
    if isinstance(inputs, dict):
        return "sentence-similarity" if "source_sentence" in inputs else "question-answering"
    if parameters is not None and parameters.candidate_labels is not None:
        return "zero-shot-classification"
    can = served.abilities
    if "generate" in can:
        return "text2text-generation"
    if can & set(LABELLING) - set(TAGGING):
        return "text-classification"
    if can & set(TAGGING):
        return "token-classification"
    return "fill-mask" if "fill_mask" in can and parameters is not None else "feature-extraction"


def ask_any(request: PipelineRequest, served: ServedModel) -> Sequence[Question]:
    """Ask what the request seems to want."""
    return PIPELINES[task_of(request, served)].ask(request, served)


def shape_any(request: PipelineRequest, answered: Answered) -> Any:
    """Tell it in the shape of that task."""
    return PIPELINES[task_of(request, answered.served)].shape(request, answered)


async def run_any(request: Request, asker: Asker) -> Response:
    """Answer at the root."""
    return await asker.answer(request, ANY)


async def run_pipeline(request: Request, asker: Asker) -> Response:
    """Answer for the task that the path names."""
    task = request.path_params["task"]
    if task not in PIPELINES:
        known = ", ".join(PIPELINES)
        raise Failure("unknown_route", f"there is no task {task!r:.60}; there are: {known}")
    name = request.path_params.get("name")
    return await asker.answer(request, PIPELINES[task], model=name)


def _pipeline(path: str, handle: Callable[..., Any], *codes: str) -> Operation:
    return Operation(
        path=path,
        summary="Answer in the shape that Hugging Face's InferenceClient reads.",
        handle=handle,
        family=FAMILY,
        request=PipelineRequest,
        answer=list[Any] | dict[str, Any],
        codes=(*OF_MODELS, *codes),
        tells_model=True,
        places={"task": tuple(PIPELINES)},
    )


ANY = _exchange(ask_any, shape_any)
OPERATIONS = (
    _pipeline("/", run_any),
    _pipeline("/pipeline/{task}", run_pipeline, "unknown_route"),
    _pipeline("/models/{name:path}/pipeline/{task}", run_pipeline, "unknown_route"),
)
