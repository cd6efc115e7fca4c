"""Scores of rankings, against plain loops and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from bertworks.evaluation.ranking import RankingScores, WorstQueries, score_ranking
from bertworks.evaluation.report_blocks import Table

grades = st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0, 4.0]), min_size=2, max_size=130).filter(any)


def by_loops(gains: list[float]) -> dict[str, float]:
    """Score gains in the order of their documents, step by step."""

    def discounted(row: list[float]) -> float:
        return sum(gain / math.log2(place + 1) for place, gain in enumerate(row[:10], start=1))

    relevant = sum(gain > 0 for gain in gains)
    places = [place for place, gain in enumerate(gains, start=1) if gain > 0]
    precise = [sum(other <= place for other in places) / place for place in places]
    return {
        "ndcg@10": discounted(gains) / discounted(sorted(gains, reverse=True)),
        "recall@10": sum(place <= 10 for place in places) / relevant,
        "recall@100": sum(place <= 100 for place in places) / relevant,
        "mrr": 1 / places[0],
        "map": sum(precise) / relevant,
    }


@given(grades)
def test_scores_are_their_definitions(gains: list[float]) -> None:
    names = [str(number) for number in range(len(gains))]
    found = score_ranking(names, dict(zip(names, gains, strict=True)))
    assert found == pytest.approx(by_loops(gains))
    scores = -np.arange(len(gains), dtype=float)
    assert found["ndcg@10"] == pytest.approx(ndcg_score([gains], [scores], k=10))
    is_relevant = np.array(gains) > 0
    assert found["map"] == pytest.approx(average_precision_score(is_relevant, scores))


def test_documents_that_were_not_found_still_count() -> None:
    found = score_ranking(["x", "a"], {"a": 1.0, "b": 1.0})
    assert (found["map"], found["mrr"], found["recall@10"]) == (0.25, 0.5, 0.5)
    assert score_ranking(["x"], {"a": 1.0})["mrr"] == 0.0


def test_the_scores_of_a_set_are_means_over_its_queries() -> None:
    scores = RankingScores()
    scores.add("one", ["a", "b"], {"a": 1.0})
    scores.add("two", ["a", "b"], {"b": 1.0})
    assert scores.metrics()["mrr"] == pytest.approx(0.75)
    assert next(iter(scores.metrics())) == "ndcg@10"


def test_the_worst_queries_are_shown_with_their_score() -> None:
    part = WorstQueries("map", (("q7", 0.25, "what is | this"),))
    (table,) = (block for block in part.blocks() if isinstance(block, Table))
    assert table.header == ("query", "map", "text")
    assert table.rows == [("q7", "0.250", "what is | this")]
