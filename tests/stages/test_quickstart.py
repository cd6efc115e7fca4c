"""quickstart: the whole life in one command, told on one page, and never lived twice."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertworks
from bertworks.core.artifact import MANIFEST
from bertworks.corpus.python_docs import read_topics
from bertworks.evaluation.bootstrap import mean_interval
from bertworks.stages import quickstart
from bertworks.stages.quickstart import _claim
from bertworks.stages.settings import QuickstartSettings

Run = Callable[..., Any]
Contents = Callable[[Path], dict[str, bytes]]
PARTS = {
    "tokenizer": "tokenizer",
    "shards": "shards",
    "pretrained": "model",
    "pretrained-match": "model",
    "pretrained-report": "report",
    "untrained-match": "model",
    "untrained-report": "report",
}
SHORT = ("--steps", 4, "--epochs", 2)


@dataclass(frozen=True)
class Lived:
    """A quickstart that is over."""

    out: Path
    ended: Any


@pytest.fixture(scope="module", autouse=True)
def little_text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Read a hundredth of the text, make few pairs of it and ship nothing: the life is short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertworks.core.shipped.PLACE", tmp_path_factory.mktemp("models"))
        patch.setattr(quickstart, "read_topics", lambda: islice(read_topics(()), 40))
        patch.setattr(quickstart, "NUM_PAIRS", {"train": 40, "dev": 12, "test": 30})
        patch.setenv("PYTHONPATH", str(Path(bertworks.__file__).parents[1]))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, command: Run) -> Lived:
    """Live the whole life once."""
    out = tmp_path_factory.mktemp("quickstart") / "made"
    ended = command("quickstart", "--out", out, *SHORT, "--json")
    assert ended.code == 0, ended.err
    return Lived(out, ended)


def correct(report: Path) -> np.ndarray:
    """Tell for every answer of a report whether it is right."""
    rows = [json.loads(line) for line in (report / "answers.jsonl").read_text().splitlines()]
    return np.array([row["label"] == row["gold"] for row in rows])


def outside(page: str) -> list[str]:
    """Return everything that a page would fetch or run."""
    return re.findall(r"<script|<link|<iframe|src=|href=|url\(|@import|https?:", page)


def test_every_part_is_made_by_its_command(lived: Lived) -> None:
    for name, kind in PARTS.items():
        assert json.loads((lived.out / name / MANIFEST).read_text())["kind"] == kind
    commands = re.findall(r"^\$ bertworks (\S+)", lived.ended.err, re.MULTILINE)
    life = ["learn-vocab", "tokenize", "pretrain", "finetune", "evaluate", "finetune", "evaluate"]
    assert commands == life


def test_the_result_is_one_json_object_with_the_margin_and_its_interval(lived: Lived) -> None:
    assert lived.ended.out.count("\n") == 1
    result = json.loads(lived.ended.out)
    scores = {name: correct(lived.out / f"{name}-report") for name in ("pretrained", "untrained")}
    for name, values in scores.items():
        assert len(values) == 30
        assert result[f"accuracy_{name}"] == pytest.approx(values.mean())
    gain = scores["pretrained"].mean() - scores["untrained"].mean()
    assert result["gain_of_pretraining"] == pytest.approx(gain)
    assert result["gain_low"] <= gain <= result["gain_high"]
    assert 0 <= result["accuracy_tfidf"] <= 1
    assert result["fill_mask"].startswith(f"{quickstart.MASKED} -> ")


def test_the_page_stands_alone_and_names_the_margin_with_an_interval(lived: Lived) -> None:
    page = (lived.out / "report.html").read_text(encoding="utf-8")
    assert outside(page) == []
    assert outside('<img src="https://somewhere/x.png">')
    number = r"-?\d+\.\d"
    margin = rf"Pre-training adds {number} points \(95 % interval of the paired difference: "
    assert re.search(rf"{margin}{number} to {number}\)", page)
    for name in ("pre-trained BERT", "same network, no pre-training", "TF-IDF"):
        assert name in page
    interval = mean_interval(correct(lived.out / "pretrained-report"))
    assert f"{interval.low:.1%} to {interval.high:.1%}" in page
    assert page.count("<svg") >= 1
    assert page.count("Answer: ") == 2
    assert "[MASK]" in page


def test_topics_of_the_test_are_seen_nowhere_else(lived: Lived) -> None:
    texts = {}
    for part in ("train", "dev", "test"):
        rows = map(json.loads, (lived.out / f"{part}.jsonl").read_text().splitlines())
        texts[part] = {text for row in rows for text in (row["text"], row["text_b"])}
    corpus = (lived.out / "corpus.jsonl").read_text()
    assert not texts["test"] & (texts["train"] | texts["dev"])
    assert not [
        text for text in texts["test"] if json.dumps(text, ensure_ascii=False)[1:-1] in corpus
    ]
    assert all(json.dumps(text, ensure_ascii=False)[1:-1] in corpus for text in texts["train"])


def test_a_second_run_makes_nothing_again(lived: Lived, command: Run, contents: Contents) -> None:
    before = contents(lived.out)
    times = {name: (lived.out / name / MANIFEST).stat().st_mtime_ns for name in PARTS}
    again = command("quickstart", "--out", lived.out, *SHORT, "--json")
    assert again.code == 0, again.err
    assert again.err.count("is there already") == len(PARTS)
    assert {name: (lived.out / name / MANIFEST).stat().st_mtime_ns for name in PARTS} == times
    assert contents(lived.out) == before
    first, second = json.loads(lived.ended.out), json.loads(again.out)
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_a_life_that_was_cut_short_goes_on_and_only_its_result_is_printed(
    lived: Lived, tmp_path: Path, command: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(lived.out, tmp_path / "made")
    shutil.rmtree(out / "untrained-report")
    ended = command("quickstart", "--out", out, *SHORT, "--json")
    assert ended.err.count("is there already") == len(PARTS) - 1
    first, second = json.loads(lived.ended.out), json.loads(ended.out)
    same = {"seconds": 0, "report": ""}
    assert {**first, **same} == {**second, **same}
    by_parts = capfd.readouterr()  # what the command itself prints does not come by here
    assert by_parts.out == ""
    assert "accuracy: " in by_parts.err


def with_given(lived: Lived, out: Path, name: str) -> Path:
    """Let a life that is over go on with a model that is given; its parts stay as they are."""
    made = Path(shutil.copytree(lived.out, out))
    begun = json.loads((made / "quickstart.json").read_text())
    (made / "quickstart.json").write_text(json.dumps({**begun, "model": name}))
    return made


def test_a_model_that_is_given_learns_from_the_first_of_the_same_pairs(
    lived: Lived, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = lived.out / "pretrained"
    out = with_given(lived, tmp_path / "made", str(given))
    monkeypatch.setattr(quickstart, "FEW", 16)
    ended = command("quickstart", "--out", out, *SHORT, "--model", given, "--json")
    assert ended.code == 0, ended.err
    assert ended.err.count("is there already") == len(PARTS)
    pairs = (out / "train.jsonl").read_text().splitlines()
    assert (out / "few.jsonl").read_text().splitlines() == pairs[:16] != pairs
    assert f"finetune --model {given} --train {out / 'few.jsonl'} " in ended.err
    result, before = json.loads(ended.out), json.loads(lived.ended.out)
    right = correct(out / "given-report")
    assert len(right) == 30
    assert result["accuracy_given"] == pytest.approx(right.mean())
    assert result["accuracy_pretrained"] == before["accuracy_pretrained"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"vectors of {given}, tuned on 16 of the pairs" in page
    assert f"{mean_interval(right).low:.1%} to {mean_interval(right).high:.1%}" in page


def test_the_model_that_came_with_the_package_is_the_one_that_is_given(
    lived: Lived, ship: Callable[[Path, str], Path]
) -> None:
    settings = quickstart.QuickstartSettings()
    assert sorted(quickstart._systems(settings)) == ["pretrained", "untrained"]
    ship(lived.out / "pretrained", quickstart.SHIPPED)
    given = quickstart._systems(settings)["given"]
    assert given.words[:2] == ("--model", quickstart.SHIPPED)
    assert given.title == f"vectors of {quickstart.SHIPPED}, tuned on 1,200 of the pairs"
    own = quickstart._systems(replace(settings, model=lived.out / "pretrained"))["given"]
    assert own.words[:2] == ("--model", str(lived.out / "pretrained"))


def test_a_model_that_cannot_be_opened_is_refused_before_the_work(
    tmp_path: Path, command: Run
) -> None:
    said = command("quickstart", "--out", tmp_path / "made", "--model", "nothing").refusal(1)
    assert said.startswith("there is no model folder nothing; ")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("changed", ["--seed 1", "--steps 5", "--epochs 3", "--model {}"])
def test_parts_made_with_other_settings_are_not_mixed(
    changed: str, lived: Lived, command: Run, contents: Contents
) -> None:
    before = contents(lived.out)
    words = changed.format(lived.out / "pretrained").split()
    said = command("quickstart", "--out", lived.out, *SHORT, *words).refusal(2)
    assert said.startswith(f"{lived.out} was begun with ")
    assert said.endswith("choose another --out")
    assert contents(lived.out) == before


def test_parts_that_were_made_before_models_could_be_given_are_gone_on_with(
    tmp_path: Path, command: Run
) -> None:
    out = tmp_path / "begun"
    out.mkdir()
    (out / "quickstart.json").write_text('{"steps": null, "epochs": null, "seed": 1}')
    said = command("quickstart", "--out", out, "--seed", 2).refusal(2)
    assert said.startswith(f'{out} was begun with {{"steps": null, "epochs": null, "seed": 1}}')
    settings = QuickstartSettings(out=out, seed=1)
    _claim(settings)


def test_what_is_there_already_is_left_alone(
    tmp_path: Path, command: Run, contents: Contents
) -> None:
    (tmp_path / "train.jsonl").write_text("labelled by hand, for weeks")
    before = contents(tmp_path)
    said = command("quickstart", "--out", tmp_path).refusal(2)
    assert said == f"{tmp_path} exists already; choose another --out or remove it first"
    assert contents(tmp_path) == before


def test_a_part_that_fails_ends_the_whole(lived: Lived, tmp_path: Path, command: Run) -> None:
    out = shutil.copytree(lived.out, tmp_path / "made")
    shutil.rmtree(out / "shards")
    os.truncate(out / "tokenizer" / "vocab.txt", 10)
    said = command("quickstart", "--out", out, *SHORT).refusal(1)
    assert said == "bertworks tokenize failed; see the message above"
    assert not (out / "shards").exists()


def test_a_part_does_not_outlive_the_whole_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").touch()
    os.truncate(tmp_path / "corpus.txt", 2**40)  # to read so many zeros takes very long
    words = ("learn-vocab", str(tmp_path / "corpus.txt"), "--out", str(tmp_path / "out"))
    script = (
        "from pathlib import Path; from bertworks.stages import quickstart\n"
        f"quickstart._run(Path({str(tmp_path / 'out')!r}), *{words!r})\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as whole:
        parts: list[str] = []
        while not parts:
            assert whole.poll() is None
            parts = Path(f"/proc/{whole.pid}/task/{whole.pid}/children").read_text().split()
            time.sleep(0.01)
        whole.kill()
    for _ in range(1500):
        if not any(Path(f"/proc/{part}/exe").exists() for part in parts):
            return
        time.sleep(0.01)
    for part in parts:
        os.kill(int(part), signal.SIGKILL)
    pytest.fail(f"{parts} live on")
