"""Retrieval sets for evaluate: documents are put in order for every query, and the order scored."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.core.artifact import Origin, refuse_existing, saving
from bertworks.core.errors import UsageError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.data.retrieval import RetrievalSet, read_retrieval_set
from bertworks.evaluation.answer_parts import Scores
from bertworks.evaluation.full_report import Part, Report, again, fingerprint
from bertworks.evaluation.ranking import RankingScores, WorstQueries
from bertworks.evaluation.run_parts import Speed
from bertworks.evaluation.statistics import interval_rows
from bertworks.serving.predictor import Predictor, load
from bertworks.stages.idle_flags import refuse_all_but
from bertworks.stages.setting_groups import BackendSettings, MachineSettings, RankingSettings
from bertworks.stages.settings import EvaluateSettings

DEFAULT_TOP = 100
MOST_WRITTEN, MOST_WORST = 100, 20  # documents of a query in the answers, queries on the page
MOST_CHARS = 300  # of a query there
CHUNK = 64  # queries compared at once

Order = list[tuple[str, float]]  # documents with how well they fit, best first


def run_ranking(settings: EvaluateSettings) -> dict[str, Any]:
    """Rank all documents of a retrieval set for each of its queries, and write a report."""
    groups = (RankingSettings, MachineSettings, BackendSettings)
    refuse_all_but(settings, *groups, of="retrieval sets")
    refuse_existing(settings.out)
    started, quarantine = time.monotonic(), Quarantine()
    found = read_retrieval_set(settings.data, quarantine)
    how = {**vars(settings.machine), **vars(settings.runtime)}
    model, retriever = load(settings.model, **how), None
    if settings.ranking.retriever is not None:
        retriever = load(settings.ranking.retriever, **how)
    _refuse_odd_flags(settings, model)
    inputs = {"model": settings.model, "data": settings.data}
    if settings.ranking.retriever is not None:
        inputs["retriever"] = settings.ranking.retriever
    origin = Origin(
        command=as_command("evaluate", settings), settings=as_json(settings), inputs=inputs
    )
    top = settings.ranking.top or DEFAULT_TOP
    orders = _rank(found, model) if retriever is None else _rerank(found, model, retriever, top)
    with saving(settings.out, kind="report", origin=origin) as folder:
        scores = _write_answers(found, orders, folder / "answers.jsonl")
        metrics = scores.metrics()
        counts = {"queries": len(scores.by_query), "documents": len(found.documents)}
        result: dict[str, Any] = {"task": "ranking", **counts, **metrics}
        result["intervals"] = interval_rows(scores.intervals())
        (folder / "scores.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        speed = Speed.of(model.machine, time.monotonic() - started, counts)
        last: list[Part] = [fingerprint(origin), speed, again(origin)]
        _report(settings, found, scores, last).write(folder)
        quarantine.write(folder)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    return {"report": str(settings.out), **result, "bad_rows": quarantine.num_bad}


def _refuse_odd_flags(settings: EvaluateSettings, model: Predictor) -> None:
    chosen = settings.ranking
    if chosen.retriever is None and chosen.top is not None:
        raise UsageError("--top is how many a retriever chooses; give a --retriever as well")
    if chosen.retriever is not None and not model.reads_pairs:
        raise UsageError(
            f"{settings.model} ranks by vectors itself, so a --retriever has nothing to choose for "
            "it; leave it out, or give a model fine-tuned for match or score"
        )


def _rank(found: RetrievalSet, model: Predictor) -> Iterator[tuple[str, Order]]:
    """Yield each query with all documents in order."""
    names, judged = list(found.documents), found.judged
    score = model.fits(list(found.documents.values()))
    for start in range(0, len(judged), CHUNK):
        queries = judged[start : start + CHUNK]
        rows = score([found.queries[query] for query in queries])
        for query, row in zip(queries, rows, strict=True):
            yield query, _in_order(names, row)


def _rerank(
    found: RetrievalSet, model: Predictor, retriever: Predictor, top: int
) -> Iterator[tuple[str, Order]]:
    """Yield each query with the documents that one model chose, in the other's order.

    Behind them come all others in the order of the first.
    """
    for query, order in _rank(found, retriever):
        chosen = [name for name, _ in order[:top]]
        score = model.fits([found.documents[name] for name in chosen])
        yield query, _in_order(chosen, score([found.queries[query]])[0]) + order[top:]


def _in_order(names: list[str], scores: np.ndarray) -> Order:
    return [(names[place], float(scores[place])) for place in np.argsort(-scores, kind="stable")]


def _write_answers(
    found: RetrievalSet, orders: Iterator[tuple[str, Order]], out: Path
) -> RankingScores:
    scores = RankingScores()
    with (
        out.open("w", encoding="utf-8") as file,
        progress("ranking", total=len(found.judged), unit="queries") as meter,
    ):
        for query, order in orders:
            own = scores.add(query, [name for name, _ in order], found.grades[query])
            row = {"query": query, **own, "documents": order[:MOST_WRITTEN]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            meter.advance()
    return scores


def _report(
    settings: EvaluateSettings, found: RetrievalSet, scores: RankingScores, last: Sequence[Part]
) -> Report:
    metrics = scores.metrics()
    first = next(iter(metrics))
    worst = sorted(scores.by_query.items(), key=lambda item: item[1][first])[:MOST_WORST]
    rows = tuple((query, row[first], found.queries[query][:MOST_CHARS]) for query, row in worst)
    return Report(
        title=f"Ranking of {settings.data.name} by {settings.model.name}",
        summary=f"{len(scores.by_query):,} queries, {len(found.documents):,} documents.",
        parts=[
            Scores.of_metrics(metrics, scores.intervals(), examples=len(scores.by_query)),
            WorstQueries(first, rows),
            *last,
        ],
    )
