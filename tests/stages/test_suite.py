"""evaluate --suite: tasks one after the other, each finished once, none lost by another."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import bertworks

Run = Callable[..., Any]
Rows = Callable[..., list[dict[str, str]]]
SECONDS_TO_WAIT = 120


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[None]:
    """Let the commands of a suite find the package, and compute with one thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(bertworks.__file__).parents[1]))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, make_rows: Rows) -> Path:
    """Write two tasks of GLUE as they are published, a few rows each, and half of a third."""
    folder = tmp_path_factory.mktemp("public") / "data"
    write_rte(folder / "glue" / "RTE", make_rows)
    write_rte(folder / "glue" / "QNLI", make_rows)
    (folder / "glue" / "QNLI" / "dev.tsv").unlink()
    mrpc = folder / "glue" / "MRPC"
    mrpc.mkdir(parents=True)
    head = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    for seed, (name, count) in enumerate({"train": 20, "dev": 9, "test_labelled": 11}.items()):
        pairs = make_rows(count, seed=seed, pairs=True)
        lines = [f"{int(p['label'] == 'same')}\t7\t8\t{p['text']}\t{p['text_b']}\n" for p in pairs]
        if name == "test_labelled":
            lines.append("7\t7\t8\tof a label\tthat is not learned\n")
        (mrpc / f"{name}.tsv").write_text(head + "".join(lines), encoding="utf-8")
    return folder


def write_rte(folder: Path, make_rows: Rows) -> None:
    """Write a task with the columns of RTE."""
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate({"train": 21, "dev": 9}.items()):
        pairs = make_rows(count, seed=seed, pairs=True)
        lines = [f"{n}\t{p['text']}\t{p['text_b']}\t{p['label']}\n" for n, p in enumerate(pairs)]
        (folder / f"{name}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(lines))


@dataclass(frozen=True)
class Told:
    """How a run of a suite ended, and the table as it was then."""

    ended: Any
    page: str
    results: dict[str, Any]

    @property
    def commands(self) -> list[str]:
        """The fine-tunings of this run."""
        return [line for line in self.ended.err.splitlines() if line.startswith("$ bertworks fine")]

    @property
    def tasks_run(self) -> set[str]:
        """The tasks that were fine-tuned in this run."""
        outs = [line.partition("--out ")[2].split()[0] for line in self.commands]
        return {Path(out).parent.name for out in outs}


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory,
    pretrained: Path,
    data: Path,
    command: Run,
    make_rows: Rows,
) -> list[Told]:
    """Run a suite that is killed after its first task, go on with one that fails, then mend it."""
    out = tmp_path_factory.mktemp("suite") / "out"
    words = ["evaluate", "--suite", "glue", "--data", data, "--model", pretrained, "--out", out]
    words += ["--epochs", 1, "--limit", 19, "--finetune", "layer-decay=0.75", "pooling=max"]
    three = ["--only", "mrpc", "rte", "wnli"]
    kill_after([*words, *three], out / "mrpc" / "result.json")
    told = []
    for more in (three, ["--only", "wnli"]):
        ended = command(*words, *more, "--resume", "auto")
        results = json.loads((out / "results.json").read_text())
        told.append(Told(ended, (out / "results.md").read_text(), results))
        if not (data / "glue" / "WNLI").exists():
            write_rte(data / "glue" / "WNLI", make_rows)
    return told


def kill_after(words: list[Any], file: Path) -> None:
    """Run a command with all that it starts, and kill them when a file appears."""
    process = start(words)
    wait_for(lambda: file.exists() or process.poll() is not None)
    assert process.poll() is None, "it ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def start(words: list[Any]) -> subprocess.Popen[bytes]:
    """Start a command in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "bertworks", *map(str, words)],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )


def wait_for(is_so: Callable[[], Any]) -> None:
    """Wait until something is so."""
    started = time.monotonic()
    while not is_so():
        assert time.monotonic() - started < SECONDS_TO_WAIT
        time.sleep(0.02)


def row_of(told: Told, task: str) -> dict[str, str]:
    """Return the first row of a task in a table."""
    return next(row for row in told.results["rows"] if row["task"] == task)


def test_a_killed_run_goes_on_with_the_next_task(runs: list[Told]) -> None:
    assert runs[0].tasks_run == {"rte"}
    assert "mrpc is finished already" in runs[0].ended.err
    assert row_of(runs[0], "mrpc")["dev"]


def test_the_failure_of_one_task_does_not_lose_the_others(runs: list[Told]) -> None:
    said = runs[0].ended.refusal(1)
    assert said.startswith("1 of 3 tasks failed (wnli); ")
    assert said.endswith("tells why; mend it and go on with --resume auto")
    assert row_of(runs[0], "rte")["dev"]
    assert "failed: there is no " in row_of(runs[0], "wnli")["remark"]
    assert "| wnli | accuracy |  |  |" in runs[0].page
    assert runs[0].page in runs[0].ended.err


def test_a_mended_task_is_run_and_all_stand_in_one_table(runs: list[Told]) -> None:
    assert runs[1].ended.code == 0, runs[1].ended.err
    assert runs[1].tasks_run == {"wnli"}
    assert [row["task"] for row in runs[1].results["rows"]] == ["mrpc", "mrpc", "rte", "wnli"]
    assert all(row["dev"] for row in runs[1].results["rows"])
    assert "scores:\n  task" in runs[1].ended.out


def test_scores_are_those_of_the_parts_that_have_labels(runs: list[Told]) -> None:
    told = runs[1].results["tasks"]["mrpc"]
    assert told["examples"] == {"train": 19, "dev": 9, "test": 12}
    assert "1 row of test not scored" in row_of(runs[1], "mrpc")["remark"]
    scores = {part: found[0]["accuracy"] for part, found in told["scores"].items()}
    assert [round(scores[part] * count) for part, count in (("dev", 9), ("test", 11))] == [
        pytest.approx(scores["dev"] * 9),
        pytest.approx(scores["test"] * 11),
    ]
    assert f"{100 * scores['test']:.1f}" in {r["test"] for r in runs[1].results["rows"]}
    assert row_of(runs[1], "rte")["test"] == ""


def test_the_table_says_what_was_cut_short(runs: list[Told]) -> None:
    remark = row_of(runs[1], "rte")["remark"]
    assert "trained on 19 of 21 examples, chosen by a hash" in remark
    assert "Made with `bertworks evaluate" in runs[1].page
    assert "| BERT-base |" in runs[1].page


def test_of_a_finished_task_the_models_remain_but_no_checkpoints(runs: list[Told]) -> None:
    out = Path(runs[1].results["settings"]["out"])
    for task in ("mrpc", "rte", "wnli"):
        model = out / task / "seed-0"
        assert (model / "model.safetensors").is_file()
        assert [path.name for path in model.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_a_suite_runs_does_not_outlive_it(number: int, words: list[Any]) -> None:
    suite = start([*words, "--only", "mrpc", "--epochs", 500])
    wait_for(lambda: children_of(suite.pid))
    (child,) = children_of(suite.pid)
    suite.send_signal(number)  # to the suite alone
    suite.wait()
    wait_for(lambda: not Path(f"/proc/{child}/exe").exists())


def test_side_by_side_tasks_score_as_one_after_the_other(
    words: list[Any], tmp_path: Path, command: Run
) -> None:
    few = ["--only", "mrpc", "rte", "--epochs", 1, "--limit", 5, "--threads", 1]
    suite, most = start([*words, *few, "--at-once", 2]), 0
    while suite.poll() is None:
        most = max(most, len(children_of(suite.pid)))
        time.sleep(0.02)
    assert suite.returncode == 0
    assert most == 2
    words[-1] = tmp_path / "alone"
    assert command(*words, *few).code == 0
    both = [json.loads((tmp_path / out / "results.json").read_text()) for out in ("out", "alone")]
    assert both[0]["tasks"] == both[1]["tasks"]
    assert both[0]["rows"] == both[1]["rows"]


def test_behind_a_seed_that_fails_none_of_its_task_begins(
    words: list[Any], tmp_path: Path, command: Run
) -> None:
    words = [*words, "--epochs", 1, "--limit", 5, "--seeds", 3, "--resume", "auto"]
    assert command(*words, "--only", "qnli").code == 1  # whose dev is missing
    rte = tmp_path / "out" / "rte"
    (rte / "seed-1").mkdir(parents=True)
    (rte / "seed-1" / "manifest.json").mkdir()  # which no command reads
    ended = command(*words, "--only", "rte", "--at-once", 2)
    assert "rte failed: " in ended.err
    assert str(rte / "seed-1") in ended.err.partition("rte failed: ")[2]
    assert (rte / "seed-0" / "manifest.json").is_file()  # it ran, and is kept
    assert f"--out {rte / 'seed-2'}" not in ended.err


def children_of(pid: int) -> list[int]:
    """Return the processes that the threads of a process have started; one may end meanwhile."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):  # the process itself
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (thread / "children").read_text().split())
    return found


@pytest.fixture
def words(pretrained: Path, data: Path, tmp_path: Path) -> list[Any]:
    """Say the words of a suite."""
    files = ["--data", data, "--model", pretrained, "--out", tmp_path / "out"]
    return ["evaluate", "--suite", "glue", *files]


def test_a_task_that_no_suite_has_is_refused(
    words: list[Any], tmp_path: Path, command: Run
) -> None:
    said = command(*words, "--only", "mrcp").refusal(2)
    assert said.startswith("the suite glue has no task 'mrcp' (did you mean mrpc?); it has ")
    assert list(tmp_path.iterdir()) == []


def test_flags_of_suites_are_refused_without_one(
    classifier: Path, labelled: dict[str, Path], tmp_path: Path, command: Run
) -> None:
    words = ["evaluate", "--model", classifier, "--data", labelled["dev"], "--out", tmp_path / "r"]
    assert (
        command(*words, "--seeds", 3).refusal(2) == "--seeds is for suites; name one with --suite"
    )


@pytest.mark.parametrize("flags", [["--columns", "text=a"], ["--zero-shot", "a", "b"]])
def test_flags_that_say_nothing_to_a_suite_are_refused(
    flags: list[str], words: list[Any], command: Run
) -> None:
    assert command(*words, *flags).refusal(2) == f"{flags[0]} is not for suites; leave it out"


def test_a_model_that_is_none_is_refused_before_anything_is_written(
    words: list[Any], tmp_path: Path, command: Run
) -> None:
    words[words.index("--model") + 1] = tmp_path / "none"
    assert command(*words).refusal(1).startswith(f"there is no model folder {tmp_path / 'none'}")
    assert list(tmp_path.iterdir()) == []


def test_data_that_are_not_there_are_refused_before_anything_is_written(
    words: list[Any], tmp_path: Path, command: Run
) -> None:
    words[words.index("--data") + 1] = tmp_path / "none"
    assert f"{tmp_path / 'none'} holds none of the data sets" in command(*words).refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_finished_tasks_do_not_need_their_data(
    runs: list[Told], tmp_path: Path, command: Run
) -> None:
    settings = runs[1].results["settings"]
    words = ["evaluate", "--suite", "glue", "--data", tmp_path, "--model", settings["model"]]
    words += ["--out", settings["out"], "--only", "mrpc", "rte", "--resume", "auto"]
    ended = command(*words, "--epochs", 1, "--limit", 19, "--finetune", *settings["finetune"])
    assert "holds none of the data sets" not in ended.err
    assert "was begun with data" in ended.refusal(2)  # which are others, not missing


def test_a_folder_is_gone_on_with_only_when_asked_and_with_the_same_settings(
    words: list[Any], tmp_path: Path, command: Run
) -> None:
    only = ["--only", "qnli"]  # whose dev is missing
    assert command(*words, *only).code == 1
    assert "go on with --resume auto, choose" in command(*words, *only).refusal(2)
    said = command(*words, *only, "--resume", "auto", "--epochs", 7).refusal(2)
    assert "was begun with epochs = None, now 7" in said


def test_few_examples_do_not_change_what_a_suite_trains_with(runs: list[Told]) -> None:
    commands = [command for told in runs for command in told.commands]
    assert commands
    for command in commands:
        assert "--reinit 0" in command
        assert "--epochs" in command


def test_every_fine_tuning_gets_what_it_is_told_besides(runs: list[Told]) -> None:
    assert all(
        "--layer-decay 0.75 --pooling max" in line for told in runs for line in told.commands
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("layer-decay=2", "layer_decay is '2', but it must be a number above 0 and at most 1"),
        ("layers=2", "finetune has no setting 'layers'"),
        ("dropout", "as layer-decay=0.8, and no switches; got 'dropout'"),
        ("crf=yes", "as layer-decay=0.8, and no switches; got 'crf=yes'"),
        ("lr=1", "--finetune cannot have 'lr=1': a suite has its own way for it; leave it out"),
        ("max-answer=3", "--finetune max-answer=3: cola, sst2, mrpc, stsb, rte, wnli, qnli cannot"),
    ],
)
def test_what_no_fine_tuning_can_be_told_is_refused_before_the_first(
    word: str, reason: str, words: list[Any], tmp_path: Path, command: Run
) -> None:
    assert reason in command(*words, "--finetune", word).refusal(2)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_told_twice(words: list[Any], command: Run) -> None:
    twice = ["layer-decay=0.5", "layer_decay=0.6"]
    said = command(*words, "--finetune", *twice).refusal(2)
    assert "cannot have 'layer_decay=0.6': it stands there twice" in said


def test_a_suite_that_was_begun_before_a_setting_or_its_model_was_noted_goes_on(
    words: list[Any], tmp_path: Path, command: Run
) -> None:
    only = ["--only", "qnli"]  # whose dev is missing
    command(*words, *only)
    (mark,) = tmp_path.rglob("suite.json")
    begun = json.loads(mark.read_text())
    del begun["settings"]["finetune"]
    begun["settings"]["lr"] = None
    noted = begun.pop("inputs")
    mark.write_text(json.dumps({**begun, "inputs": {}}))
    ended = command(*words, *only, "--resume", "auto")
    assert "was begun" not in ended.err
    noted["model"]["sha256"] = "another"
    mark.write_text(json.dumps({**begun, "inputs": noted}))
    said = command(*words, *only, "--resume", "auto").err
    assert "has changed since" in said


def test_a_seed_that_comes_apart_is_told_and_does_not_fail_its_task(
    tmp_path: Path, pretrained: Path, data: Path, command: Run
) -> None:
    out = tmp_path / "out"
    words = ["evaluate", "--suite", "glue", "--data", data, "--model", pretrained, "--out", out]
    words += ["--only", "rte", "--epochs", 1, "--limit", 19, "--seeds", 2, "--lr", 1e38]
    ended = command(*words)
    assert "warning: seed 0 of rte has collapsed: " in ended.err
    said = "came apart with every seed; begin in another --out with a lower --lr"
    assert f"rte failed: its training {said}" in ended.err
    task, model = out / "rte", out / "rte" / "seed-0"
    shutil.rmtree(model)
    files = ["--train", task / "train.jsonl", "--dev", task / "dev.jsonl", "--out", model]
    made = command("finetune", "--model", pretrained, "--task", "match", *files, "--epochs", 1)
    assert made.code == 0, made.err
    again = command(*words, "--resume", "auto")
    assert again.code == 0, again.err
    (row, *_) = json.loads((out / "results.json").read_text())["rows"]
    assert "of 2 seeds collapsed; 1 of them came apart and are in no mean" in row["remark"]
    told = json.loads((out / "report.json").read_text())
    assert told["suite"]["rows"][0] == row
    assert "came apart" in (out / "report.md").read_text()
    assert "came apart" in (out / "report.html").read_text()
    assert "±" not in row["dev"]
    assert row["dev"]
