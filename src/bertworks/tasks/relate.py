"""Relate: a text with two places marked in it -> how what stands there is related."""

from collections.abc import Sequence
from copy import copy
from functools import lru_cache

import numpy as np
from torch import Tensor, nn

from bertworks.core.batch import Target
from bertworks.core.errors import DataError
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import Place, RelationExample
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import pieces_near
from bertworks.model.config import EncoderConfig
from bertworks.model.heads import PlacesHead
from bertworks.tasks.classify import Classify, Emphasis, LabelScorer
from bertworks.tasks.task import Answer, Options, Rows
from bertworks.tokenizer.tokenizer import Tokenizer

SIGNS = "$#@*^~|&<>=+/;:!?-.,"  # the first two that are pieces mark the places
NUM_MARKS = 4  # one before and one behind each place


class Relate:
    """Two places of a text -> one of the relations, with the probability of each."""

    kind = "relate"

    def __init__(
        self,
        labels: Sequence[str],
        *,
        name: str = kind,
        dropout: float | None = None,
        emphasis: Emphasis | None = None,
    ) -> None:
        self.name = name
        self.labels = tuple(labels)
        self.options: Options = {"dropout": dropout, "temperature": 1.0}
        # What comes after the logits is the choice of one label.
        self._choice = Classify(labels, kind=self.kind, name=name, emphasis=emphasis)

    def features(
        self, example: RelationExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Mark both places and show them in one window, with as much around them as fits."""
        encoding = tokenizer.encode(example.text)
        places = [_found(place, encoding.offsets) for place in (example.first, example.second)]
        room = longest - tokenizer.specials.num_added(pair=False) - NUM_MARKS
        shown = pieces_near(len(encoding.ids), places, room=room)
        pieces = np.array(encoding.ids, dtype=np.int64)[shown]
        places = [(int(start), int(end)) for start, end in np.searchsorted(shown, places)]
        marked, starts = mark(pieces, places, marks_of(tokenizer))
        value = IGNORE if example.label is None else self._choice.id_of(example.label)
        at = starts[None] + 1  # the first piece is [CLS]
        goal = Goal((value,), at, weight=self._choice.emphasis.of(value))
        window = join_pieces(marked, None, tokenizer.specials)
        return [Features(*window, {self.name: goal}, example.line)]

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make a linear layer on the vectors of the marks before both places."""
        return PlacesHead(
            config,
            target=self.name,
            num_places=2,
            num_labels=len(self.labels),
            dropout=self.options["dropout"],
        )

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy."""
        return self._choice.loss(logits, target)

    def decode(
        self,
        example: RelationExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Name the likeliest relation."""
        return self._choice.decode(example, windows, logits, tokenizer)

    def scorer(self) -> LabelScorer:
        """Return what counts right relations."""
        return self._choice.scorer()

    def with_temperature(self, temperature: float) -> "Relate":
        """Return the task whose logits are divided by a temperature."""
        changed = copy(self)
        changed.options = self.options | {"temperature": temperature}
        changed._choice = self._choice.with_temperature(temperature)
        return changed


def mark(
    pieces: np.ndarray, places: Sequence[tuple[int, int]], marks: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Put marks before and behind places, and return where the first mark of each stands.

    Where one place ends as another begins, it ends first.
    """
    edges = sorted(
        (place[1 - is_start], is_start, number)
        for number, place in enumerate(places)
        for is_start in (False, True)
    )
    where = [at for at, _, _ in edges]
    marked = np.insert(pieces, where, [marks[number] for _, _, number in edges])
    starts = {number: at + nth for nth, (at, is_start, number) in enumerate(edges) if is_start}
    return marked, np.array([starts[number] for number in range(len(places))])


@lru_cache(maxsize=8)
def marks_of(tokenizer: Tokenizer) -> tuple[int, int]:
    """Return the pieces that mark the first and the second place in texts of a vocabulary."""
    found = [index for sign in SIGNS if (index := tokenizer.engine.token_to_id(sign)) is not None]
    first, second, *_ = [*found, tokenizer.specials.mask, tokenizer.specials.unknown]
    return first, second


def _found(place: Place, offsets: Sequence[Place]) -> tuple[int, int]:
    """Return from which piece to which a place of the text reaches."""
    start, end = place
    inside = [n for n, (begins, ends) in enumerate(offsets) if begins < end and ends > start]
    if not inside:
        raise DataError(f"the place {start}..{end} holds nothing that the tokenizer can read")
    return inside[0], inside[-1] + 1
