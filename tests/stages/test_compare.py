"""compare: two reports of evaluate, from the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import read_manifest

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def reports(
    finetune_words: Run,
    classifier: Path,
    labelled: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    command: Run,
) -> dict[str, Path]:
    """Evaluate two models on dev, and one on other data."""
    folder = tmp_path_factory.mktemp("reports")
    ended = command(*finetune_words(folder / "other", epochs=1, seed=3, lr=0.0001))
    assert ended.code == 0, ended.err
    made = {"one": (classifier, "dev"), "two": (folder / "other", "dev")}
    made["elsewhere"] = (classifier, "train")
    for name, (model, data) in made.items():
        words = ["evaluate", "--model", model, "--data", labelled[data], "--out", folder / name]
        assert command(*words).code == 0
    return {name: folder / name for name in made}


def test_two_reports_are_compared_on_the_terminal_and_in_files(
    reports: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    words = ["compare", reports["one"], reports["two"], "--out", tmp_path / "out"]
    ended = command(*words)
    assert ended.code == 0, ended.err
    assert "scores:\n" in ended.out
    assert "slices:\n" in ended.out
    result = json.loads((tmp_path / "out" / "comparison.json").read_text())
    scores = {row["score"]: row for row in result["scores"]}
    for side, name in (("first", "one"), ("second", "two")):
        told = json.loads((reports[name] / "scores.json").read_text())
        assert scores["accuracy"][side] == pytest.approx(told["accuracy"])
        assert scores["mcc"][side] == pytest.approx(told["mcc"])
    assert scores["accuracy"]["test"] == "McNemar, exact"
    assert result["verdict"] in (tmp_path / "out" / "report.json").read_text()
    page = (tmp_path / "out" / "report.html").read_text()
    assert result["verdict"] in page
    assert "<h2>Scores</h2>" in page
    manifest = read_manifest(tmp_path / "out")
    assert manifest["inputs"]["second"]["path"] == str(reports["two"])


def test_json_alone_is_printed_without_a_folder(reports: dict[str, Path], command: Run) -> None:
    ended = command("compare", reports["one"], reports["two"], "--json")
    again = command("compare", reports["one"], reports["two"], "--json")
    assert json.loads(ended.out)["texts"] == 17
    assert again.out == ended.out


# Bad input


def test_reports_of_different_data_are_one_sentence(
    reports: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    words = ["compare", reports["one"], reports["elsewhere"], "--out", tmp_path / "out"]
    said = command(*words).refusal(2)
    assert "line 1 of the data of" in said
    assert said.endswith("evaluate both models on the same file")
    assert not (tmp_path / "out").exists()


def test_what_is_no_report_is_one_sentence(
    reports: dict[str, Path], classifier: Path, tmp_path: Path, command: Run
) -> None:
    said = command("compare", reports["one"], classifier).refusal(1)
    assert "holds a model, but a report is needed here" in said
    assert "there is no folder" in command("compare", tmp_path / "x", reports["one"]).refusal(1)
    assert command("compare", reports["one"]).refusal(2).startswith("compare needs SECOND")


def test_one_example_has_no_intervals_and_is_not_compared(
    classifier: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    (tmp_path / "one.jsonl").write_text(labelled["dev"].read_text().splitlines()[0] + "\n")
    words = ["evaluate", "--model", classifier, "--data", tmp_path / "one.jsonl"]
    ended = command(*words, "--out", tmp_path / "report", "--json")
    assert json.loads(ended.out)["intervals"] == []
    assert "all examples are about one text, so the scores have no intervals" in ended.err
    assert "no example has the label" in ended.err
    said = command("compare", tmp_path / "report", tmp_path / "report").refusal(1)
    assert "is of 1 text only, by which no two models can be told apart" in said
