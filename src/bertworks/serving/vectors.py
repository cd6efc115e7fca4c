"""Vectors of texts and of their pieces: from which layers, how pooled, in which precision."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict

import numpy as np
from torch import Tensor

from bertworks.core.ahead import ahead
from bertworks.core.batch import Batch, Layout
from bertworks.core.device import Machine
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.core.progress import say
from bertworks.core.settings import suggestion
from bertworks.data.packing import Features, join_pieces
from bertworks.data.windows import cut_centered
from bertworks.model.embedding import EmbeddingRecipe, VectorPooling, pool_vectors
from bertworks.model.encoder import Encoder
from bertworks.model.layer_mix import LAST, LayerMix, Layers, Mix
from bertworks.model.vector_precision import VectorPrecision, check_precision, quantize
from bertworks.serving.inputs import refuse_others_than_texts
from bertworks.serving.text_pieces import TextPiece, pieces_of
from bertworks.tasks.answering import forwards
from bertworks.tasks.task import TaskModel
from bertworks.tasks.vector_texts import ReadText, VectorReader
from bertworks.tokenizer.tokenizer import Tokenizer


class VectorShape(TypedDict, total=False):
    """What can be said of vectors by name; see `VectorForm`."""

    pooling: VectorPooling | None
    normalize: bool | None
    max_length: int | None
    prompt: str | None
    layers: Layers
    mix: Mix
    dims: int | None
    precision: VectorPrecision
    ranges: np.ndarray | None


@dataclass(frozen=True, kw_only=True)
class VectorForm:
    """How vectors are asked for.

    None stands for what a folder of sentence-transformers says, and elsewhere for the mean,
    normalized, over windows of the whole text, without a prompt. `max_length` cuts texts to so
    many pieces, special ones counted. `prompt` is the name of one of the folder's prompts, or
    else the very text to put before each text; an empty one is none.
    """

    pooling: VectorPooling | None = None
    normalize: bool | None = None
    max_length: int | None = None
    prompt: str | None = None
    layers: Layers = LAST
    mix: Mix = "mean"  # how several layers become one
    dims: int | None = None  # the first numbers of each vector, before it is normalized
    precision: VectorPrecision = "float32"
    ranges: np.ndarray | None = None  # [2, D] of the vectors at hand; int8 and uint8 need them

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Self:
        """Make it of what is asked for by name; a name that nobody knows is an error."""
        known = [field.name for field in fields(cls)]
        for name in asked:
            if name not in known:
                hint = suggestion(name, known)
                raise UsageError(
                    f"vectors are not asked for by {name!r}{hint}; what is known: "
                    f"{', '.join(known)}"
                )
        return cls(**asked)


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """The pieces of a text and their vectors."""

    pieces: tuple[TextPiece, ...]
    vectors: np.ndarray  # float32 [pieces, D]


@dataclass(frozen=True)
class Embedder:
    """An opened model that makes vectors."""

    model: TaskModel
    tokenizer: Tokenizer
    machine: Machine
    recipe: EmbeddingRecipe

    def embed(self, texts: Sequence[str], form: VectorForm) -> np.ndarray:
        """Return one vector per text, [N, D]."""
        texts_read = self.read(texts, form)
        self._tell_cut(_num_cut(texts_read), len(texts), form)
        return self._written(texts_read, form)

    def embed_chunks(
        self, chunks: Iterable[Sequence[str]], form: VectorForm
    ) -> Iterator[np.ndarray]:
        """Yield what `embed` returns for each chunk of texts; the next is read meanwhile."""
        num_cut = num_texts = 0
        for read in ahead(self.read(chunk, form) for chunk in chunks):
            num_cut, num_texts = num_cut + _num_cut(read), num_texts + len(read)
            yield self._written(read, form)
        self._tell_cut(num_cut, num_texts, form)

    def embed_tokens(self, texts: Sequence[str], form: VectorForm) -> list[TokenVectors]:
        """Return the vectors of each text's pieces, each from where most is seen around it."""
        refuse_others_than_texts(texts, name="embed_tokens")
        mix, specials = self._mix(form), self.tokenizer.specials
        room = self.model.config.max_positions - specials.num_added(pair=False)
        found, windows, asked = [], [], []
        for number, text in enumerate(texts):
            ids, pieces = pieces_of(text, self.tokenizer)
            found.append(
                TokenVectors(pieces, np.zeros((len(ids), mix.width * self._size), np.float32))
            )
            for start, end, own in cut_centered(len(ids), np.arange(len(ids)), room=room):
                joined = join_pieces(ids[start:end], None, specials)
                windows.append(Features(*joined, example=number))
                asked.append((own, own - start + 1))  # behind the first special piece
        rows = self.token_vectors(windows, form)
        for window, (own, at), part in zip(windows, asked, rows, strict=True):
            found[window.example].vectors[own] = part[at]
        _refuse_broken(*(text.vectors for text in found))
        return found

    def read(self, texts: Sequence[str], form: VectorForm) -> list[ReadText]:
        """Cut texts behind their prompt into windows of pieces."""
        recipe = self._recipe(form)
        check_precision(form.precision, form.ranges)
        _refuse_other_width(recipe, self._mix(form).width * self._size)
        refuse_others_than_texts(texts)
        asked = self.recipe.max_length if form.max_length is None else form.max_length
        limit = self._limit(asked)
        cut = None if asked is None else limit
        return VectorReader(self.tokenizer, recipe, cut, limit).read(texts, form.prompt)

    def vectors(self, texts: Sequence[ReadText], form: VectorForm) -> np.ndarray:
        """Return the vectors of texts, [N, D], in single precision.

        Those of a text for which the network gives other than finite numbers are NaN.
        """
        recipe, mix = self._recipe(form), self._mix(form)
        windows = [window for text in texts for window in text.windows]
        windows = [replace(window, example=number) for number, window in enumerate(windows)]
        skipped = [count for text in texts for count in text.skipped]
        before = [count for text in texts for count in text.before]
        rows = np.zeros((len(windows), mix.width * self._size), np.float32)

        def pooled(batch: Batch) -> np.ndarray:
            hidden, layout = self._hidden(batch, mix)
            own = {
                "skipped": [skipped[number] for number in batch.ids],
                "before": [before[number] for number in batch.ids],
            }
            return pool_vectors(hidden, layout, recipe.pooling, **own).cpu().numpy()

        for places, part in forwards(self.model, windows, self.machine, pooled):
            rows[places] = part
        rows[~np.isfinite(rows).all(axis=1)] = np.nan
        return recipe.finish(_merge_windows(rows, texts, recipe.pooling), form.dims)

    def token_vectors(self, windows: Sequence[Features], form: VectorForm) -> list[np.ndarray]:
        """Return the vectors of all tokens of each window, special ones among them."""
        found, mix = [np.empty(0, np.float32)] * len(windows), self._mix(form)

        def by_text(batch: Batch) -> list[np.ndarray]:
            hidden, layout = self._hidden(batch, mix)
            return [part.cpu().numpy() for part in hidden.split(layout.lengths)]

        for places, parts in forwards(self.model, windows, self.machine, by_text):
            for place, part in zip(places, parts, strict=True):
                found[place] = part
        return found

    @property
    def _size(self) -> int:
        return self.model.config.hidden_size

    def _mix(self, form: VectorForm) -> LayerMix:
        return LayerMix.of(form.layers, form.mix, num_layers=self.model.config.num_layers)

    def _recipe(self, form: VectorForm) -> EmbeddingRecipe:
        return self.recipe.changed(pooling=form.pooling, normalize=form.normalize)

    def _limit(self, asked: int | None) -> int:
        """Return how many pieces are read at once, special ones counted."""
        if asked is not None and not isinstance(asked, int):
            raise UsageError(f"max_length is {asked!r}; it must be a whole number")
        longest = self.model.config.max_positions
        limit = longest if asked is None else min(asked, longest)
        if limit < 3:
            raise UsageError(f"max_length is {asked}; the least is 3")
        return limit

    def _tell_cut(self, num_cut: int, num_texts: int, form: VectorForm) -> None:
        if num_cut and form.max_length is None and self.recipe.max_length is not None:
            limit = min(self.recipe.max_length, self.model.config.max_positions)
            say(
                f"{num_cut} of {num_texts} texts are cut after {limit} pieces, as the model's "
                "folder says; set max_length to read more or fewer"
            )

    def _written(self, texts: Sequence[ReadText], form: VectorForm) -> np.ndarray:
        """Return the vectors of texts in the precision that is asked for."""
        vectors = self.vectors(texts, form)
        _refuse_broken(vectors)
        return quantize(vectors, form.precision, form.ranges)

    def _hidden(self, batch: Batch, mix: LayerMix) -> tuple[Tensor, Layout]:
        """Return the vectors of all tokens of a batch, and where its texts lie among them."""
        batch, encoder = batch.to(self.machine.device), self.model.encoder
        if mix.is_last_of(self.model.config.num_layers):
            return encoder(batch).float(), batch.layout
        if not isinstance(encoder, Encoder):
            raise UsageError(
                "this backend gives the last layer alone; load the model with the backend torch to "
                "ask for other layers"
            )
        return mix.apply(encoder.layers(batch)).float(), batch.layout


def _num_cut(texts: Sequence[ReadText]) -> int:
    return sum(text.is_cut for text in texts)


def _merge_windows(
    rows: np.ndarray, texts: Sequence[ReadText], pooling: VectorPooling
) -> np.ndarray:
    """Pool the windows of each text as if they were pooled at once."""
    num_windows = [len(text.windows) for text in texts]
    if len(rows) == len(texts):
        return rows
    if pooling == "last":
        return rows[np.cumsum(num_windows) - 1]
    owner = np.repeat(np.arange(len(texts)), num_windows)
    if pooling == "max":
        merged = np.full((len(texts), rows.shape[1]), -np.inf, np.float32)
        np.maximum.at(merged, owner, rows)
        return merged
    shares = np.array([share for text in texts for share in text.shares(pooling)], np.float32)
    merged = np.zeros((len(texts), rows.shape[1]), np.float32)
    np.add.at(merged, owner, rows * shares[:, None])
    return merged


def _refuse_other_width(recipe: EmbeddingRecipe, width: int) -> None:
    wanted = recipe.layers[0].weight.shape[1] if recipe.layers else width
    if wanted != width:
        raise UsageError(
            f"the layers side by side are {width} wide, but the model's dense layer takes "
            f"{wanted}; choose one layer, or mix=mean"
        )


def _refuse_broken(*rows: np.ndarray) -> None:
    if not all(np.isfinite(part).all() for part in rows):
        raise ArtifactError(
            "the vectors are not finite, so the model's weights are broken; train it again or "
            "fetch its folder again"
        )
