"""What clients send and get back in our own shapes; these types check, and they document."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from bertworks.service.asked import (
    MOST_BEAMS,
    MOST_BEGIN,
    MOST_COUNTED,
    MOST_SEED,
    MOST_WRITTEN,
)

Count = Annotated[int, Meta(ge=1, le=MOST_COUNTED)]
Chance = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(description="One of the names of /v1/models; the first by default.")]
Texts = Annotated[list[str], Meta(min_length=1)]
Row = dict[str, Any]
Rows = Annotated[list[str | list[Any] | Row], Meta(min_length=1)]
Labels = Annotated[list[str], Meta(min_length=1, max_length=1000)]
Pieces = Annotated[int, Meta(ge=0, le=MOST_WRITTEN)]
Truncate = Annotated[bool, Meta(description="Whether a text that is too long may be cut.")]


class Own(Struct, forbid_unknown_fields=True):
    """A request in our own shape, in which a misspelled name is an error."""


class Problem(Struct):
    """Why there is no answer."""

    code: str
    message: str
    type: str


class ErrorAnswer(Struct):
    """What every error looks like."""

    error: Problem


class Usage(Struct):
    """How many tokens were read, special ones counted."""

    tokens: int


class TaskRequest(Own):
    """Texts, pairs or rows for a task of a model."""

    inputs: Rows
    model: Name | None = None
    truncate: Truncate = True
    task: str | None = None
    top_k: Count | None = None
    threshold: Chance | None = None


class FillMaskRequest(Own):
    """Texts with masks."""

    inputs: Texts
    model: Name | None = None
    truncate: Truncate = True
    num_candidates: Annotated[int, Meta(ge=1, le=1000)] = 5


class ZeroShotRequest(Own):
    """Texts, and labels that the model never learned."""

    inputs: Texts
    labels: Labels | Annotated[dict[str, str], Meta(max_length=1000)]
    model: Name | None = None
    truncate: Truncate = True
    template: str | None = None
    by: Literal["entailment", "cloze", "vectors"] | None = None
    calibrate: bool = False
    top_k: Count | None = None


class GenerateRequest(Own):
    """Texts to answer with other texts: the best that is found, or one that is drawn by chance."""

    inputs: Texts
    model: Name | None = None
    truncate: Truncate = True
    task: str | None = None
    beams: Annotated[int, Meta(ge=1, le=MOST_BEAMS)] | None = None
    length_penalty: Annotated[float, Meta(ge=-5, le=5)] | None = None
    no_repeat: Pieces | None = None
    shortest_reply: Pieces | None = None
    longest_reply: Annotated[int, Meta(ge=1, le=MOST_WRITTEN)] | None = None
    begin: Annotated[str, Meta(max_length=MOST_BEGIN)] | None = None
    temperature: Annotated[float, Meta(ge=0.01, le=100)] | None = None
    top_k: Count | None = None
    top_p: Annotated[float, Meta(ge=0.001, le=1)] | None = None
    draw_seed: Annotated[int, Meta(ge=0, le=MOST_SEED)] | None = None


class TaskAnswer(Struct):
    """One answer for each input, in order."""

    model: str
    revision: str
    answers: list[Row]
    usage: Usage
    truncated: list[bool]


class WrittenUsage(Struct):
    """How many tokens were read, and how many pieces were written."""

    tokens: int
    written: int


class Reply(Struct):
    """What was written, and how likely it is: a mean of logarithms by the length penalty."""

    text: str
    score: float


class GenerateAnswer(Struct):
    """One reply for each input, in order."""

    model: str
    revision: str
    answers: list[Reply]
    usage: WrittenUsage
    truncated: list[bool]


class AttentionRequest(Own):
    """A text or a pair to look at."""

    text: str
    text_b: str | None = None
    model: Name | None = None


class AttentionAnswer(Struct):
    """The pieces, and how much each looks at each: by layer, attention head, looking, seen."""

    model: str
    revision: str
    pieces: list[Row]
    layers: list[list[list[list[float]]]]
    usage: Usage
    truncated: list[bool]


class Status(Struct):
    """That the service lives, or can answer."""

    status: str


class Info(Struct):
    """What the first model is, as text-embeddings-inference tells it, and what all can do."""

    model_id: str
    model_sha: str
    model_dtype: str
    model_type: Row
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_client_batch_size: int
    auto_truncate: bool
    tokenization_workers: int
    version: str
    models: list[Row]
    asks_for_key: bool


class SwapRequest(Own):
    """The folder of the model that takes the place of another."""

    path: Annotated[str, Meta(min_length=1)]


class Swapped(Struct):
    """The model that is served from now on."""

    model: str
    revision: str


def decoder_of(kind: Any) -> "msgspec.json.Decoder[Any]":
    """Return what reads a body of a kind."""
    return msgspec.json.Decoder(kind)
