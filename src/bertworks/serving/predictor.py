"""A model put to work: texts in, answers and vectors out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from bertworks.core.device import DeviceName, Machine, Precision, prepare
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import say
from bertworks.core.shipped import find_model
from bertworks.data.examples import Example, TextExample
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.model.layer_mix import LAST, Layers, Mix
from bertworks.model.vector_precision import ranges_of
from bertworks.serving.attention_weights import AttentionWeights, look
from bertworks.serving.attributions import Attribution, Attributor, Method
from bertworks.serving.backends import Backend, choose_backend, expect_backend
from bertworks.serving.inputs import (
    Input,
    as_example,
    as_folder,
    refuse_others_than_texts,
    require_count,
    require_list,
)
from bertworks.serving.model_folder import OpenModel, lacks_pooler, open_model
from bertworks.serving.onnx_encoder import OnnxEncoder
from bertworks.serving.vectors import Embedder, TokenVectors, VectorForm, VectorShape
from bertworks.tasks.answering import CHUNK, Answered, Answerer, in_chunks, longest_asked
from bertworks.tasks.catalog import KINDS
from bertworks.tasks.embed import Embed
from bertworks.tasks.fill_mask import FillMask
from bertworks.tasks.generate import Generate
from bertworks.tasks.task import Answer, Task
from bertworks.tasks.zero_shot import (
    ByCloze,
    ByVectors,
    Choice,
    Way,
    make_zero_shot,
    single_texts,
)

Labels = Sequence[str] | Mapping[str, str]  # names, or names with their descriptions
CLOZE_CHUNK = 32  # texts answered at once where each answer is made of whole vocabularies
OF_TWO_TEXTS = {"match", "score"}  # the kinds whose answer says how well two texts fit


@dataclass(frozen=True)
class Candidate:
    """One piece that may stand behind a mask."""

    token: str
    id: int
    probability: float


@dataclass(frozen=True)
class Ranked:
    """A candidate with how well it fits, and its place among those that were given."""

    text: str
    score: float
    place: int


def load(
    path: str | Path,
    *,
    device: DeviceName = "auto",
    precision: Precision = "fp32",
    threads: int | None = None,
    backend: Backend = "auto",
) -> "Predictor":
    """Open a model folder, ours or Hugging Face's, or a shipped model by its name, ready to answer.

    The backend onnx computes with the ONNX file that `export` wrote into the folder; auto does so
    on a CPU, where there is such a file.
    """
    if threads is not None:
        require_count(threads, "threads")
    machine = prepare(device, precision=precision, threads=threads)
    folder = find_model(as_folder(path))
    expect_backend(folder, machine, backend)
    opened = open_model(folder)
    account = opened.account
    if account and lacks_pooler(opened.model.tasks.values()):
        account = account.without("encoder.pooler.")
    if account and not account.is_complete:
        say(f"weights of {path}: {account}")
    if opened.recipe and not opened.model.tasks:
        opened.model.add(Embed().reading(opened.recipe))
    choose_backend(opened.model, folder, machine, backend=backend, threads=threads)
    cuts_batches = isinstance(opened.model.encoder, OnnxEncoder)
    return Predictor(opened, replace(machine, cuts_batches=cuts_batches))


class Predictor:
    """An opened model that answers."""

    def __init__(self, opened: OpenModel, machine: Machine) -> None:
        self.model = opened.model.to(machine.device).eval()
        self.tokenizer = opened.tokenizer
        self.machine = machine
        self.recipe = opened.recipe or EmbeddingRecipe()
        self._window = opened.longest

    def make_vectors_by(self, recipe: EmbeddingRecipe) -> None:
        """Make vectors as a recipe says from now on, also where pairs of texts are answered."""
        self.recipe = recipe
        for task in list(self.model.tasks.values()):
            if isinstance(task, Embed):
                self.model.add(task.reading(recipe))

    @property
    def embedder(self) -> Embedder:
        """What makes its vectors."""
        return Embedder(self.model, self.tokenizer, self.machine, self.recipe)

    @property
    def task(self) -> Task:
        """The task that `predict` answers: the model's first."""
        if not self.model.tasks:
            raise UsageError("this model has no task head; fine-tune it first, or use embed")
        return next(iter(self.model.tasks.values()))

    @property
    def longest(self) -> int:
        """How many pieces the network reads at once; longer texts are read in windows."""
        return self.model.config.max_positions

    @property
    def window(self) -> int:
        """How many pieces tasks answer from at once: as many as they were fine-tuned with."""
        return self._window or self.longest

    def task_named(self, name: str | None) -> Task:
        """Return one of the model's tasks; without a name its first."""
        if name is None:
            return self.task
        found = self.model.tasks.get(str(name).replace("-", "_"))
        if found is None:
            known = ", ".join(self.model.tasks) or "none"
            raise UsageError(f"this model has no task {name!r}; its tasks are: {known}")
        return found

    def predict(self, inputs: Sequence[Input], *, task: str | None = None) -> list[Answer]:
        """Return one answer per input, in order; an input is a text, a pair or a row.

        `task` names one of the model's tasks; by default its first answers.
        """
        require_list(inputs, "predict", "input")
        asked = self.task_named(task)
        return self.answer_examples(self._as_examples(inputs, asked), asked)

    def answer_examples(
        self,
        examples: Sequence[Example],
        task: Task | ByVectors | None = None,
        *,
        where: str = "input",
    ) -> list[Answer]:
        """Return one answer per example, in order; one that has none is named by its line."""
        return [answer for _, answer in self.answer_stream(examples, task, where=where)]

    def answer_stream(
        self,
        examples: Iterable[Example],
        task: Task | ByVectors | None = None,
        *,
        where: str = "input",
        refuse: Callable[[Example, DataError], None] | None = None,
    ) -> Iterator[tuple[Any, Answer]]:
        """Yield each example with its answer; what cannot be read is refused, or an error."""

        def stop(example: Example, error: DataError) -> None:
            raise DataError(f"{where} {example.line}: {error}") from error

        chunks = self.answer_chunks(examples, task, refuse=refuse or stop)
        return (pair for chunk in chunks for pair in chunk.pairs)

    def answer_chunks(
        self,
        examples: Iterable[Example],
        task: Task | ByVectors | None = None,
        *,
        refuse: Callable[[Example, DataError], None] | None = None,
    ) -> Iterator[Answered]:
        """Yield the answers of so many examples at once; the chunks depend on the examples alone.

        What cannot be read is refused while the chunk before is answered, in another thread.
        """
        if isinstance(task, ByVectors):
            return self._compare(examples, task, refuse)
        chunk = CLOZE_CHUNK if isinstance(task, ByCloze) else CHUNK
        asked = task or self.task
        answerer = Answerer(self.model, asked, self.tokenizer, self.machine, chunk)
        longest = longest_asked(asked, learned=self.window, whole=self.longest)
        return answerer.chunks(examples, longest=longest, refuse=refuse)

    def _as_examples(self, inputs: Sequence[Input], task: Task) -> list[Example]:
        form = KINDS[task.kind].form
        return [as_example(item, number, form) for number, item in enumerate(inputs, 1)]

    def fill_mask(self, text: str, *, num_candidates: int = 5) -> list[Any]:
        """Return the candidates of the mask, best first; of several masks, one list for each."""
        if "fill_mask" not in self.model.tasks:
            raise UsageError("this model has no fill-mask head; load a pre-trained model instead")
        require_count(num_candidates, "num_candidates")
        task = FillMask(num_candidates=num_candidates)
        masks = self.answer_examples(self._as_examples([text], task), task)[0]["masks"]
        found = [[Candidate(**candidate) for candidate in mask] for mask in masks]
        return found[0] if len(found) == 1 else found

    def generate(self, texts: Sequence[str], *, task: str | None = None, **how: Any) -> list[str]:
        """Return what the model writes in answer to each text, such as its translation.

        How it is asked to: beams, length_penalty, no_repeat, shortest_reply, longest_reply, begin;
        or drawn by chance: temperature, top_k, top_p, draw_seed. By default as it was fine-tuned.
        """
        require_list(texts, "generate")
        writer = self.writer(task, **how)
        return [
            answer["text"]
            for answer in self.answer_examples(self._as_examples(texts, writer), writer)
        ]

    def asked_task(self, name: str | None, how: Mapping[str, Any]) -> Task:
        """Return one of the model's tasks; where it is said how, one that writes in this way."""
        return self.writer(name, **how) if how else self.task_named(name)

    def writer(self, task: str | None = None, **how: Any) -> Generate:
        """Return one of the model's tasks that write, asked to do so in another way."""
        writers = [name for name, one in self.model.tasks.items() if isinstance(one, Generate)]
        found = self.task_named(task or next(iter(writers), None))
        if not isinstance(found, Generate):
            raise UsageError(
                f"the task {found.name} writes no texts; fine-tune a model with --task generate"
            )
        return found.asked(**how)

    def classify(
        self,
        texts: Sequence[str],
        *,
        labels: Labels,
        by: Way | None = None,
        template: str | None = None,
        calibrate: bool = False,
    ) -> list[Answer]:
        """Return one of the labels for each text, though the model never learned them.

        `labels` are names, or a table of their descriptions. `by` says how: entailment needs a
        model that judges pairs, cloze one that fills masks, vectors any. To calibrate is to take
        off how likely each label is for a text that says nothing.
        """
        require_list(texts, "classify")
        task = self.zero_shot(labels, by=by, template=template, calibrate=calibrate)
        examples = [as_example(text, number, "texts") for number, text in enumerate(texts, 1)]
        return self.answer_examples(examples, task)

    def zero_shot(
        self,
        labels: Labels,
        *,
        by: Way | None = None,
        template: str | None = None,
        calibrate: bool = False,
    ) -> Task | ByVectors:
        """Return a task that chooses among labels which the model never learned."""
        tasks, choice = list(self.model.tasks.values()), Choice.of(labels)
        choice.require_different(self.tokenizer)
        task = make_zero_shot(tasks, choice, by=by, template=template)
        if not calibrate:
            return task
        (nothing,) = self.answer_examples([TextExample("")], task)
        fair = choice.without_prior(nothing)
        return make_zero_shot(tasks, fair, by=by, template=template)

    def _compare(
        self,
        examples: Iterable[Any],
        task: ByVectors,
        refuse: Callable[[Any, DataError], None] | None,
    ) -> Iterator[Answered]:
        """Yield each example with the label whose vector lies closest to its own."""
        labels = self.embed(task.texts, normalize=True)
        for chunk in in_chunks(examples, most=CHUNK):
            single, refused = single_texts(chunk)
            for found in refused:
                if refuse is not None:
                    refuse(*found)
            cosines = self.embed([example.text for example in single], normalize=True) @ labels.T
            answers = map(task.answer, cosines)
            yield Answered(list(zip(single, answers, strict=True)), refused)

    def rank(self, query: str, candidates: Sequence[str]) -> list[Ranked]:
        """Return the candidates, best first, by the model's answer to pairs or by vectors."""
        require_list(candidates, "rank", "candidate")
        refuse_others_than_texts([query, *candidates], "ranked; the query is input 1")
        scores = self.fits(candidates)([query])[0]
        order = np.argsort(-scores, kind="stable")
        return [Ranked(candidates[place], float(scores[place]), int(place)) for place in order]

    def fits(self, documents: Sequence[str]) -> Callable[[Sequence[str]], np.ndarray]:
        """Return what tells how well the documents fit queries, [queries, documents].

        A model of pairs reads every query with every document, and what counts is its score or how
        likely its last label is; of other models it is the cosine of vectors.
        """
        if self.reads_pairs:
            return lambda queries: np.stack([self._fit(query, documents) for query in queries])
        vectors = self.embed(documents, normalize=True, prompt=self.document_prompt)
        prompt = self.query_prompt
        return lambda queries: self.embed(queries, normalize=True, prompt=prompt) @ vectors.T

    def _fit(self, query: str, documents: Sequence[str]) -> np.ndarray:
        pairs = [TextExample(query, text, line=n) for n, text in enumerate(documents, 1)]
        return np.array(list(map(self.fit_of, self.answer_examples(pairs, where="document"))))

    def fit_of(self, answer: Answer) -> float:
        """Return how well two texts fit, by the model's answer for them."""
        labels = self.task.labels
        return answer["probabilities"][labels[-1]] if labels else answer["score"]

    @property
    def reads_pairs(self) -> bool:
        """Whether the model answers for two texts at once how well they fit."""
        return bool(self.model.tasks) and self.task.kind in OF_TWO_TEXTS

    @property
    def query_prompt(self) -> str | None:
        """The name of the prompt before queries, if the folder has one."""
        return self._prompt("query")

    @property
    def document_prompt(self) -> str | None:
        """The name of the prompt before documents, if the folder has one."""
        return self._prompt("document", "passage", "corpus")

    def _prompt(self, *names: str) -> str | None:
        """Return the first of some prompts that the folder has."""
        return next((name for name in names if name in self.recipe.prompts), None)

    def embed(self, texts: Sequence[str], **asked: Unpack[VectorShape]) -> np.ndarray:
        """Return one vector per text, [N, D].

        What can be asked for: pooling, normalize, max_length, prompt, layers, mix, dims, precision,
        ranges; `VectorForm` tells what each is.
        """
        return self.embedder.embed(texts, VectorForm.of(asked))

    def embed_chunks(
        self, chunks: Iterable[Sequence[str]], **asked: Unpack[VectorShape]
    ) -> Iterator[np.ndarray]:
        """Yield what `embed` returns for each chunk of texts; the next is read meanwhile."""
        return self.embedder.embed_chunks(chunks, VectorForm.of(asked))

    def vector_ranges(self, texts: Sequence[str], **asked: Any) -> np.ndarray:
        """Return the least and the greatest of each number of vectors, which int8 ones need."""
        floats: dict[str, Any] = {**asked, "precision": "float32", "ranges": None}
        return ranges_of(self.embed(texts, **floats))

    def embed_tokens(
        self, texts: Sequence[str], *, layers: Layers = LAST, mix: Mix = "mean"
    ) -> list[TokenVectors]:
        """Return the vectors of each text's pieces, with the characters they stand for."""
        return self.embedder.embed_tokens(texts, VectorForm(layers=layers, mix=mix))

    def attention(self, text: str, text_b: str | None = None) -> AttentionWeights:
        """Return how much each piece of a text or pair looks at each other one, in every layer."""
        return look(self.model, self.tokenizer, self.machine, (text, text_b))

    def attribute(
        self,
        item: Input,
        *,
        task: str | None = None,
        label: str | None = None,
        method: Method = "integrated-gradients",
        steps: int = 32,
    ) -> Attribution:
        """Return how much each piece of an input speaks for a label, by default the likeliest.

        Of a task without labels it is how much each adds to the score. Only an input that fits one
        window is explained.
        """
        asked = self.task_named(task)
        (example,) = self._as_examples([item], asked)
        return self.attributor(asked, method, steps=steps).attribute(example, label)

    def attributor(
        self, task: Task, method: Method = "integrated-gradients", *, steps: int = 32
    ) -> Attributor:
        """Return what explains the answers of a task, if they can be explained."""
        how = (self.tokenizer, self.machine, method, steps, self.window)
        return Attributor(self.model, task, *how)
