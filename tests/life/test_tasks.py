"""Every kind of task: fine-tuned, scored, put to work, and fine-tuned again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.artifact import Origin
from bertworks.data.forms import FORMS
from bertworks.serving.model_folder import save_model
from bertworks.tasks.catalog import KINDS, make_task
from bertworks.tasks.task import TaskModel
from bertworks.training.log import read_log

LEARNED = [name for name, kind in KINDS.items() if kind.learn]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory, config: Any, tokenizer: Any) -> Path:
    """Save a small network with drawn weights, as if it had been pre-trained."""
    folder = tmp_path_factory.mktemp("encoder") / "model"
    model = TaskModel(config, [make_task("fill_mask")], seed=3, deviation=0.1)
    save_model(folder, model, tokenizer, origin=Origin())
    return folder


@pytest.fixture
def files(make_samples: Any, tmp_path: Path) -> Callable[[str], dict[str, Path]]:
    """Write rows of a kind, to train on, to score by, and to answer without their gold."""

    def write(kind: str) -> dict[str, Path]:
        gold = [column for form in KINDS[kind].forms() for column in FORMS[form].gold]
        train, dev = make_samples(5).rows(kind, 40), make_samples(6).rows(kind, 17)
        inputs = [{key: row[key] for key in row if key not in gold} for row in dev]
        written = {}
        for name, rows in (("train", train), ("dev", dev), ("inputs", inputs)):
            written[name] = tmp_path / f"{name}.jsonl"
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            written[name].write_text("".join(lines), encoding="utf-8")
        return written

    return write


@pytest.mark.parametrize("kind", LEARNED)
def test_a_kind_of_task_lives_its_whole_life(
    kind: str, encoder: Path, files: Any, tmp_path: Path, command: Callable[..., Any]
) -> None:
    given, tuned = files(kind), tmp_path / "tuned"
    data = ["--task", kind, "--train", given["train"], "--dev", given["dev"], "--batch-size", 9]
    words = ["finetune", *data, "--longest", 33, "--epochs", 2, "--lr", 0.003]
    ended = command(*words, "--model", encoder, "--out", tuned, "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    losses = [row[kind] for row in read_log(tuned) if kind in row]
    assert len(losses) == 10

    report = tmp_path / "report"
    scored = ["evaluate", "--model", tuned, "--data", given["dev"], "--out", report, "--json"]
    ended = command(*scored)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["examples"] == 17
    judged = [json.loads(line) for line in (report / "answers.jsonl").read_text().splitlines()]

    ended = command("predict", "--model", tuned, "--data", given["inputs"])
    assert ended.code == 0, ended.err
    told = [json.loads(line) for line in ended.out.splitlines()]
    assert [row["line"] for row in told] == list(range(1, 18))
    for row, same in zip(told, judged, strict=True):
        assert {key: same[key] for key in row} == row

    again = ["--model", tuned, "--out", tmp_path / "again", "--lr", 1e-12, "--epochs", 1]
    ended = command("finetune", *data, *again, "--longest", 33, "--json")
    assert ended.code == 0, ended.err
    assert f"task {kind}: goes on\n" in ended.err
    kept = json.loads(ended.out)
    before = {name: value for name, value in result.items() if name.startswith("dev_")}
    assert {name: kept[name] for name in before} == pytest.approx(before, abs=1e-4, nan_ok=True)


def test_all_kinds_of_tasks_share_one_encoder(
    encoder: Path, files: Any, tmp_path: Path, command: Callable[..., Any]
) -> None:
    tables = []
    for kind in LEARNED:
        lines = {name: file.read_text() for name, file in files(kind).items()}
        for name, text in lines.items():
            (tmp_path / f"{kind}-{name}.jsonl").write_text(text)
        tables.append(
            f'[my_{kind}]\ntask = "{kind}"\n'
            f'train = "{kind}-train.jsonl"\ndev = "{kind}-dev.jsonl"\n'
        )
    (tmp_path / "tasks.toml").write_text("".join(tables))
    words = ["finetune", "--model", encoder, "--tasks", tmp_path / "tasks.toml", "--epochs", 1]
    ended = command(*words, "--out", tmp_path / "all", "--temperature", 2, "--json")
    assert ended.code == 0, ended.err
    trained = {name for row in read_log(tmp_path / "all") if "lr" in row for name in row}
    assert {f"my_{kind}" for kind in LEARNED} <= trained
    for kind in LEARNED:
        asked = ["--model", tmp_path / "all", "--task", f"my_{kind}"]
        ended = command("predict", *asked, "--data", tmp_path / f"{kind}-inputs.jsonl")
        assert (ended.code, len(ended.out.splitlines())) == (0, 17), ended.err
