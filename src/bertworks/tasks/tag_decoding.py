"""From the scores of words to their tags: the best way through all, and how sure it is.

Shapes: M words, L labels.
"""

from collections.abc import Sequence

import numpy as np

from bertworks.data.tag_schemes import Scheme, may_follow

# What keeps a tag from a place where it may not stand; a text that leaves no other way gets it.
FORBIDDEN = -1e6
LEAST, LEAST_CHANCE = 1e-30, 1e-100  # so small that nothing is left of them, but not zero


def rules_of(labels: Sequence[str], scheme: Scheme) -> np.ndarray:
    """Tell which tag may stand behind which, [L+1, L+1]; the last is the edge of the text."""
    around = [*labels, None]
    return np.array([[may_follow(before, tag, scheme) for tag in around] for before in around])


class TagChain:
    """The tags of a text, each scored by itself or beside the one before it."""

    def __init__(self, rows: np.ndarray, rules: np.ndarray) -> None:
        self._num_labels = len(rules) - 1
        self._rows = rows  # [M, L], or [M, L * L] with the label before it first
        self._rules = rules
        self._may_follow = np.where(rules, 1.0, LEAST)

    def best(self) -> np.ndarray:
        """Return the tags whose scores are highest together, [M]."""
        costs = np.where(self._rules, 0.0, FORBIDDEN)
        came_from = np.zeros((len(self._rows), self._num_labels), np.int64)
        reached = self._scores(0)[0] + costs[-1, :-1]
        for word in range(1, len(self._rows)):
            ways = reached[:, None] + costs[:-1, :-1] + self._scores(word)
            came_from[word] = ways.argmax(axis=0)
            reached = ways.max(axis=0)
        path = np.zeros(len(self._rows), np.int64)
        path[-1] = (reached + costs[:-1, -1]).argmax()
        for word in range(len(path) - 1, 0, -1):
            path[word - 1] = came_from[word, path[word]]
        return path

    def chances(self, path: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of each tag of a path, and that after the tag before it, [M]."""
        after = np.ones((len(path), self._num_labels))  # all that may follow a tag
        after[-1] = self._may_follow[:-1, -1]
        for word in range(len(path) - 1, 0, -1):
            after[word - 1] = _shares(self._weights(word) @ after[word])
        alone, behind = np.zeros(len(path)), np.zeros(len(path))
        reached = np.ones(1)
        for word, tag in enumerate(path):
            weights = self._weights(word)
            reached = _shares(reached @ weights)
            alone[word] = _shares(reached * after[word])[tag]
            before = path[word - 1] if word else 0
            behind[word] = _shares(weights[before] * after[word])[tag]
        return alone, behind

    def _weights(self, word: int) -> np.ndarray:
        """Return what each way to a word's tags weighs, [L, L]; to the first word [1, L]."""
        scores = self._scores(word)
        weights = np.maximum(np.exp(scores - scores.max()), LEAST_CHANCE)
        if word == 0:
            return weights[:1] * self._may_follow[-1:, :-1]
        return weights * self._may_follow[:-1, :-1]

    def _scores(self, word: int) -> np.ndarray:
        """Return the scores of a word's tags, after each tag before it or after any."""
        return self._rows[word].astype(np.float64).reshape(-1, self._num_labels)


def _shares(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()
