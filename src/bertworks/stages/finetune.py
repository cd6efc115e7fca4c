"""finetune: a pre-trained model and labelled examples -> a fine-tuned model."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isnan, nan
from pathlib import Path
from typing import Any

from bertworks.core.artifact import MANIFEST, Origin, read_object, refuse_existing, saving
from bertworks.core.device import Machine, prepare
from bertworks.core.errors import DataError, TrainingError, UsageError
from bertworks.core.lines import STANDARD_INPUT
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.core.seeds import derive
from bertworks.core.settings import as_command, as_json
from bertworks.data.example_batches import ExampleBatches, MixedBatches
from bertworks.data.packing import Features
from bertworks.data.rows import find_form, only_pairs, parse_columns, read_examples
from bertworks.evaluation.answer_parts import Scores
from bertworks.evaluation.answer_views import Gallery
from bertworks.evaluation.data_check import check_before_training
from bertworks.evaluation.dev_scores import DevScores, DevSet
from bertworks.evaluation.findings import Finding, worst_first
from bertworks.evaluation.floors import FLOOR_WORDS, Floors, SeedScores
from bertworks.evaluation.full_report import (
    Part,
    Report,
    again,
    dev_parts,
    findings_of,
    fingerprint,
    training_report,
)
from bertworks.evaluation.piece_checks import unknown_warning
from bertworks.evaluation.run_parts import Seeds, Speed
from bertworks.evaluation.statistics import NO_WIDTH, Interval, has_no_width
from bertworks.evaluation.training_curves import course_of
from bertworks.serving.model_folder import OpenModel, open_model, write_model
from bertworks.stages.finetune_model import longest_of, open_for, own_tasks
from bertworks.stages.finetune_plan import plan_of
from bertworks.stages.settings import FinetuneSettings
from bertworks.stages.task_list import TaskSource, task_sources
from bertworks.tasks.answering import windows_of
from bertworks.tasks.catalog import KINDS, guess_kind, learn_task
from bertworks.tasks.task import Task
from bertworks.training.loop import train
from bertworks.training.run import FREE_SETTINGS, Run, is_finished, read_log, refuse_taken

FREE = FREE_SETTINGS - {"patience"}  # here it is how long training goes on


def run(settings: FinetuneSettings) -> dict[str, Any]:
    """Fine-tune a model on one task or several; the epoch that scores best on dev is kept."""
    if settings.choice.seeds > 1:
        return _run_seeds(settings)
    sources = task_sources(settings)
    machine = prepare(**vars(settings.machine))
    origin = _origin(settings, sources, {"precision": machine.precision})
    if settings.resume == "auto" and is_finished(settings.out, origin, free=FREE):
        say(f"{settings.out} is finished already")
        return {"model": str(settings.out)}
    refuse_taken(settings.out, resume=settings.resume == "auto")
    quarantine, own = Quarantine(), own_tasks(settings)
    going_on = {} if settings.several.new_head else own
    learned = [_read(source, quarantine, going_on) for source in sources]
    opened = open_for(settings, [one.task for one in learned], own)
    longest = longest_of(settings, opened)
    # A row that cannot be scored stops the run before it begins.
    batches = _batches(settings, learned, opened, longest)
    scores = _dev_scores(settings, learned, opened, longest, machine)
    plan = plan_of(
        settings,
        opened,
        {one.task.name: one.source.weight for one in learned},
        num_examples=sum(len(one.training) for one in learned),
        steps_per_epoch=batches.steps_per_epoch,
    )
    floors = Floors.of(scores)
    running = Run(settings.out, origin=origin, resume=settings.resume == "auto", free=FREE)
    quarantine.write(settings.out)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    started = time.monotonic()
    at = train(opened.model, batches, plan, run=running, machine=machine, evaluate=scores.score)
    if plan.gives_up(at.step, best_step=at.best_step):
        say(f"no gain in {plan.patience} epochs, so training ended after step {at.step}")
        if plan.regularize.average_last and at.step <= plan.average_since:
            say("warning: it ended before the epochs of --average-last, so nothing is averaged")
    scores.tune()
    told, shown = _last_scores(learned, scores, floors)
    work = _work(batches, first=running.resumed_after, last=at.step)
    report = training_report(
        f"Fine-tuning of {settings.model.name}",
        shown,
        course_of(read_log(settings.out), best_step=at.best_step),
        last=[
            *_data_parts(learned, origin),
            Speed.of(machine, time.monotonic() - started, work),
            again(origin),
        ],
    )
    with saving(settings.out, kind="model", origin=origin) as folder:
        extra = {**told, "best_step": at.best_step, "longest": longest}
        write_model(folder, opened.model, opened.tokenizer, extra=extra)
        report.write(folder)
    return {
        "model": str(settings.out),
        "task": ", ".join(one.task.name for one in learned),
        "best_epoch": at.best_step / batches.steps_per_epoch,
        "seconds": time.monotonic() - started,
        "bad_rows": quarantine.num_bad,
        **{f"dev_{name}": value for name, value in told["dev"].items()},
        "intervals": _interval_rows(told["dev_intervals"]),
    }


@dataclass(frozen=True)
class _Learned:
    """A task with the examples that it is learned from and scored on."""

    source: TaskSource
    task: Task
    training: Sequence[Any]
    dev: Sequence[Any]
    findings: Sequence[Finding]


def _read(source: TaskSource, quarantine: Quarantine, own: Mapping[str, Task]) -> _Learned:
    """Read the examples of a task, which tell its labels, and perhaps what task it is."""
    if STANDARD_INPUT in (source.train, source.dev):
        raise UsageError("examples cannot come from standard input here; give files")
    columns = parse_columns(source.columns)
    kind = KINDS.get(source.task) if source.task else None
    form = find_form(source.train, columns, among=kind.forms() if kind else None)
    dev_form = find_form(source.dev, columns, among=kind.forms(scored=True)) if kind else form
    files = ((source.train, form), (source.dev, dev_form))
    training, dev = (
        read_examples(file, quarantine, form=form, columns=columns) for file, form in files
    )
    if kind and kind.reads_pairs and any(example.text_b is not None for example in training):
        training = only_pairs(source.train, training, quarantine)
        dev = only_pairs(source.dev, dev, quarantine)
    try:
        named = source.task or guess_kind(form, training)
        before = own.get(source.name or named)
        task = learn_task(named, training, name=source.name, before=before, **source.flags)
    except DataError as error:
        raise DataError(f"{source.train} {error}") from error
    if source.task is None:
        of = f" of {source.name}" if source.name else ""
        say(f"task{of}: {named}, guessed from the columns")
    examples = (training, dev)
    findings = check_before_training(source.train, source.dev, examples, flags=source.reading_flags)
    return _Learned(source, task, training, dev, findings)


def _batches(
    settings: FinetuneSettings, learned: Sequence[_Learned], opened: OpenModel, longest: int
) -> ExampleBatches | MixedBatches:
    made = []
    for one in learned:
        seed = settings.seed
        if len(learned) > 1:
            seed = derive(seed, "task", one.task.name)
        batches = ExampleBatches(
            _windows(one.task, one.source.train, one.training, opened, longest),
            batch_size=settings.batch_size,
            accumulate=settings.accumulate,
            seed=seed,
        )
        made.append(batches)
    if len(made) == 1:
        return made[0]
    return MixedBatches(made, temperature=settings.several.temperature, seed=settings.seed)


def _dev_scores(
    settings: FinetuneSettings,
    learned: Sequence[_Learned],
    opened: OpenModel,
    longest: int,
    machine: Machine,
) -> DevScores:
    sets = {
        one.task.name: DevSet(one.dev, _windows(one.task, one.source.dev, one.dev, opened, longest))
        for one in learned
    }
    scores = DevScores(
        opened.model.to(machine.device),
        opened.tokenizer,
        sets,
        machine=machine,
        choose_by=settings.choice.choose_by,
    )
    scores.refuse_alike()
    if scores.choose_by:
        scores.score()  # which tells whether there is such a score
    return scores


def _windows(
    task: Task, file: Path, examples: Sequence[Any], opened: OpenModel, longest: int
) -> list[list[Features]]:
    tokenizer = opened.tokenizer
    windows = windows_of(task, examples, tokenizer, longest=longest, where=f"{file} line")
    flat = [window for own in windows for window in own]
    replies = (window.reply for window in flat if window.reply is not None)
    texts = chain((window.tokens for window in flat), replies)
    if warning := unknown_warning(str(file), texts, tokenizer.specials.unknown):
        say(f"warning: {warning}")
    return windows


def _origin(
    settings: FinetuneSettings, sources: Sequence[TaskSource], found: Mapping[str, str]
) -> Origin:
    inputs = {"model": settings.model}
    if settings.several.tasks:
        inputs["tasks"] = settings.several.tasks
    for source in sources:
        inputs |= {
            _input_name(source, "train"): source.train,
            _input_name(source, "dev"): source.dev,
        }
    return Origin(
        command=as_command("finetune", settings),
        settings={**as_json(settings), **found},
        seed=settings.seed,
        inputs=inputs,
    )


def _last_scores(
    learned: Sequence[_Learned], scores: DevScores, floors: Floors
) -> tuple[dict[str, Any], dict[str, list[Part]]]:
    """Score the model as it is kept; return what is saved of that, and what the report shows."""
    galleries = {one.task.name: Gallery(one.task.labels) for one in learned}
    found = scores.score(galleries=galleries)
    for name, judge in scores.judges.items():
        for sentence in [*judge.lacking(), *judge.absent()]:
            say(f"warning: of {name} on dev, {sentence}")
        for sentence in judge.notes():
            say(f"of {name} on dev, {sentence}")
    fallen = floors.fallen(scores) if len(learned) > 1 else []
    for sentence in floors.warnings(found.score, fallen):
        say(f"warning: {sentence}")
    intervals = scores.intervals()
    if has_no_width(intervals.values()):
        say(f"warning: {NO_WIDTH}")
    ranges = {name: (one.low, one.high) for name, one in intervals.items()}
    told = {"dev": found.metrics, "dev_intervals": ranges, "dev_floor": floors.chosen}
    if len(learned) > 1:
        told |= {"dev_floors": floors.of_tasks, "collapsed_tasks": fallen}
    return told, dev_parts(scores, galleries)


def _work(batches: ExampleBatches | MixedBatches, *, first: int, last: int) -> dict[str, float]:
    """Return what was done since the run began or went on."""
    return {"steps": last - first, "examples": batches.num_seen(last) - batches.num_seen(first)}


def _interval_rows(ranges: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    return [{"score": name, "low": low, "high": high} for name, (low, high) in ranges.items()]


def _input_name(source: TaskSource, part: str) -> str:
    return f"{source.name} {part}" if source.name else part


def _data_parts(learned: Sequence[_Learned], origin: Origin) -> list[Part]:
    """Return what was found in the data, and what they are."""
    rows = {
        _input_name(one.source, part): len(examples)
        for one in learned
        for part, examples in (("train", one.training), ("dev", one.dev))
    }
    findings = worst_first(found for one in learned for found in one.findings)
    return [findings_of(findings), fingerprint(origin, rows)]


def _run_seeds(settings: FinetuneSettings) -> dict[str, Any]:
    """Fine-tune with several seeds, each in a folder of its own; the best on dev is the result."""
    origin, out = _origin(settings, task_sources(settings), {}), settings.out
    if settings.resume == "auto" and is_finished(out, origin, free=FREE):
        say(f"{out} is finished already")
        return {"model": str(out)}
    if settings.resume == "never" or not _is_begun(out):
        refuse_existing(out)
    seeds = range(settings.seed, settings.seed + settings.choice.seeds)
    told = {seed: _run_seed(settings, seed) for seed in seeds}
    found: dict[int, dict[str, float]] = {seed: one.get("dev", {}) for seed, one in told.items()}
    floor = next((one["dev_floor"] for one in told.values() if one), None)
    known = (name for one in found.values() for name in one)
    chosen = settings.choice.choose_by or next(known, "score")
    scores = SeedScores({seed: one.get(chosen, nan) for seed, one in found.items()}, floor)
    _refuse_collapse(scores, chosen, out)
    best, collapsed = scores.best, scores.collapsed
    opened = open_model(out / f"seed-{best}")
    extra = {name: told[best][name] for name in ("dev", "dev_intervals", "dev_floor")}
    extra |= {"best_seed": best, "collapsed": collapsed}
    if fallen := {
        seed: one["collapsed_tasks"] for seed, one in told.items() if "dev_floors" in one
    }:
        extra["collapsed_tasks"] = fallen
    with saving(out, kind="model", origin=origin) as folder:
        write_model(folder, opened.model, opened.tokenizer, extra=extra | {"seeds": found})
        _seeds_report(origin, chosen, scores, told[best]).write(folder)
    return {
        "model": str(out),
        "best_seed": best,
        **{f"dev_{name}": value for name, value in found[best].items()},
        f"dev_{chosen}_mean": None if isnan(scores.mean) else scores.mean,
        f"dev_{chosen}_deviation": None if isnan(scores.mean) else scores.deviation,
        "collapsed": collapsed,
        **({"collapsed_tasks": fallen} if fallen else {}),
        "intervals": _interval_rows(told[best]["dev_intervals"]),
    }


def _run_seed(settings: FinetuneSettings, seed: int) -> dict[str, Any]:
    """Fine-tune with one seed; return what is told of its model, of one that came apart nothing."""
    folder, once = settings.out / f"seed-{seed}", replace(settings.choice, seeds=1)
    say(f"seed {seed}")
    try:
        run(replace(settings, out=folder, seed=seed, choice=once))
    except TrainingError as error:
        say(f"warning: seed {seed} has collapsed: {error}")
        return {}
    return read_object(folder / "bertworks.json")


def _seeds_report(
    origin: Origin, chosen: str, scores: SeedScores, told: Mapping[str, Any]
) -> Report:
    best, metrics = scores.best, told["dev"]
    ranges = {name: Interval(metrics[name], *own) for name, own in told["dev_intervals"].items()}
    return Report(
        title=f"Fine-tuning with {len(scores.scores)} seeds",
        summary=f"The best seed is {best}; seed-{best}/report.html tells all of it.",
        parts=[
            Scores.of_metrics(metrics, ranges, of=f"of seed {best} on dev"),
            Seeds.of(chosen, scores),
            fingerprint(origin),
            again(origin),
        ],
    )


def _refuse_collapse(scores: SeedScores, chosen: str, out: Path) -> None:
    """Fail where no seed has learned anything, so that nobody reads a mean of nothing."""
    if len(scores.collapsed) < len(scores.scores):
        return
    floor = "" if scores.floor is None else f"{FLOOR_WORDS} {scores.floor:.4f}, and "
    shown = ", ".join(f"{score:.4f}" for score in scores.scores.values())
    raise TrainingError(
        f"all {len(scores.scores)} seeds have collapsed: {floor}dev {chosen} is {shown}; look "
        "at the data with bertworks check, lower --lr or raise --epochs, and choose another --out "
        f"than {out}"
    )


def _is_begun(out: Path) -> bool:
    """Tell whether a folder holds seeds alone, perhaps with a model that was half moved there."""
    files = {path.name for path in out.glob("*") if not path.name.startswith("seed-")}
    return MANIFEST not in files and files <= {path.name for path in out.glob("seed-*/*")}
