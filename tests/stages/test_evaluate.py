"""evaluate: a model's answers to labelled rows, scored, with a page that shows them."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bertworks.core.artifact import MANIFEST, read_manifest

Run = Callable[..., Any]
Write = Callable[[Path, list[Any]], Path]
Contents = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def words(classifier: Path, labelled: dict[str, Path]) -> Callable[..., list[Any]]:
    """Say the words of an evaluation."""

    def make(out: Path, *, model: Path = classifier, data: Path | None = None) -> list[Any]:
        return ["evaluate", "--model", model, "--data", data or labelled["dev"], "--out", out]

    return make


def answers_of(report: Path) -> list[dict[str, Any]]:
    """Return the rows of a report."""
    return [json.loads(line) for line in (report / "answers.jsonl").read_text().splitlines()]


def test_the_scores_are_those_of_the_answers(words: Run, tmp_path: Path, command: Run) -> None:
    ended = command(*words(tmp_path / "report"), "--json")
    result = json.loads(ended.out)
    rows = answers_of(tmp_path / "report")
    share = sum(row["label"] == row["gold"] for row in rows) / len(rows)
    assert result["accuracy"] == pytest.approx(share)
    bounds = {row["score"]: row for row in result["intervals"]}
    assert bounds["accuracy"]["low"] <= share <= bounds["accuracy"]["high"]
    assert {"accuracy", "macro_f1", "mcc", "auc", "brier"} <= bounds.keys()
    assert all(row["low"] <= result[name] <= row["high"] for name, row in bounds.items())
    assert 0 <= result["ece"] <= 1
    assert 0 <= result["brier"] <= 1
    assert (result["examples"], result["task"], result["bad_rows"]) == (17, "classify", 0)
    assert [row["line"] for row in rows] == list(range(1, 18))
    scores = json.loads((tmp_path / "report" / "scores.json").read_text())
    assert scores == {key: result[key] for key in scores}


def test_a_report_says_how_it_was_made_and_can_be_made_again(
    words: Run,
    classifier: Path,
    labelled: dict[str, Path],
    tmp_path: Path,
    command: Run,
    run_again: Callable[..., Path],
) -> None:
    assert command(*words(tmp_path / "one")).code == 0
    manifest = read_manifest(tmp_path / "one")
    assert manifest["kind"] == "report"
    assert manifest["inputs"]["model"]["path"] == str(classifier)
    assert manifest["inputs"]["data"]["path"] == str(labelled["dev"])
    assert manifest["settings"]["device"] == "auto"
    again = run_again(tmp_path / "one", tmp_path / "two")
    for name in ("answers.jsonl", "scores.json"):
        assert (again / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


def test_the_page_shows_mistakes_and_runs_nothing_of_the_data(
    words: Run, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    attack = "<script>alert(1)</script> river"
    rows = [{"text": attack, "label": label} for label in ("water", "road") * 5]
    data = write_rows(tmp_path / "rows.jsonl", rows)
    assert command(*words(tmp_path / "report", data=data)).code == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; river" in page
    assert not re.findall(r"<script|src=|href=|url\(|@import|https?:", page)
    assert "expected calibration error" in page
    assert "<dt>accuracy</dt><dd>0.500" in page
    assert "bertworks evaluate --model" in page


def test_page_markdown_and_json_tell_the_same_scores(
    words: Run, tmp_path: Path, command: Run
) -> None:
    result = json.loads(command(*words(tmp_path / "report"), "--json").out)
    told = json.loads((tmp_path / "report" / "report.json").read_text())
    first = told["scores"]["scores"][0]
    assert (first["name"], first["value"]) == ("accuracy", result["accuracy"])
    assert result["intervals"][0] == {
        "score": "accuracy",
        "low": first["low"],
        "high": first["high"],
    }
    assert sum(map(sum, told["confusion"]["counts"])) == 17
    assert {file["name"] for file in told["data"]["files"]} == {"data", "model"}
    assert told["speed"]["counts"] == {"examples": 17}
    assert all(found["severity"] != "error" for found in told["findings"]["findings"])
    shown = f"{result['accuracy']:.3f}"
    for name in ("report.html", "report.md"):
        assert shown in (tmp_path / "report" / name).read_text()


def test_the_report_tells_what_is_odd_about_the_data(
    words: Run, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    rows = [{"text": "a river", "label": label} for label in ("water", "road", "water")]
    data = write_rows(tmp_path / "rows.jsonl", rows)
    assert command(*words(tmp_path / "report", data=data)).code == 0
    told = json.loads((tmp_path / "report" / "report.json").read_text())
    assert any("rows.jsonl" in found["said"] for found in told["findings"]["findings"])


def test_each_label_has_its_scores_on_the_page_and_in_a_file(
    words: Run, tmp_path: Path, command: Run
) -> None:
    assert command(*words(tmp_path / "report")).code == 0
    rows = answers_of(tmp_path / "report")
    labels = json.loads((tmp_path / "report" / "labels.json").read_text())
    assert list(labels) == ["road", "water"]
    for label, found in labels.items():
        gold = [row for row in rows if row["gold"] == label]
        given = [row for row in rows if row["label"] == label]
        right = sum(row["label"] == label for row in gold)
        assert found["support"] == len(gold)
        assert found["recall"] == pytest.approx(right / len(gold))
        assert found["precision"] == pytest.approx(right / max(len(given), 1))
    page = (tmp_path / "report" / "report.html").read_text()
    assert "<h2>Labels</h2><table>" in page.replace("\n", "")
    assert "<td>water</td>" in page


def test_pairs_are_scored_by_a_model_for_pairs(
    words: Run, matcher: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    ended = command(
        *words(tmp_path / "report", model=matcher, data=labelled["dev_pairs"]), "--json"
    )
    assert json.loads(ended.out)["task"] == "match"
    assert {row["gold"] for row in answers_of(tmp_path / "report")} == {"other", "same"}


def test_columns_may_have_other_names(
    words: Run, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    rows = [json.loads(line) for line in labelled["dev"].read_text().splitlines()]
    lines = ["sentence\tgold", *(f"{row['text']}\t{row['label']}" for row in rows)]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    assert command(*words(tmp_path / "plain")).code == 0
    renamed = words(tmp_path / "renamed", data=tmp_path / "rows.tsv")
    assert command(*renamed, "--columns", "text=sentence", "label=gold").code == 0
    plain, other = answers_of(tmp_path / "plain"), answers_of(tmp_path / "renamed")
    assert [row["probability"] for row in plain] == [row["probability"] for row in other]


def test_threads_are_those_asked_for(words: Run, tmp_path: Path, command: Run) -> None:
    before = torch.get_num_threads()
    try:
        assert command(*words(tmp_path / "report"), "--threads", before + 1).code == 0
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_an_onnx_file_is_scored_as_the_network_in_torch_is(
    words: Run, classifier: Path, tmp_path: Path, command: Run
) -> None:
    folder = tmp_path / "exported"
    assert command("export", "--model", classifier, "--to", "onnx", "--out", folder).code == 0
    rows = {}
    for backend in ("torch", "onnx", "auto"):
        report = tmp_path / backend
        ended = command(*words(report, model=folder), "--backend", backend)
        assert ended.code == 0, ended.err
        rows[backend] = answers_of(report)
        assert read_manifest(report)["settings"]["backend"] == backend
    for one, other in zip(rows["torch"], rows["onnx"], strict=True):
        assert (one["line"], one["label"]) == (other["line"], other["label"])
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)
    assert rows["auto"] == rows["onnx"]
    ended = command(*words(tmp_path / "none"), "--backend", "onnx")
    assert "write it with: bertworks export --to onnx" in ended.refusal(1)
    ended = command(*words(tmp_path / "suite"), "--suite", "glue", "--backend", "onnx")
    assert "--backend is not for suites; leave it out" in ended.refusal(2)


def test_neither_threshold_nor_temperature_is_set_by_what_is_evaluated(
    finetune_words: Run, write_rows: Write, make_rows: Run, tmp_path: Path, command: Run
) -> None:
    """Labels that contradict dev would move both, if they could."""

    def rows(seed: int, count: int, *, turned: bool = False) -> list[dict[str, Any]]:
        found = make_rows(count, seed=seed)
        other = {"water": "road", "road": "water"}
        return [
            {"text": row["text"], "labels": [other[row["label"]] if turned else row["label"]]}
            for row in found
        ]

    files = {
        "train": write_rows(tmp_path / "train.jsonl", rows(5, 48)),
        "dev": write_rows(tmp_path / "dev.jsonl", rows(6, 40)),
    }
    model = tmp_path / "model"
    assert command(*finetune_words(model, **files)).code == 0
    options = json.loads((model / "bertworks.json").read_text())["tasks"]["multilabel"]["options"]
    given = []
    for name, turned in (("as-dev", False), ("against-dev", True)):
        data = write_rows(tmp_path / f"{name}.jsonl", rows(9, 35, turned=turned))
        words = ["evaluate", "--model", model, "--data", data, "--out", tmp_path / name]
        assert command(*words).code == 0
        task = json.loads((tmp_path / name / "task.json").read_text())
        assert task["options"] == options
        answers = answers_of(tmp_path / name)
        given.append([(row["labels"], row["probabilities"]) for row in answers])
    assert given[0] == given[1]


def test_a_model_from_before_there_were_temperatures_has_none(
    words: Run, classifier: Path, tmp_path: Path, command: Run
) -> None:
    old = shutil.copytree(classifier, tmp_path / "old")
    (old / MANIFEST).unlink()
    told = json.loads((old / "bertworks.json").read_text())
    assert told["tasks"]["classify"]["options"].pop("temperature") == 1.0
    (old / "bertworks.json").write_text(json.dumps(told))
    assert command(*words(tmp_path / "one")).code == 0
    assert command(*words(tmp_path / "two", model=old)).code == 0
    assert answers_of(tmp_path / "one") == answers_of(tmp_path / "two")
    told["tasks"]["classify"]["options"]["temperature"] = 4.0
    (old / "bertworks.json").write_text(json.dumps(told))
    assert command(*words(tmp_path / "three", model=old)).code == 0
    plain, flat = answers_of(tmp_path / "one"), answers_of(tmp_path / "three")
    assert [row["label"] for row in plain] == [row["label"] for row in flat]
    for one, other in zip(plain, flat, strict=True):
        odds, flatter = (row["probability"] / (1 - row["probability"]) for row in (one, other))
        assert flatter == pytest.approx(odds**0.25)


def test_a_report_keeps_what_each_answer_adds_to_the_scores(
    words: Run, write_rows: Write, make_rows: Run, tmp_path: Path, command: Run
) -> None:
    rows = [{**row, "source": "web"} for row in make_rows(11, seed=4)]
    data = write_rows(tmp_path / "rows.jsonl", rows)
    assert command(*words(tmp_path / "report", data=data)).code == 0
    found = (tmp_path / "report" / "verdicts.jsonl").read_text().splitlines()
    verdicts = [json.loads(line) for line in found]
    assert [row["gold"] for row in verdicts] == [row["label"] for row in rows]
    assert [row["length"] for row in verdicts] == [len(row["text"]) for row in rows]
    assert {row["source"] for row in verdicts} == {"web"}
    calibration = json.loads((tmp_path / "report" / "calibration.json").read_text())
    assert sum(one["count"] for one in calibration["bins"]) == 11


# Bad input


def test_a_model_without_labels_is_one_sentence(
    words: Run, pretrained: Path, tmp_path: Path, command: Run
) -> None:
    said = command(*words(tmp_path / "report", model=pretrained)).refusal(2)
    assert said.startswith(f"{pretrained} answers fill_mask, which gives no labels to score")
    assert "fine-tune it on labelled examples first" in said
    assert list(tmp_path.iterdir()) == []


def test_bad_rows_are_set_aside_and_counted(
    words: Run, labelled: dict[str, Path], write_rows: Write, tmp_path: Path, command: Run
) -> None:
    lines: list[Any] = labelled["dev"].read_text().splitlines()
    data = write_rows(tmp_path / "rows.jsonl", [lines[0], {"text": "no label"}, *lines[1:]])
    ended = command(*words(tmp_path / "report", data=data), "--json")
    result = json.loads(ended.out)
    assert (result["bad_rows"], result["examples"]) == (1, 17)
    assert f"{data} line 2: no 'label' (found text)" in ended.err
    assert [row["line"] for row in answers_of(tmp_path / "report")] == [1, *range(3, 19)]
    assert (tmp_path / "report" / "quarantine.jsonl").is_file()


def test_rows_that_the_model_cannot_read_are_set_aside_and_said_not_to_be_scored(
    words: Run, matcher: Path, labelled: dict[str, Path], write_rows: Write, tmp_path: Path,
    command: Run,
) -> None:  # fmt: skip
    lines: list[Any] = labelled["dev_pairs"].read_text().splitlines()
    lines[2:2] = [{"text": "River.", "label": "same"}]
    data = write_rows(tmp_path / "rows.jsonl", lines)
    ended = command(*words(tmp_path / "report", model=matcher, data=data), "--json")
    result = json.loads(ended.out)
    assert (result["bad_rows"], result["examples"]) == (1, 17)
    said = (
        "the scores are of 17 of 18 rows; 1 row was set aside in quarantine.jsonl; "
        f"the first: {data} line 3: the task match needs a second text; add a column text_b"
    )
    assert f"warning: {said}\n" in ended.err
    assert said in (tmp_path / "report" / "report.html").read_text()
    assert json.loads((tmp_path / "report" / "scores.json").read_text())["bad_rows"] == 1
    (aside,) = (tmp_path / "report" / "quarantine.jsonl").read_text().splitlines()
    assert json.loads(aside)["line"] == 3
    assert [row["line"] for row in answers_of(tmp_path / "report")] == [1, 2, *range(4, 19)]


def test_a_label_that_is_not_to_choose_from_is_named_by_its_line(
    words: Run, labelled: dict[str, Path], write_rows: Write, tmp_path: Path, command: Run
) -> None:
    lines: list[Any] = labelled["dev"].read_text().splitlines()
    data = write_rows(tmp_path / "rows.jsonl", [*lines, {"text": "Sky.", "label": "air"}])
    zero_shot = ["--zero-shot", "water", "road", "--by", "vectors", "--json"]
    ended = command(*words(tmp_path / "report", data=data), *zero_shot)
    assert json.loads(ended.out)["bad_rows"] == 1
    assert f"{data} line 18: the label 'air' is not among those to choose from" in ended.err


def test_one_row_is_scored_without_a_number_that_it_cannot_tell(
    words: Run, labelled: dict[str, Path], write_rows: Write, tmp_path: Path, command: Run
) -> None:
    one: list[Any] = labelled["dev"].read_text().splitlines()[:1]
    data = write_rows(tmp_path / "rows.jsonl", one)
    ended = command(*words(tmp_path / "report", data=data), "--json")
    known = {"report", "task", "examples", "bad_rows", "accuracy", "intervals"}
    assert json.loads(ended.out).keys() == known
    for said in ("same label, so accuracy alone", "no intervals", "1 answer is too few"):
        assert said in ended.err
    assert "accuracy alone is told" in (tmp_path / "report" / "report.md").read_text()


def test_ranges_without_width_are_said_to_be_no_certainty(
    words: Run, labelled: dict[str, Path], write_rows: Write, tmp_path: Path, command: Run
) -> None:
    rows = [json.loads(line) for line in labelled["dev"].read_text().splitlines()]
    alike: list[Any] = [{**rows[0], "text": f"{rows[0]['text']} {'.' * n}"} for n in range(5)]
    data = write_rows(tmp_path / "rows.jsonl", alike)
    said = "warning: a range without width says that all samples"
    assert said in command(*words(tmp_path / "report", data=data)).err


BAD_ROWS: dict[str, tuple[list[Any], str]] = {
    "empty": ([], "{} is empty"),
    "blank": (["", ""], "{} holds no rows"),
    "bad": (["torn", "torn"], "2 of 2 rows cannot be used, the first at {} line 1: not a JSON"),
    "unknown": ([{"text": "a", "label": "air"}], "{} line 1: the label 'air' is not among those"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_cannot_be_scored_are_one_sentence(
    name: str, words: Run, write_rows: Write, tmp_path: Path, command: Run
) -> None:
    lines, said = BAD_ROWS[name]
    data = write_rows(tmp_path / "rows.jsonl", lines)
    assert said.format(data) in command(*words(tmp_path / "report", data=data)).refusal(1)
    assert list(tmp_path.iterdir()) == [data]


def test_single_texts_are_no_data_for_a_model_of_pairs(
    words: Run, matcher: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    said = command(*words(tmp_path / "report", model=matcher)).refusal(1)
    assert said.startswith(
        f"17 of 17 rows cannot be used, the first at {labelled['dev']} line 1: the task match needs"
    )


@pytest.mark.parametrize("kind", ["vocabulary", "shards"])
def test_a_folder_of_another_kind_is_one_sentence(
    kind: str, words: Run, tmp_path: Path, command: Run, request: pytest.FixtureRequest
) -> None:
    given = request.getfixturevalue(kind)
    said = command(*words(tmp_path / "report", model=given)).refusal(1)
    assert said.startswith(f"{given} holds ")
    assert "a model is needed here; check the path" in said


def test_a_torn_model_and_its_report_are_told_apart(
    words: Run, classifier: Path, tmp_path: Path, command: Run
) -> None:
    torn = shutil.copytree(classifier, tmp_path / "model")
    os.truncate(torn / "model.safetensors", 1000)
    said = command(*words(tmp_path / "report", model=torn)).refusal(1)
    assert "model.safetensors has 1000 bytes, its manifest says" in said
    assert not (tmp_path / "report").exists()


def test_what_is_there_already_is_left_alone(
    words: Run, tmp_path: Path, contents: Contents, command: Run
) -> None:
    assert command(*words(tmp_path / "report")).code == 0
    before = contents(tmp_path)
    assert "report exists already" in command(*words(tmp_path / "report")).refusal(2)
    assert contents(tmp_path) == before


def test_a_full_disk_leaves_nothing_half_written(words: Run, tmp_path: Path, process: Run) -> None:
    said = process(*words(tmp_path / "report"), largest_file=1000).refusal(1)
    assert f"cannot write {tmp_path / 'report'}: File too large" in said
    assert not (tmp_path / "report" / MANIFEST).exists()
    assert list(tmp_path.iterdir()) == []


def test_where_texts_are_written_the_report_tells_what_copying_scores(
    finetune_words: Callable[..., list[Any]],
    write_rows: Callable[[Path, list[Any]], Path],
    tmp_path: Path,
    command: Run,
) -> None:
    rows = [{"source": f"The cat {n} sat. It ran.", "target": f"The cat {n} sat."} for n in "abc"]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    words = finetune_words(tmp_path / "run", train=file, dev=file, task="generate")
    assert command(*words, "--epochs", 1, "--longest-reply", 5).code == 0
    words = ["evaluate", "--model", tmp_path / "run", "--data", file, "--out", tmp_path / "report"]
    told = json.loads(command(*words, "--json").out)["copying"]
    assert [row["copied"] for row in told] == ["source", "first sentence"]
    assert (told[0]["exact_match"], told[1]["exact_match"]) == (0.0, 1.0)
    saved = json.loads((tmp_path / "report" / "report.json").read_text())
    assert saved["copying"]["rows"]["first sentence"]["rougeL"] == 1.0
    assert "What copying scores" in (tmp_path / "report" / "report.md").read_text()
