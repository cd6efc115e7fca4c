"""The suites of evaluate: each task is fine-tuned and scored by the commands for it, then told.

OUT/suite.json             what the whole was begun with
OUT/TASK/train.jsonl, …    the examples, in our own columns
OUT/TASK/seed-…/           the fine-tuned models; of several rates lr-…-seed-…, those of the best
OUT/TASK/result.json       how it went: a task that has it is not run again
OUT/results.md, .json      the table of all tasks so far
OUT/report.html, .md, .json  the same as a report
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager, suppress
from typing import Any

from bertworks.core.artifact import Origin, first_change, name_input, read_object, refuse_existing
from bertworks.core.errors import BertworksError, DataError, UsageError
from bertworks.core.lock import hold
from bertworks.core.progress import say
from bertworks.core.settings import as_command, as_json, read_values, settings_of, suggestion
from bertworks.evaluation.full_report import Part, Report, again
from bertworks.evaluation.suite_data import find_file, write_at_once
from bertworks.evaluation.suite_results import SuiteTable, TaskResult, markdown, table_rows
from bertworks.evaluation.suite_task import SuiteTask
from bertworks.evaluation.suites import SUITES
from bertworks.interop.hugging_face import open_folder
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.stages.children import Children
from bertworks.stages.idle_flags import refuse_all_but
from bertworks.stages.setting_groups import MachineSettings, SuiteSettings
from bertworks.stages.settings import EvaluateSettings, FinetuneSettings
from bertworks.stages.suite_runs import RESULT, SeedScores, TaskRuns
from bertworks.stages.task_settings import TaskSettings
from bertworks.tasks.catalog import takes

MAY_CHANGE = {
    "only",
    "resume",
    "at_once",
    "device",
    "threads",
    "backend",
}  # from one run to the next
ITS_OWN = {  # what a suite tells finetune by itself, or takes by a flag of its own
    *("model", "size", "task", "tasks", "train", "dev", "columns", "out", "longest", "choose_by"),
    *("epochs", "lr"),
    *("seed", "seeds", "checkpoint_every", "resume", "device", "precision", "threads"),
}
NOTES = (
    "Scores are percent, over several seeds the mean and its deviation. The best epoch is chosen "
    "on dev. Published figures of BERT-tiny to BERT-medium are those of Turc et al. (2019), of "
    "BERT-base those of the papers named in docs/commands/evaluate.md; each says whether it is of "
    "dev or of test."
)


def run_suite(settings: EvaluateSettings) -> dict[str, Any]:
    """Fine-tune and score each task of a suite; the failure of one does not lose the others."""
    refuse_all_but(settings, SuiteSettings, MachineSettings, of="suites")
    tasks = _chosen(settings.suites)
    _refuse_no_data(settings, tasks)
    besides = told_finetune(settings.suites.finetune, tasks)
    reads = open_folder(encoder_folder(settings.model)).config.max_positions
    _claim(settings)
    failures: dict[str, TaskResult] = {}
    runs = []
    for name, task in tasks.items():
        if (settings.out / name / RESULT).is_file():
            say(f"{name} is finished already")
            continue
        with _noted(failures, name):
            runs.append(TaskRuns(settings, name, task, reads=reads, besides=besides))
    rows = _tell(settings, failures)
    # What answers with the model of another task comes when that is there.
    for wave in (False, True):
        for _ in _run([one for one in runs if bool(one.task.model_of) is wave], settings, failures):
            rows = _tell(settings, failures)
    if failures:
        say((settings.out / "results.md").read_text(encoding="utf-8"))
        raise BertworksError(
            f"{len(failures)} of {len(tasks)} tasks failed ({', '.join(failures)}); "
            f"{settings.out / 'results.md'} tells why; mend it and go on with --resume auto"
        )
    return {"report": str(settings.out / "results.md"), "scores": rows}


@contextmanager
def _noted(failures: dict[str, TaskResult], name: str) -> Iterator[None]:
    """Note the failure of a task instead of ending by it."""
    try:
        yield
    except (BertworksError, OSError) as error:
        say(f"{name} failed: {error}")
        failures[name] = TaskResult(failure=str(error))


def _run(
    runs: list[TaskRuns], settings: EvaluateSettings, failures: dict[str, TaskResult]
) -> Iterator[str]:
    """Run all trials of some tasks, so many at once as is asked; yield each task at its end."""
    at_once = settings.suites.at_once
    if at_once > 1:  # the longest first, so that none is left alone at the end
        runs = sorted(runs, key=lambda one: one.num_examples, reverse=True)
    with (
        ThreadPoolExecutor(at_once) as pool,
        ThreadPoolExecutor(len(runs) or 1) as gatherers,
        Children() as children,
    ):
        scores = [[pool.submit(one.score, own, children) for own in one.trials] for one in runs]
        pairs = list(zip(runs, scores, strict=True))
        ends = {gatherers.submit(_gather, one, own): one.name for one, own in pairs}
        for end in as_completed(ends):
            with _noted(failures, ends[end]):
                end.result()
            yield ends[end]


def _gather(runs: TaskRuns, scores: Sequence["Future[SeedScores | None]"]) -> None:
    """Wait for the trials of a task and write them down; behind one that fails none begins."""
    wait(scores, return_when=FIRST_EXCEPTION)
    for trial in scores:
        trial.cancel()
    wait(scores)  # those that run keep what they make
    if runs.failure is not None:
        raise runs.failure
    runs.finish([trial.result() for trial in scores])


def told_finetune(words: Sequence[str], tasks: Mapping[str, SuiteTask]) -> dict[str, str]:
    """Return the settings that every fine-tuning gets besides, by flag.

    What finetune does not know, a suite decides, or one of the tasks does not have, is an error.
    """
    settings = {setting.name: setting for setting in settings_of(FinetuneSettings)}
    of_tasks = {setting.name for setting in settings_of(TaskSettings)}
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        key, name = name.replace("_", "-"), name.replace("-", "_")
        if name in ITS_OWN or key in found:
            reason = "it stands there twice" if key in found else "a suite has its own way for it"
            raise UsageError(f"--finetune cannot have {word!r}: {reason}; leave it out")
        if not sign or (name in settings and settings[name].is_switch):
            raise UsageError(
                f"--finetune takes numbers and words, as layer-decay=0.8, and no switches; "
                f"got {word!r}"
            )
        read_values(FinetuneSettings, {name: value}, where="finetune")
        without = [task for task, row in tasks.items() if row.kind and not takes(row.kind, name)]
        if name in of_tasks and without:
            raise UsageError(
                f"--finetune {word}: {', '.join(without)} cannot be told that; choose others by "
                "--only"
            )
        found[key] = value
    return found


def _refuse_no_data(settings: EvaluateSettings, tasks: Mapping[str, SuiteTask]) -> None:
    """Stop before anything is written where nothing is there of tasks that are to be run."""
    open_tasks = (t for name, t in tasks.items() if not (settings.out / name / RESULT).is_file())
    files = [settings.data / part[0].file for task in open_tasks for part in task.parts.values()]
    for file in files:
        with suppress(DataError):
            find_file(file)
            return
    if files:
        raise UsageError(f"{settings.data} holds none of the data sets: there is no {files[0]}")


def _chosen(chosen: SuiteSettings) -> dict[str, SuiteTask]:
    assert chosen.suite is not None
    tasks = SUITES[chosen.suite]
    for name in chosen.only:
        if name not in tasks:
            raise UsageError(
                f"the suite {chosen.suite} has no task {name!r}{suggestion(name, dict(tasks))}; "
                f"it has {', '.join(tasks)}"
            )
    wanted = {*(chosen.only or tasks)}
    wanted |= {base for name in wanted if (base := tasks[name].model_of) is not None}
    return {name: task for name, task in tasks.items() if name in wanted}


def _claim(settings: EvaluateSettings) -> None:
    """Take a free folder, or go on in one that was begun with the same settings."""
    out, mark = settings.out, settings.out / "suite.json"
    origin = Origin(settings=as_json(settings), inputs={"model": settings.model})
    if not mark.is_file():
        refuse_existing(out)
        out.mkdir(parents=True, exist_ok=True)
        told = {"settings": origin.settings, "inputs": {"model": name_input(settings.model)}}
        write_at_once(mark, json.dumps(told, indent=1))
    elif settings.suites.resume == "never":
        raise UsageError(
            f"{out} holds a suite; go on with --resume auto, choose another --out, or remove it"
        )
    begun = read_object(mark)
    if not isinstance(rate := begun["settings"].get("lr"), list):  # by a version that took one
        begun["settings"]["lr"] = [] if rate is None else [rate]
    if "model" not in begun["inputs"]:  # by a version that did not note it
        origin = Origin(settings=origin.settings)
    if change := first_change(out, begun, origin, free=MAY_CHANGE):
        raise UsageError(change)
    if not hold(out / "lock"):
        raise UsageError(f"another process runs a suite in {out}; wait for its end")


def _tell(settings: EvaluateSettings, failures: Mapping[str, TaskResult]) -> list[dict[str, str]]:
    """Write the table of all tasks so far, whichever run they were done in, and return its rows."""
    assert settings.suites.suite is not None
    tasks, results = SUITES[settings.suites.suite], {}
    for name in tasks:
        note = settings.out / name / RESULT
        if name in failures:
            results[name] = failures[name]
        elif note.is_file():
            results[name] = TaskResult(**read_object(note))
    rows = table_rows(tasks, results)
    command = as_command("evaluate", settings)
    title = f"The suite {settings.suites.suite}: {settings.model.name}"
    page = markdown(rows, title=title, notes=[NOTES, "", f"Made with `{command}`."])
    parts: list[Part] = [SuiteTable(tuple(rows), NOTES), again(Origin(command=command))]
    Report(title=title, parts=parts).write(settings.out)
    write_at_once(settings.out / "results.md", page)
    told = {name: result.as_json() for name, result in results.items()}
    whole = {
        "command": command,
        "settings": as_json(settings),
        "inputs": {"model": name_input(settings.model)},
        "rows": rows,
        "tasks": told,
    }
    write_at_once(settings.out / "results.json", json.dumps(whole, indent=1, ensure_ascii=False))
    return rows
