"""Cutting documents into passages, and pairing their halves for objectives that ask of pairs."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from bertworks.core.pieces import IGNORE
from bertworks.data.shards import Shards

IS_NEXT, IS_RANDOM, IS_SWAPPED = 0, 1, 2  # what the second text of a pair is to the first
# The relation -> what each objective calls it; one that it does not ask about is left out.
LABELS = {
    "next_sentence": {IS_NEXT: 0, IS_RANDOM: 1},
    "sentence_order": {IS_NEXT: 0, IS_SWAPPED: 1},
}
CHANGES = {"next_sentence": IS_RANDOM, "sentence_order": IS_SWAPPED}
NUM_ATTEMPTS = 24  # to find a stranger; more matter only where one document is most of the corpus
NEIGHBOURS = 8  # of like length, tried first


@dataclass(frozen=True)
class Pairs:
    """One epoch's texts as token spans; the second span is empty in a text that is no pair."""

    first: np.ndarray  # [P, 2] start and end
    second: np.ndarray  # [P, 2]
    label: np.ndarray  # [P] IS_NEXT, IS_RANDOM, IS_SWAPPED, or IGNORE where there is no second

    def sizes(self) -> np.ndarray:
        """Return the number of pieces of each text, special pieces not counted."""
        return (self.first[:, 1] - self.first[:, 0]) + (self.second[:, 1] - self.second[:, 0])

    def label_for(self, objective: str, index: int) -> int:
        """Return what an objective should find in one pair."""
        return LABELS[objective].get(int(self.label[index]), IGNORE)


class Passages:
    """Runs of whole sentences of one document, each as long as fits."""

    def __init__(self, shards: Shards, *, room: int, held_out: bool) -> None:
        self.room = room
        self.bounds, starts = _refine(shards, room)
        chosen = np.flatnonzero(shards.is_held_out == held_out)
        spans = [span for d in chosen for span in self._cut(int(starts[d]), int(starts[d + 1]))]
        self.spans = np.array(spans, dtype=np.int64).reshape(-1, 2)  # [P, 2] sentences
        self.document_of = np.searchsorted(starts, self.spans[:, 0], side="right") - 1

    def __len__(self) -> int:
        return len(self.spans)

    def singles(self) -> Pairs:
        """Return every passage as a text of its own."""
        first = self.bounds[self.spans]
        label = np.full(len(self), IGNORE)
        return Pairs(first, np.repeat(first[:, 1:], 2, axis=1), label)

    def halves(self, random: np.random.Generator, *, share: float, repeated: float = 0.0) -> Pairs:
        """Split a share of the passages at a random sentence, of which nothing is asked.

        Of others a share is repeated: up to that sentence they stand in both parts, where there is
        room for it.
        """
        splits, (begin, end) = self._splits(random), self.spans.T
        chance = random.random(len(self))
        is_split = (splits < end) & (chance < share)
        first, middle, last = self.bounds[[begin, np.where(is_split, splits, end), end]]
        parts = np.stack([first, middle], axis=1), np.stack([middle, last], axis=1)
        if repeated:
            whole = self.bounds[splits]
            is_twice = (chance >= 1 - repeated) & ((whole - first) * 2 <= self.room)
            for part in parts:
                part[is_twice] = np.stack([first, whole], axis=1)[is_twice]
            is_split |= is_twice
        return Pairs(*parts, np.where(is_split, IS_NEXT, IGNORE))

    def pairs(
        self, random: np.random.Generator, objectives: Collection[str] = ("next_sentence",)
    ) -> Pairs:
        """Split each passage at a random sentence; not all pairs stay as they are.

        For next_sentence a stranger takes the place of the second part: that of a passage of
        another document, about as long, so that neither length nor beginning nor ending tells the
        answer. For sentence_order the parts change places. Each change comes as often as none.
        """
        begin, end = self.spans[:, 0], self.spans[:, 1]
        split = self._splits(random)
        first = np.stack([self.bounds[begin], self.bounds[split]], axis=1)
        second = np.stack([self.bounds[split], self.bounds[end]], axis=1)
        stranger = np.where(split < end, np.arange(len(self)), -1)
        if "next_sentence" in objectives:
            stranger = self._strangers(first, second, random)
        is_pair = stranger >= 0
        changes = [label for name, label in CHANGES.items() if name in objectives]
        chance = random.random(len(self)) * (len(changes) + 1)
        label = np.select([chance < n + 1 for n in range(len(changes))], changes, IS_NEXT)
        label[~is_pair] = IGNORE
        is_random, is_swapped = label == IS_RANDOM, label == IS_SWAPPED
        second[is_random] = second[stranger[is_random]]
        first[is_swapped], second[is_swapped] = second[is_swapped], first[is_swapped]
        first[~is_pair, 1] = second[~is_pair, 0] = self.bounds[end[~is_pair]]
        return Pairs(first, second, label)

    def _splits(self, random: np.random.Generator) -> np.ndarray:
        """Draw a sentence inside each passage; of one sentence it is the end."""
        begin, end = self.spans.T
        return begin + 1 + random.integers(np.maximum(end - begin - 1, 1))

    def _strangers(
        self, first: np.ndarray, second: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """Return for each passage another one to take the second part from, or -1 for none.

        Passages are ranked by the length of their second part, and neighbours in rank are tried.
        """
        sizes = second[:, 1] - second[:, 0]
        space = self.room - (first[:, 1] - first[:, 0])
        ranked = np.lexsort((random.random(len(self)), sizes))  # equal lengths in random order
        ranked = ranked[sizes[ranked] > 0]
        found = np.full(len(self), -1)
        for attempt in range(NUM_ATTEMPTS):
            ranks = np.flatnonzero(found[ranked] < 0)
            reach = NEIGHBOURS * (attempt + 1)
            others = ranks + random.integers(-reach, reach + 1, size=len(ranks))
            own, other = ranked[ranks], ranked[others % max(len(ranked), 1)]
            fits = (sizes[other] <= space[own]) & (self.document_of[other] != self.document_of[own])
            found[own[fits]] = other[fits]
        return found

    def _cut(self, begin: int, end: int) -> list[tuple[int, int]]:
        spans = []
        while begin < end:
            limit = self.bounds[begin] + self.room
            after = int(np.searchsorted(self.bounds[: end + 1], limit, side="right")) - 1
            spans.append((begin, after))
            begin = after
        return spans


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
