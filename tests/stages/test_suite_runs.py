"""The fine-tunings of one task of a suite: what they are told, and what is told of them."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import BertworksError
from bertworks.evaluation.suite_task import Metric, SuiteTask, files_of
from bertworks.stages.children import Children
from bertworks.stages.setting_groups import MachineSettings, SuiteSettings
from bertworks.stages.settings import EvaluateSettings
from bertworks.stages.suite_runs import RESULT, SeedScores, TaskRuns

TASK = SuiteTask(
    kind="classify",
    parts=files_of("own", "text=1", "label=2", train="train.tsv", dev="dev.tsv"),
    metrics=(Metric("accuracy"),),
)


class Listening(Children):
    """Children that are told of, and never begun."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[dict[str, str], str]] = []

    def run(self, words: Any, *, whose: str = "") -> None:
        """Note the flags of a command, and whose it is."""
        flags = dict(zip(words[1::2], words[2::2], strict=True))
        self.heard.append((flags, whose))
        out = Path(flags["--out"])
        out.mkdir()
        (out / "bertworks.json").write_text(json.dumps({"dev": {"accuracy": 0.5}}))


@pytest.fixture
def settings(tmp_path: Path) -> EvaluateSettings:
    """Say which suite is run where, on thirty rows and two bad ones."""
    folder = tmp_path / "data" / "own"
    folder.mkdir(parents=True)
    for part in ("train", "dev"):
        rows = [f"text number {number}\t{number % 2}" for number in range(15)]
        (folder / f"{part}.tsv").write_text("\n".join([*rows, "without label\t"]) + "\n")
    return EvaluateSettings(model=Path("m"), data=tmp_path / "data", out=tmp_path / "out")


def runs_of(settings: EvaluateSettings, **chosen: Any) -> TaskRuns:
    """Make the runs of the task, of a suite that is run so."""
    own = replace(settings, suites=SuiteSettings(suite="glue", **chosen))
    return TaskRuns(own, "own", TASK, reads=64, besides={"pooling": "max"})


def test_a_seed_is_told_what_the_suite_and_the_person_say(settings: EvaluateSettings) -> None:
    children = Listening()
    found = runs_of(settings, lr=3e-4).score(2, children)
    ((flags, whose),) = children.heard
    assert found == SeedScores({"dev": {"accuracy": 0.5}}, has_collapsed=False)
    told = {"--lr": "0.0003", "--seed": "2", "--longest": "64", "--pooling": "max"}
    assert told.items() <= flags.items()
    assert "--threads" not in flags
    assert whose == ""


def test_side_by_side_they_share_the_cores_and_say_whose_a_line_is(
    settings: EvaluateSettings,
) -> None:
    children = Listening()
    runs_of(settings, at_once=2).score(0, children)
    asked = replace(settings, machine=MachineSettings(threads=7), out=settings.out / "other")
    runs_of(asked, at_once=2).score(1, children)
    (shared, whose), (own, _) = children.heard
    assert shared["--threads"] == str(max(1, (os.cpu_count() or 1) // 2))
    assert own["--threads"] == "7"
    assert whose == "own 0"


def test_what_a_reader_of_the_scores_must_know_is_written_with_them(
    settings: EvaluateSettings,
) -> None:
    runs = runs_of(settings, limit=4)
    good = SeedScores({"dev": {"accuracy": 0.75}}, num_not_scored=3)
    fallen = SeedScores({"dev": {"accuracy": 0.5}}, has_collapsed=True)
    runs.finish([good, None, fallen])
    told = json.loads((settings.out / "own" / RESULT).read_text())
    assert told["scores"]["dev"] == [{"accuracy": 0.75}, {"accuracy": 0.5}]
    assert told["remarks"] == [
        "trained on 4 of 15 examples, chosen by a hash",
        "2 rows were set aside",
        "3 rows of test not scored",
        "2 of 3 seeds collapsed",
        "1 of them came apart and are in no mean",
    ]


def test_a_task_of_which_no_seed_is_left_has_failed(settings: EvaluateSettings) -> None:
    with pytest.raises(BertworksError, match="came apart with every seed"):
        runs_of(settings).finish([None, None])
    assert not (settings.out / "own" / RESULT).exists()
