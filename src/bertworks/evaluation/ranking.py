"""How good a ranking of documents is: scores of each query, and their means."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bertworks.evaluation.bootstrap import intervals
from bertworks.evaluation.report_blocks import Block, Heading, Table, number
from bertworks.evaluation.statistics import Interval
from bertworks.tasks.statistic import mean_of

CUTS = (10, 100)  # how far down recall looks
NDCG_CUT = 10


def score_ranking(ranked: Sequence[str], grades: Mapping[str, float]) -> dict[str, float]:
    """Return the scores of one query's documents, best first; the first score is the main one.

    Documents with a grade above 0 answer the query; those without one do not.
    """
    gains = np.array([grades.get(document, 0.0) for document in ranked])
    best = np.sort([grade for grade in grades.values() if grade > 0])[::-1]
    hits = gains > 0
    places = np.flatnonzero(hits) + 1
    precisions = np.arange(1, len(places) + 1) / places
    return {
        f"ndcg@{NDCG_CUT}": _discounted(gains) / _discounted(best),
        **{f"recall@{cut}": float(hits[:cut].sum() / len(best)) for cut in CUTS},
        "mrr": float(1 / places[0]) if len(places) else 0.0,
        "map": float(precisions.sum() / len(best)),
    }


class RankingScores:
    """The mean scores of many queries."""

    def __init__(self) -> None:
        self.by_query: dict[str, dict[str, float]] = {}

    def add(
        self, query: str, ranked: Sequence[str], grades: Mapping[str, float]
    ) -> dict[str, float]:
        """Take the ranking of one query and return its scores."""
        self.by_query[query] = score_ranking(ranked, grades)
        return self.by_query[query]

    def metrics(self) -> dict[str, float]:
        """Return the mean of each score over the queries."""
        rows = list(self.by_query.values())
        return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def intervals(self) -> dict[str, Interval]:
        """Return each mean with its range; queries are drawn."""
        rows = list(self.by_query.values())
        columns = {name: mean_of(np.array([row[name] for row in rows])) for name in rows[0]}
        return intervals(columns, np.arange(len(rows)))


def _discounted(gains: np.ndarray) -> float:
    top = gains[:NDCG_CUT]
    return float((top / np.log2(np.arange(2, len(top) + 2))).sum())


@dataclass(frozen=True)
class WorstQueries:
    """The queries with the lowest scores, as a part of a report."""

    key: ClassVar[str] = "queries"
    score: str
    rows: tuple[tuple[str, float, str], ...]  # the query's name, its score, its text

    def blocks(self) -> Iterator[Block]:
        """Show them in a table."""
        yield Heading("Worst queries")
        rows = [(name, number(score), text) for name, score, text in self.rows]
        yield Table(("query", self.score, "text"), rows)
