"""evaluate on a retrieval set: by vectors, by a model of pairs, and by both."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks

Run = Callable[..., Any]


@pytest.fixture(scope="session")
def retrieval(folder: Path, make_rows: Callable[..., list[dict[str, str]]]) -> Path:
    """Write queries and documents about two topics; those of the same topic fit."""
    place = folder / "retrieval"
    place.mkdir()
    queries, documents = make_rows(3, seed=21), make_rows(11, seed=22)
    for name, rows in (("queries", queries), ("documents", documents)):
        lines = (json.dumps({"id": n, "text": row["text"]}) for n, row in enumerate(rows))
        (place / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    judged = [
        f"{q}\t{d}\t{int(query['label'] == document['label'])}"
        for q, query in enumerate(queries)
        for d, document in enumerate(documents)
    ]
    (place / "judgements.tsv").write_text("\n".join(["query\tdocument\tgrade", *judged]) + "\n")
    return place


@pytest.fixture
def evaluate(retrieval: Path, tmp_path: Path, command: Run) -> Run:
    """Rank the set by a model."""

    def run(model: Path, *more: Any) -> Any:
        words = ["evaluate", "--model", model, "--data", retrieval, "--out", tmp_path / "report"]
        return command(*words, *more, "--json")

    return run


def rows_of(report: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (report / "answers.jsonl").read_text().splitlines()]


def texts_of(retrieval: Path, name: str) -> list[str]:
    lines = (retrieval / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_vectors_rank_all_documents_for_each_query(
    evaluate: Run, retrieval: Path, pretrained: Path, tmp_path: Path
) -> None:
    result = json.loads(evaluate(pretrained).out)
    assert (result["task"], result["queries"], result["documents"]) == ("ranking", 3, 11)
    rows = rows_of(tmp_path / "report")
    for name in ("ndcg@10", "recall@10", "mrr", "map"):
        assert result[name] == pytest.approx(np.mean([row[name] for row in rows]))
    assert [row["score"] for row in result["intervals"]][:2] == ["ndcg@10", "recall@10"]
    assert all(row["low"] <= result[row["score"]] <= row["high"] for row in result["intervals"])
    model = bertworks.load(pretrained, device="cpu")
    query, documents = texts_of(retrieval, "queries")[0], texts_of(retrieval, "documents")
    ranked = model.rank(query, documents)
    assert [int(name) for name, _ in rows[0]["documents"]] == [found.place for found in ranked]
    told = json.loads((tmp_path / "report" / "report.json").read_text())
    assert told["scores"]["examples"] == len(told["queries"]["rows"])
    assert {"data", "speed", "again"} <= told.keys()
    assert "Worst queries" in (tmp_path / "report" / "report.md").read_text()
    assert (tmp_path / "report" / "report.html").is_file()


def test_a_model_of_pairs_reads_every_pair(
    evaluate: Run, retrieval: Path, matcher: Path, tmp_path: Path
) -> None:
    assert evaluate(matcher).code == 0
    query, documents = texts_of(retrieval, "queries")[0], texts_of(retrieval, "documents")
    answers = bertworks.load(matcher, device="cpu").predict([(query, text) for text in documents])
    expected = sorted((answer["probabilities"]["same"] for answer in answers), reverse=True)
    given = [score for _, score in rows_of(tmp_path / "report")[0]["documents"]]
    assert given == pytest.approx(expected, abs=1e-5)


def test_a_retriever_chooses_what_a_model_of_pairs_puts_in_order(
    evaluate: Run, pretrained: Path, matcher: Path, tmp_path: Path, retrieval: Path
) -> None:
    assert evaluate(matcher, "--retriever", pretrained, "--top", 4).code == 0
    first = rows_of(tmp_path / "report")[0]["documents"]
    query, documents = texts_of(retrieval, "queries")[0], texts_of(retrieval, "documents")
    chosen = [found.place for found in bertworks.load(pretrained).rank(query, documents)]
    assert {int(name) for name, _ in first[:4]} == set(chosen[:4])
    assert [int(name) for name, _ in first[4:]] == chosen[4:]
    scores = [score for _, score in first[:4]]
    assert scores == sorted(scores, reverse=True)


def test_flags_that_do_not_fit_are_one_sentence(
    evaluate: Run,
    pretrained: Path,
    classifier: Path,
    matcher: Path,
    labelled: dict[str, Path],
    tmp_path: Path,
    command: Run,
) -> None:
    said = evaluate(pretrained, "--retriever", pretrained).refusal(2)
    assert "ranks by vectors itself" in said
    assert "give a --retriever as well" in evaluate(matcher, "--top", 3).refusal(2)
    words = ["evaluate", "--model", classifier, "--data", labelled["dev"], "--top", 3]
    said = command(*words, "--out", tmp_path / "other").refusal(2)
    assert said.startswith("--top is for ranking; give the folder of a retrieval set")
    for words in (["--task", "nonsense"], ["--zero-shot", "a", "b"], ["--beams", 7]):
        said = evaluate(pretrained, *words).refusal(2)
        assert said == f"{words[0]} is not for retrieval sets; leave it out"


def test_a_folder_that_holds_nothing_is_one_sentence(
    pretrained: Path, tmp_path: Path, command: Run
) -> None:
    (tmp_path / "empty").mkdir()
    words = ["evaluate", "--model", pretrained, "--data", tmp_path / "empty"]
    said = command(*words, "--out", tmp_path / "report").refusal(1)
    assert "holds no retrieval set" in said
    assert not (tmp_path / "report").exists()
