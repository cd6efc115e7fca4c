"""Bootstrap intervals: seconds for all scores of a result, by the kind of task.

    python benchmarks/bootstrap.py [--rows 100000] [--units 0]

Every line is a made result of so many rows, of which each score that the task reports is drawn
10,000 times; the seconds are of everything, from what was counted to the intervals. `--units` lets
rows share so many texts, which are then drawn whole.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from bertworks.evaluation.bootstrap import intervals
from bertworks.tasks.answer_scores import AnswerScorer
from bertworks.tasks.metrics import LabelScores, LabelSetScores, NumberScores
from bertworks.tasks.statistic import Statistic

Made = dict[str, Callable[[], dict[str, Statistic]]]


def main() -> None:
    """Make the results, draw from each, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--units", type=int, default=0)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    units = np.arange(options.rows)
    if options.units:
        units = np.unique(random.integers(options.units, size=options.rows), return_inverse=True)[1]
    print(f"{options.rows:,} rows about {len(np.unique(units)):,} texts")
    print(f"{'result':<28}{'scores':>8}{'seconds':>10}   first score")
    for name, statistics in made_results(options.rows, random).items():
        started = time.perf_counter()
        found = intervals(statistics(), units)
        seconds = time.perf_counter() - started
        first, interval = next(iter(found.items()))
        print(f"{name:<28}{len(found):>8}{seconds:>10.2f}   {first} {interval}")


def made_results(count: int, random: np.random.Generator) -> Made:
    """Make a result of each kind, good in four of five rows."""
    numbers = NumberScores()
    for gold, noise in zip(*random.normal(size=(2, count)), strict=True):
        numbers.add(gold, gold + noise)
    answers = AnswerScorer()
    for f1 in random.choice([0.0, 0.4, 0.5, 2 / 3, 0.8, 1.0], size=count):
        answers.take({"f1": f1, "exact": float(f1 == 1), "has_gold": random.random() < 0.5})
    sets = LabelSetScores(15)
    for chances in random.random((count, 15)):
        sets.add(chances + random.normal(size=15) / 4 > 0.7, chances > 0.7, chances.tolist())
    return {
        "one of 2 labels": labelled(2, count, random).statistics,
        "one of 15 labels": labelled(15, count, random).statistics,
        "sets of 15 labels": sets.statistics,
        "numbers": numbers.statistics,
        "answers in passages": answers.statistics,
    }


def labelled(num_labels: int, count: int, random: np.random.Generator) -> LabelScores:
    """Make answers of which four in five are right."""
    scores = LabelScores(num_labels)
    for gold, chances in zip(
        random.integers(num_labels, size=count),
        random.dirichlet(np.ones(num_labels), size=count),
        strict=True,
    ):
        chances[gold] += random.random() < 0.8
        scores.add(int(gold), (chances / chances.sum()).tolist())
    return scores


if __name__ == "__main__":
    main()
