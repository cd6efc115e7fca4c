"""Cutting documents into passages, and pairing them for next-sentence prediction."""

from dataclasses import dataclass

import numpy as np

from bertworks.core.pieces import IGNORE
from bertworks.data.shards import Shards

IS_NEXT, IS_RANDOM = 0, 1  # BERT's labels for the second text of a pair


@dataclass(frozen=True)
class Pairs:
    """One epoch's texts as token spans; the second span is empty in a text that is no pair."""

    first: np.ndarray  # [P, 2] start and end
    second: np.ndarray  # [P, 2]
    label: np.ndarray  # [P] IS_NEXT, IS_RANDOM, or IGNORE where there is no second

    def sizes(self) -> np.ndarray:
        """Return the number of pieces of each text, special pieces not counted."""
        return (self.first[:, 1] - self.first[:, 0]) + (self.second[:, 1] - self.second[:, 0])


class Passages:
    """Runs of whole sentences of one document, each as long as fits."""

    def __init__(self, shards: Shards, *, room: int, held_out: bool) -> None:
        self.bounds, self.documents = _refine(shards, room)
        starts = self.documents
        chosen = np.flatnonzero(shards.is_held_out == held_out)
        spans = [
            span for d in chosen for span in self._cut(int(starts[d]), int(starts[d + 1]), room)
        ]
        self.spans = np.array(spans, dtype=np.int64).reshape(-1, 2)  # [P, 2] sentences
        self.document_of = np.searchsorted(starts, self.spans[:, 0], side="right") - 1
        self._others = _Elsewhere(starts, chosen)

    def __len__(self) -> int:
        return len(self.spans)

    def singles(self) -> Pairs:
        """Return every passage as a text of its own."""
        first = self.bounds[self.spans]
        label = np.full(len(self), IGNORE)
        return Pairs(first, np.repeat(first[:, 1:], 2, axis=1), label)

    def pairs(self, random: np.random.Generator) -> Pairs:
        """Split each passage at a random sentence; replace half of the second parts from elsewhere.

        The replacement is as long as what it replaces allows, and ends with a sentence too, so that
        neither length nor ending tells the answer.
        """
        begin, end = self.spans[:, 0], self.spans[:, 1]
        split = begin + 1 + random.integers(np.maximum(end - begin - 1, 1))
        is_pair = (end - begin > 1) & self._others.exist(self.document_of)
        split = np.where(is_pair, split, end)
        first = np.stack([self.bounds[begin], self.bounds[split]], axis=1)
        second = np.stack([self.bounds[split], self.bounds[end]], axis=1)
        swap = is_pair & (random.random(len(self)) < 0.5)
        elsewhere = self._others.draw(self.document_of, random)
        second[swap] = self._replacement(elsewhere[swap], second[swap, 1] - second[swap, 0])
        label = np.where(is_pair, np.where(swap, IS_RANDOM, IS_NEXT), IGNORE)
        return Pairs(first, second, label)

    def _replacement(self, sentence: np.ndarray, room: np.ndarray) -> np.ndarray:
        """Return the token span from a sentence on that fits the room, in whole sentences."""
        start = self.bounds[sentence]
        last = self.documents[np.searchsorted(self.documents, sentence, side="right")]
        fitting = np.searchsorted(self.bounds, start + room, side="right") - 1
        end = self.bounds[np.minimum(fitting, last)]
        return np.stack([start, np.where(end > start, end, start + room)], axis=1)

    def _cut(self, begin: int, end: int, room: int) -> list[tuple[int, int]]:
        spans = []
        while begin < end:
            limit = self.bounds[begin] + room
            after = int(np.searchsorted(self.bounds[: end + 1], limit, side="right")) - 1
            spans.append((begin, after))
            begin = after
        return spans


class _Elsewhere:
    """Draws sentences from any chosen document but one."""

    def __init__(self, document_starts: np.ndarray, chosen: np.ndarray) -> None:
        sizes = document_starts[chosen + 1] - document_starts[chosen]
        self.ends = np.cumsum(sizes)
        self.shift = document_starts[chosen] - (self.ends - sizes)  # from dense to real numbers
        self.slot = np.full(len(document_starts), -1)
        self.slot[chosen] = np.arange(len(chosen))
        self.sizes = sizes

    def exist(self, documents: np.ndarray) -> np.ndarray:
        """Tell whether there is a sentence outside each document."""
        return self.ends[-1] - self.sizes[self.slot[documents]] > 0

    def draw(self, documents: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Return one sentence outside each document, all equally likely."""
        slot = self.slot[documents]
        size = self.sizes[slot]
        drawn = random.integers(np.maximum(self.ends[-1] - size, 1))
        drawn += np.where(drawn >= self.ends[slot] - size, size, 0)
        place = np.minimum(np.searchsorted(self.ends, drawn, side="right"), len(self.ends) - 1)
        return drawn + self.shift[place]


def _refine(shards: Shards, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sentence bounds in which overlong sentences are cut, and documents in those terms."""
    lengths = np.diff(shards.sentence_starts)
    num_cuts = np.maximum(-(-lengths // room), 1)
    first_cut = np.concatenate([[0], np.cumsum(num_cuts)])
    sentence = np.repeat(np.arange(len(lengths)), num_cuts)
    place = np.arange(first_cut[-1]) - first_cut[sentence]
    starts = shards.sentence_starts[sentence] + place * room
    bounds = np.append(starts, shards.sentence_starts[-1])
    return bounds, first_cut[shards.document_starts]
