"""What clients of other servers send and get back: the shapes that those servers document."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from bertworks.service.schemas import Count, Labels, Name, Row, Texts, Truncate, Usage

Scheme = Literal["float", "base64"]
Direction = Literal["Right", "right"]


class PromptUsage(Struct):
    """How many tokens were read, as OpenAI and Jina call them."""

    prompt_tokens: int
    total_tokens: int


# OpenAI


class OpenAIRequest(Struct):
    """Texts whose vectors are wanted, as OpenAI's clients ask."""

    input: str | Annotated[list[str | int | list[int]], Meta(min_length=1)]
    model: Name | None = None
    encoding_format: Scheme = "float"
    dimensions: Count | None = None
    user: str | None = None


class OpenAIVector(Struct):
    """One vector: numbers, or their bytes (32-bit, little-endian) in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class OpenAIAnswer(Struct):
    """One vector for each text, in order."""

    object: Literal["list"]
    data: list[OpenAIVector]
    model: str
    revision: str
    usage: PromptUsage
    truncated: list[bool]


class ModelCard(Struct):
    """A model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    revision: str
    abilities: list[str]


class ModelList(Struct):
    """The models that are served."""

    object: Literal["list"]
    data: list[ModelCard]


# text-embeddings-inference


class EmbedRequest(Struct):
    """Texts whose vectors are wanted."""

    inputs: str | Texts
    model: Name | None = None
    normalize: bool = True
    truncate: Truncate | None = None
    truncation_direction: Direction | None = None
    prompt_name: str | None = None
    dimensions: Count | None = None


class EmbedAllRequest(Struct):
    """Texts whose pieces' vectors are wanted."""

    inputs: str | Texts
    model: Name | None = None
    truncate: Truncate | None = None
    truncation_direction: Direction | None = None
    prompt_name: str | None = None


class SimilarityTexts(Struct):
    """One text and those that it is compared with."""

    source_sentence: str
    sentences: Texts


class SimilarityParameters(Struct):
    """How the compared texts are read."""

    truncate: Truncate | None = None
    truncation_direction: Direction | None = None
    prompt_name: str | None = None


class SimilarityRequest(Struct):
    """Texts to compare."""

    inputs: SimilarityTexts
    parameters: SimilarityParameters | None = None
    model: Name | None = None


OneOrTwo = Annotated[list[str], Meta(min_length=1, max_length=2)]


class PredictRequest(Struct):
    """A text, a pair of texts in a list, or a list of lists of one or two texts."""

    inputs: str | Annotated[list[str | OneOrTwo], Meta(min_length=1)]
    model: Name | None = None
    truncate: Truncate | None = None
    truncation_direction: Direction | None = None
    raw_scores: bool = False


class Prediction(Struct):
    """A label and how likely it is."""

    label: str
    score: float


class RerankRequest(Struct):
    """A query and the texts to put in order."""

    query: str
    texts: Texts
    model: Name | None = None
    truncate: Truncate | None = None
    truncation_direction: Direction | None = None
    raw_scores: bool = False
    return_text: bool = False


class Rank(Struct, omit_defaults=True):
    """How well a text fits the query, and its place among those that were given."""

    index: Annotated[int, Meta(ge=0)]
    score: float
    text: str | None = None


class TokenizeRequest(Struct):
    """Texts to cut into pieces."""

    inputs: str | Texts
    model: Name | None = None
    add_special_tokens: bool = True
    prompt_name: str | None = None


class Token(Struct):
    """A piece, and the characters it stands for; a special one stands for none."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


# Cohere and Jina


class DocumentText(Struct):
    """A document as an object."""

    text: str


class RerankDocumentsRequest(Struct):
    """A query and the documents to put in order, as Cohere's and Jina's clients ask.

    What would change the order and cannot be done is refused.
    """

    query: str
    documents: Annotated[list[str | DocumentText], Meta(min_length=1)]
    model: Name | None = None
    top_n: Count | None = None
    return_documents: bool = False
    rank_fields: None = None
    max_chunks_per_doc: None = None
    max_tokens_per_doc: None = None


class RankedDocument(Struct, omit_defaults=True):
    """How well a document fits the query, and its place among those that were given."""

    index: int
    relevance_score: float
    document: DocumentText | None = None


class RerankDocumentsAnswer(Struct):
    """The documents, best first."""

    id: str
    model: str
    revision: str
    object: Literal["list"]
    results: list[RankedDocument]
    usage: PromptUsage
    truncated: list[bool]
    meta: Row


# bert-as-service


class EncodeRequest(Struct):
    """Texts as bert-as-service's clients send them: `texts`, or in its later form `data`."""

    texts: Annotated[list[str | list[str]], Meta(min_length=1)] | None = None
    data: Annotated[list[str | DocumentText], Meta(min_length=1)] | None = None
    id: int | str | None = None
    is_tokenized: bool = False
    model: Name | None = None


class EncodedText(Struct):
    """A text with its vector."""

    text: str
    embedding: list[float]


class EncodeAnswer(Struct, omit_defaults=True):
    """The vectors: `results` for `texts`, `data` for `data`."""

    status: int
    model: str
    revision: str
    usage: Usage
    truncated: list[bool]
    id: int | str | None = None
    results: list[list[float]] | None = None
    data: list[EncodedText] | None = None


# Hugging Face's client


class PipelineParameters(Struct):
    """How a task is done; what would change answers and cannot be done is refused."""

    top_k: Count | None = None
    candidate_labels: Labels | None = None
    hypothesis_template: str | None = None
    multi_label: bool | None = None
    function_to_apply: Literal["softmax"] | None = None
    aggregation_strategy: Literal["simple", "first", "average", "max"] | None = None
    ignore_labels: None = None
    targets: None = None
    max_answer_len: None = None
    handle_impossible_answer: None = None
    truncate: Truncate | None = None
    prompt_name: str | None = None
    max_new_tokens: int | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    generate_parameters: Row | None = None
    return_full_text: bool | None = None
    truncation: Literal["do_not_truncate", "longest_first", "only_first", "only_second"] | None = (
        None
    )
    src_lang: None = None
    tgt_lang: None = None
    best_of: None = None
    frequency_penalty: None = None
    grammar: None = None
    repetition_penalty: None = None
    stop: None = None
    typical_p: None = None


class PipelineRequest(Struct):
    """What Hugging Face's client posts, whatever its task is."""

    inputs: str | Annotated[list[Any], Meta(min_length=1)] | Row
    parameters: PipelineParameters | None = None
    stream: bool | None = None
    normalize: bool | None = None
    prompt_name: str | None = None
    truncate: Truncate | None = None
    truncation_direction: Direction | None = None
    dimensions: Count | None = None
