"""Answers of tasks, in our own shape."""

from collections.abc import Callable, Sequence

from bertworks.service.asked import TAKEN
from bertworks.service.asking import Answered, Exchange, Question
from bertworks.service.label_shapes import LABELLING, TAGGING, ability_for
from bertworks.service.models import ServedModel
from bertworks.service.operations import Operation, answering
from bertworks.service.schemas import (
    AttentionAnswer,
    AttentionRequest,
    FillMaskRequest,
    GenerateAnswer,
    GenerateRequest,
    Reply,
    TaskAnswer,
    TaskRequest,
    Usage,
    WrittenUsage,
    ZeroShotRequest,
)
from bertworks.service.task_answers import told
from bertworks.tasks.zero_shot import Choice

Ask = Callable[[TaskRequest, ServedModel], Sequence[Question]]


def asker_for(abilities: Sequence[str]) -> Ask:
    """Return what asks a model for the first of some abilities that it has."""

    def ask(request: TaskRequest, served: ServedModel) -> Sequence[Question]:
        inputs = [tuple(item) if isinstance(item, list) else item for item in request.inputs]
        ability = ability_for(abilities, served, task=request.task)
        options = {
            "truncate": request.truncate,
            "task": request.task,
            "top_k": request.top_k,
            "threshold": request.threshold,
        }
        return [Question(ability, inputs, options)]

    return ask


def ask_masks(request: FillMaskRequest, served: ServedModel) -> Sequence[Question]:
    """Ask what stands behind masks."""
    options = {"truncate": request.truncate, "num_candidates": request.num_candidates}
    return [Question("fill_mask", request.inputs, options)]


def ask_zero_shot(request: ZeroShotRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for one of labels that the model never learned."""
    options = {
        "truncate": request.truncate,
        "labels": request.labels,
        "template": request.template,
        "by": request.by,
        "calibrate": request.calibrate,
        "top_k": None if request.calibrate else request.top_k,
    }
    return [Question("zero_shot", request.inputs, options)]


def shape_zero_shot(request: ZeroShotRequest, answered: Answered) -> TaskAnswer:
    """Tell the labels, perhaps without how likely each is for a text that says nothing."""
    found = shape(request, answered)
    if request.calibrate:
        *answers, nothing = found.answers
        fair = Choice.of(request.labels).without_prior(nothing)
        found.answers = [told(fair.rejudge(one), top_k=request.top_k) for one in answers]
        found.truncated.pop()
    return found


def ask_texts(request: GenerateRequest, served: ServedModel) -> Sequence[Question]:
    """Ask for other texts, in the way that the request names."""
    options = {name: getattr(request, name) for name in TAKEN["generate"] | {"truncate"}}
    return [Question("generate", request.inputs, options)]


def shape_texts(request: GenerateRequest, answered: Answered) -> GenerateAnswer:
    """Tell what was written, and how much that is."""
    replies = [Reply(answer["text"], answer["score"]) for answer in answered.answers]
    num_written = sum(answer["num_pieces"] for answer in answered.answers)
    return GenerateAnswer(
        model=answered.served.name,
        revision=answered.served.revision,
        answers=replies,
        usage=WrittenUsage(answered.num_tokens, num_written),
        truncated=answered.is_cut,
    )


def ask_attention(request: AttentionRequest, served: ServedModel) -> Sequence[Question]:
    """Ask which piece looks at which."""
    pair = (request.text, request.text_b)
    return [Question("attention", [request.text if request.text_b is None else pair])]


def shape_attention(request: AttentionRequest, answered: Answered) -> AttentionAnswer:
    """Tell the weights layer by layer."""
    (seen,) = answered.answers
    return AttentionAnswer(
        model=answered.served.name,
        revision=answered.served.revision,
        pieces=seen["pieces"],
        layers=seen["weights"],
        usage=Usage(answered.num_tokens),
        truncated=answered.is_cut,
    )


def shape(request: object, answered: Answered) -> TaskAnswer:
    """Tell the answers with what they took."""
    return TaskAnswer(
        model=answered.served.name,
        revision=answered.served.revision,
        answers=answered.answers,
        usage=Usage(answered.num_tokens),
        truncated=answered.is_cut,
    )


def _task(path: str, summary: str, exchange: Exchange) -> Operation:
    return answering(path, summary, exchange, answer=TaskAnswer, family="bertworks")


CLASSIFY = Exchange(TaskRequest, asker_for(LABELLING), shape)
TAG = Exchange(TaskRequest, asker_for(TAGGING), shape)
ANSWER = Exchange(TaskRequest, asker_for(["answer"]), shape)
CHOOSE = Exchange(TaskRequest, asker_for(["choose"]), shape)
FILL_MASK = Exchange(FillMaskRequest, ask_masks, shape)
ZERO_SHOT = Exchange(ZeroShotRequest, ask_zero_shot, shape_zero_shot)
OPERATIONS = (
    _task("/classify", "Name the label, or the score, of texts, pairs or rows.", CLASSIFY),
    _task("/tag", "Tag the words of texts and find their spans.", TAG),
    _task("/answer", "Find the answers to questions in their passages.", ANSWER),
    _task("/choose", "Choose among the answers to questions.", CHOOSE),
    _task("/fill-mask", "Tell what may stand behind masks.", FILL_MASK),
    _task("/zero-shot", "Choose among labels that the model never learned.", ZERO_SHOT),
    answering(
        "/generate",
        "Write texts in answer to others: translations, summaries, titles.",
        Exchange(GenerateRequest, ask_texts, shape_texts),
        answer=GenerateAnswer,
        family="bertworks",
    ),
    answering(
        "/attention",
        "Tell which piece of a text looks at which.",
        Exchange(AttentionRequest, ask_attention, shape_attention),
        answer=AttentionAnswer,
        family="bertworks",
    ),
)
