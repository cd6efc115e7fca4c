"""Answers that are vectors, or are made of how close vectors lie to each other."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from bertworks.data.packing import Features
from bertworks.model.embedding import VectorPooling
from bertworks.service.asked import Asked, query_pairs
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item
from bertworks.service.lengths import Lengths, num_looked_at
from bertworks.service.numbers import if_finite, is_finite, not_finite
from bertworks.service.task_answers import require_few_told, told
from bertworks.serving.inputs import refuse_others_than_texts
from bertworks.serving.predictor import Predictor
from bertworks.serving.vectors import Embedder, VectorForm
from bertworks.tasks.task import Answer
from bertworks.tasks.vector_texts import ReadText
from bertworks.tasks.zero_shot import ByVectors

CUT_AT_ONCE = 32  # texts


@dataclass(frozen=True, eq=False)
class Compared:
    """A text, the texts that it is compared with, and what is made of the cosines."""

    text: ReadText
    others: tuple[ReadText, ...]
    answer: Callable[[np.ndarray], Any]


class VectorAnswers:
    """What every encoder can do: make vectors, and compare them."""

    def __init__(self, predictor: Predictor, lengths: Lengths) -> None:
        self._predictor = predictor
        self._lengths = lengths

    @property
    def dims(self) -> int:
        """How many numbers a vector has."""
        layers = self._predictor.recipe.layers
        return layers[-1].weight.shape[0] if layers else self._predictor.model.config.hidden_size

    def embed(self, texts: Sequence[Any], asked: Asked) -> list[Item]:
        """Make texts ready to become one vector each."""
        if asked.dims is not None and asked.dims > self.dims:
            raise Failure(
                "bad_value",
                f"{asked.dims} dimensions are asked for, but the vectors of this model have "
                f"{self.dims}; choose from 1 to {self.dims}",
            )
        form = VectorForm(
            pooling=cast(VectorPooling | None, asked.pooling),
            normalize=asked.normalize,
            dims=asked.dims,
            prompt=self.prompt(asked),
        )
        read = self._read(texts, form)
        plain = replace(form, prompt=None)
        return [Item(("vectors", plain), text, text.num_tokens, text.is_cut) for text in read]

    def embed_all(self, texts: Sequence[Any], asked: Asked) -> list[Item]:
        """Make texts ready to become one vector for each token that is read at once."""
        longest = self._predictor.recipe.max_length or self._predictor.longest
        read = self._read(texts, VectorForm(max_length=longest, prompt=self.prompt(asked)))
        return [Item(("tokens",), text.windows[0], text.num_tokens, text.is_cut) for text in read]

    def prompt(self, asked: Asked) -> str | None:
        """Return the name or the words of the prompt that is asked for; None: the model's own."""
        known = self._predictor.recipe.prompts
        if asked.prompt_name is None:
            return asked.prompt
        if asked.prompt is not None or asked.prompt_name not in known:
            raise Failure(
                "bad_value",
                f"prompt_name is {asked.prompt_name!r:.60}; give one of this model's prompts "
                f"({', '.join(known) or 'it has none'}), or leave it out",
            )
        return asked.prompt_name

    def rerank(self, pairs: Sequence[Any]) -> list[Item]:
        """Make queries and documents ready to be compared."""
        pairs = query_pairs(pairs)
        queries = list(dict.fromkeys(query for query, _ in pairs))
        prompts = self._predictor.query_prompt, self._predictor.document_prompt
        read = self._read(queries, VectorForm(prompt=prompts[0]))
        by_query = {query: (text,) for query, text in zip(queries, read, strict=True)}
        documents = self._read([text for _, text in pairs], VectorForm(prompt=prompts[1]))
        compared = [
            Compared(text, by_query[query], _only_score)
            for text, (query, _) in zip(documents, pairs, strict=True)
        ]
        return _compared_items(compared)

    def zero_shot(self, texts: Sequence[Any], task: ByVectors, asked: Asked) -> list[Item]:
        """Make texts ready to be compared with labels."""
        require_few_told(len(texts) * len(task.texts))
        labels = tuple(self._read(task.texts, VectorForm()))
        read = self._read([*texts, ""] if asked.calibrate else texts, VectorForm())

        def answer(cosines: np.ndarray) -> Answer:
            return told(task.answer(cosines), top_k=asked.top_k)

        return _compared_items([Compared(text, labels, answer) for text in read])

    def compute(self, key: Hashable, contents: list[Any]) -> list[Any]:
        """Answer items of one key together."""
        way, *how = cast(tuple[Any, ...], key)
        if way == "tokens":
            return self._token_vectors(contents)
        if way == "vectors":
            return [if_finite(row) for row in self._embedder.vectors(contents, how[0])]
        return self._compare(contents)

    @property
    def _embedder(self) -> Embedder:
        return self._predictor.embedder

    def _read(self, texts: Sequence[Any], form: VectorForm) -> list[ReadText]:
        """Cut texts into windows, some at a time, so that too many are not all cut."""
        refuse_others_than_texts(texts)
        found, total = list[ReadText](), 0
        for start in range(0, len(texts), CUT_AT_ONCE):
            part = self._read_part(texts[start : start + CUT_AT_ONCE], form)
            total += sum(text.num_tokens for text in part)
            self._lengths.require_few(total)
            found += part
        return found

    def _read_part(self, texts: Sequence[str], form: VectorForm) -> list[ReadText]:
        """Cut texts into windows, after what is not read of them was left out."""
        cut = self._predictor.recipe.max_length if form.max_length is None else form.max_length
        if cut is None:
            short = [self._lengths.shorten(text) for text in texts]
        else:
            short = [text[: num_looked_at(cut)] for text in texts]
        read = self._embedder.read(short, form)
        return [
            replace(own, is_cut=own.is_cut or len(before) > len(after))
            for own, before, after in zip(read, texts, short, strict=True)
        ]

    def _token_vectors(self, windows: list[Features]) -> list[Any]:
        return [if_finite(rows) for rows in self._embedder.token_vectors(windows, VectorForm())]

    def _compare(self, contents: list[Compared]) -> list[Any]:
        """Compare texts with others; what several are compared with is computed once."""
        others = list(dict.fromkeys(other for own in contents for other in own.others))
        form = VectorForm(normalize=True)
        rows = dict(zip(others, self._embedder.vectors(others, form), strict=True))
        texts = self._embedder.vectors([own.text for own in contents], form)
        cosines = [
            np.stack([rows[other] for other in own.others]) @ text
            for own, text in zip(contents, texts, strict=True)
        ]
        return [
            own.answer(found) if is_finite(found) else not_finite()
            for own, found in zip(contents, cosines, strict=True)
        ]


def _compared_items(compared: list[Compared]) -> list[Item]:
    """Make items; what several are compared with is counted for the first of them."""
    items, counted = [], set[ReadText]()
    for own in compared:
        new = [other for other in own.others if other not in counted]
        counted.update(new)
        num_tokens = own.text.num_tokens + sum(other.num_tokens for other in new)
        is_cut = own.text.is_cut or any(other.is_cut for other in own.others)
        items.append(Item(("compared",), own, num_tokens, is_cut))
    return items


def _only_score(cosines: np.ndarray) -> dict[str, float]:
    return {"score": float(cosines[0])}
