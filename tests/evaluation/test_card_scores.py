"""Scores for a card: of a suite by seeds, of a file with a range, and nothing else."""

import json
from pathlib import Path

import pytest

from bertworks.core.artifact import Origin, saving
from bertworks.core.errors import ArtifactError, UsageError
from bertworks.evaluation.card_scores import read_scores
from bertworks.evaluation.markdown_page import markdown_page

TASK = {
    "examples": {"train": 90, "dev": 1043},
    "scores": {
        "dev": [{"matthews": 0.31, "f1": 0.5}, {"matthews": 0.36}, {"matthews": 0.29}],
        "test": [],
    },
    "remarks": [],
    "failure": None,
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    folder.mkdir()
    failed = {"examples": {}, "scores": {}, "remarks": [], "failure": "no file"}
    told = {
        "command": "bertworks evaluate --suite glue",
        "rows": [{"task": "CoLA", "metric": "matthews"}, {"task": "RTE", "metric": "accuracy"}],
        "tasks": {"CoLA": TASK, "RTE": failed},
    }
    (folder / "results.json").write_text(json.dumps(told))
    return folder


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder, data = tmp_path / "report", tmp_path / "dev.jsonl"
    data.write_text("")
    told = {
        "task": "classify",
        "examples": 17,
        "bad_rows": 0,
        "accuracy": 0.875,
        "macro_f1": 0.8,
        "intervals": [{"score": "accuracy", "low": 0.75, "high": 0.95}],
    }
    origin = Origin(command="bertworks evaluate --data dev.jsonl", inputs={"data": data})
    with saving(folder, kind="report", origin=origin) as inside:
        (inside / "scores.json").write_text(json.dumps(told))
    return folder


def test_a_suite_gives_the_mean_and_the_ends_of_its_seeds(suite: Path) -> None:
    (row,) = read_scores([suite]).rows
    assert (row.data, row.metric, row.examples, row.seeds) == ("CoLA, dev", "matthews", 1043, 3)
    assert row.estimate.value == pytest.approx(0.32)
    assert row.estimate.bounds == (0.29, 0.36)


def test_a_file_gives_its_range_where_it_has_one(report: Path) -> None:
    first, second = read_scores([report]).rows
    assert (first.data, first.metric, first.seeds) == ("dev.jsonl", "accuracy", None)
    assert str(first.estimate) == "0.875 [0.750, 0.950]"
    assert str(second.estimate) == "0.800"


def test_the_part_shows_all_scores_and_their_commands(suite: Path, report: Path) -> None:
    page = markdown_page("t", list(read_scores([suite, report]).blocks()))
    assert "| CoLA, dev | matthews | 1,043 | 3 | 0.320 [0.290, 0.360] |" in page
    assert "| dev.jsonl | accuracy | 17 | – | 0.875 [0.750, 0.950] |" in page
    assert "bertworks evaluate --suite glue" in page
    assert "Tasks that ended without a score: RTE." in page
    assert "None were taken." in markdown_page("t", list(read_scores([]).blocks()))


def test_what_the_suite_remarks_stands_beside_the_score(suite: Path) -> None:
    told = json.loads((suite / "results.json").read_text())
    told["tasks"]["CoLA"]["remarks"] = ["trained on 60 of 8,551 examples", "2 seeds collapsed"]
    (suite / "results.json").write_text(json.dumps(told))
    page = markdown_page("t", list(read_scores([suite]).blocks()))
    assert "| 0.320 [0.290, 0.360] | trained on 60 of 8,551 examples; 2 seeds collapsed |" in page


@pytest.mark.parametrize("names", [["own"], ["other"]])
def test_scores_of_another_model_are_refused(suite: Path, names: list[str]) -> None:
    told = json.loads((suite / "results.json").read_text())
    told["inputs"] = {"model": {"path": "runs/mine", "sha256": "own"}}
    (suite / "results.json").write_text(json.dumps(told))
    if names == ["own"]:
        assert read_scores([suite], names).rows
        return
    with pytest.raises(UsageError, match="are of runs/mine, which is another model"):
        read_scores([suite], names)


def test_a_retrieval_set_has_no_count_of_examples(suite: Path) -> None:
    task = {"examples": {}, "scores": {"test": [{"ndcg": 0.4}]}, "remarks": [], "failure": None}
    told = {"rows": [{"task": "cranfield", "metric": "ndcg"}], "tasks": {"cranfield": task}}
    (suite / "results.json").write_text(json.dumps(told))
    page = markdown_page("t", list(read_scores([suite]).blocks()))
    assert "| cranfield, test | ndcg | – | 1 | 0.400 |" in page


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"neither results\.json nor scores\.json"):
        read_scores([tmp_path])


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"rows": []},
        {"rows": [], "tasks": []},
        {"rows": [], "tasks": {"a": {}}},
        {"rows": 3},
        {"rows": [{"task": "a", "metric": "b"}], "tasks": {}},
    ],
)
def test_a_table_of_another_form_is_refused(tmp_path: Path, told: object) -> None:
    (tmp_path / "results.json").write_text(json.dumps(told))
    with pytest.raises(ArtifactError, match="is no table of a suite"):
        read_scores([tmp_path])


def test_scores_that_are_no_numbers_are_refused(report: Path) -> None:
    (report / "scores.json").write_text('{"accuracy": "high", "examples": 3}')
    with pytest.raises(ArtifactError, match="holds no scores"):
        read_scores([report])
