"""The fine-tunings of one task of a suite: what they are told, and what is told of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertworks.core.errors import BertworksError, FullMemoryError
from bertworks.core.processes import num_cores
from bertworks.evaluation.suite_task import Metric, SuiteTask, files_of
from bertworks.stages.children import Children
from bertworks.stages.setting_groups import MachineSettings, SuiteSettings
from bertworks.stages.settings import EvaluateSettings
from bertworks.stages.suite import told_finetune
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
        (out / "scores.json").write_text(json.dumps({"accuracy": 0.375, "bad_rows": 1}))


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
    runs = runs_of(settings, lr=(3e-4,), seeds=3)
    found = runs.score(runs.trials[2], children)
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
    asked = replace(settings, machine=MachineSettings(threads=7), out=settings.out / "other")
    for runs in (runs_of(settings, at_once=2), runs_of(asked, at_once=2)):
        runs.score(runs.trials[0], children)
    (shared, whose), (own, _) = children.heard
    assert shared["--threads"] == str(max(1, num_cores() // 2))
    assert own["--threads"] == "7"
    assert whose == "own seed-0"


def test_what_a_reader_of_the_scores_must_know_is_written_with_them(
    settings: EvaluateSettings,
) -> None:
    runs = runs_of(settings, limit=4, seeds=3)
    good = SeedScores({"dev": {"accuracy": 0.75}}, num_not_scored=3)
    fallen = SeedScores({"dev": {"accuracy": 0.5}}, has_collapsed=True)
    runs.finish([good, None, fallen])
    told = json.loads((settings.out / "own" / RESULT).read_text())
    assert told["scores"]["dev"] == [{"accuracy": 0.75}, {"accuracy": 0.5}]
    assert told["remarks"] == [
        "trained on 4 of 15 examples, chosen by a hash",
        "set aside: 2 rows",
        "3 rows of test not scored",
        "2 of 3 seeds collapsed",
        "1 of them came apart and are in no mean",
    ]


def test_a_task_of_which_no_seed_is_left_has_failed(settings: EvaluateSettings) -> None:
    with pytest.raises(BertworksError, match="came apart with every seed"):
        runs_of(settings, seeds=2).finish([None, None])
    assert not (settings.out / "own" / RESULT).exists()


def test_behind_a_seed_that_fails_none_begins_and_its_error_is_the_one_that_is_told(
    settings: EvaluateSettings,
) -> None:
    runs, children = runs_of(settings, seeds=4), Listening()
    runs.score(runs.trials[0], children)
    (runs.folder / "seed-1").mkdir()  # which cannot be made a second time
    with pytest.raises(OSError, match="seed-1"):
        runs.score(runs.trials[1], children)
    for trial in runs.trials[2:]:
        with pytest.raises(BertworksError, match=f"seed {trial.seed} of own is not begun any more"):
            runs.score(trial, children)
    assert [flags["--seed"] for flags, _ in children.heard] == ["0", "1"]
    assert "seed-1" in str(runs.failure)


class Forgetful(Listening):
    """Children that run out of memory."""

    def run(self, words: Any, *, whose: str = "") -> None:
        """Fail as a process does that has told so by its code."""
        raise FullMemoryError(f"the memory was full in {words[0]}")


def test_what_helps_where_memory_is_full_is_told_in_flags_of_a_suite(
    settings: EvaluateSettings,
) -> None:
    alone, beside = runs_of(settings), runs_of(settings, at_once=3)
    beside.besides = {"accumulate": "4"}
    other = "begin in another --out with --finetune accumulate="
    for runs, remedy in ((alone, f"{other}2"), (beside, f"lower --at-once, or {other}8")):
        with pytest.raises(BertworksError) as failed:
            runs.score(runs.trials[0], Forgetful())
        said = f"the memory was full in finetune; {remedy}, or take a smaller model"
        assert str(failed.value) == said
    found = told_finetune(["accumulate=8"], {"own": TASK})
    assert found == {"accumulate": "8"}  # a suite takes what it has advised


def test_of_several_rates_the_best_on_dev_is_told_and_kept(settings: EvaluateSettings) -> None:
    runs, children = runs_of(settings, lr=(1e-4, 3e-4, 1e-4), seeds=2), Listening()
    assert [(trial.lr, trial.seed) for trial in runs.trials] == [
        (1e-4, 0),
        (1e-4, 1),
        (3e-4, 0),
        (3e-4, 1),
    ]
    for trial in runs.trials:
        runs.score(trial, children)
    assert {flags["--lr"] for flags, _ in children.heard} == {"0.0001", "0.0003"}
    scores = [0.5, 0.75, 0.25, 0.875]
    runs.finish([SeedScores({"dev": {"accuracy": score}}) for score in scores])
    folder = settings.out / "own"
    told = json.loads((folder / RESULT).read_text())
    assert told["scores"]["dev"] == [{"accuracy": 0.5}, {"accuracy": 0.75}]
    assert told["remarks"][0] == "lr 0.0001 is the best on dev (0.0001: 62.5, 0.0003: 56.2)"
    kept = {path.name for path in folder.iterdir() if path.is_dir()}
    assert kept == {*told["models"]} == {"lr-0.0001-seed-0", "lr-0.0001-seed-1"}


def test_a_rate_with_which_a_seed_came_apart_is_worse_than_one_without(
    settings: EvaluateSettings,
) -> None:
    runs = runs_of(settings, lr=(1e-4, 1e38), seeds=2)
    low, high = (SeedScores({"dev": {"accuracy": score}}) for score in (0.25, 0.75))
    runs.finish([low, low, high, None])
    told = json.loads((settings.out / "own" / RESULT).read_text())
    assert told["models"] == ["lr-0.0001-seed-0", "lr-0.0001-seed-1"]
    assert "(0.0001: 25.0, 1e+38: 75.0 (1 of 2 came apart))" in told["remarks"][0]
    runs.finish([low, low, None, None])
    told = json.loads((settings.out / "own" / RESULT).read_text())
    assert "(0.0001: 25.0, 1e+38: came apart)" in told["remarks"][0]


def test_who_answers_with_the_model_of_another_task_takes_that_of_its_best_rate(
    settings: EvaluateSettings,
) -> None:
    base, children = runs_of(settings, lr=(1e-4, 3e-4)), Listening()
    for trial in base.trials:
        base.score(trial, children)
    low, high = (SeedScores({"dev": {"accuracy": score}}) for score in (0.25, 0.75))
    own = replace(settings, suites=SuiteSettings(suite="glue", lr=(1e-4, 3e-4)))
    task = replace(TASK, model_of="own", parts=files_of("own", "text=1", "label=2", test="dev.tsv"))
    after = TaskRuns(own, "after", task, reads=64, besides={})
    (trial,) = after.trials
    with pytest.raises(BertworksError, match="it needs the model of own, which is not there"):
        after.score(trial, children)
    base.finish([low, high])
    after = TaskRuns(own, "after", task, reads=64, besides={})
    (settings.out / "own" / "lr-0.0003-seed-0" / "manifest.json").touch()
    found = after.score(trial, children)
    assert found == SeedScores({"test": {"accuracy": 0.375}}, num_not_scored=1)
    assert children.heard[-1][0]["--model"].endswith("own/lr-0.0003-seed-0")
