"""finetune: a pre-trained model and labelled examples -> a fine-tuned model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bertworks.core.artifact import Origin, saving
from bertworks.core.device import Machine, prepare
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.core.seeds import derive
from bertworks.core.settings import as_command, as_json
from bertworks.data.example_batches import ExampleBatches, MixedBatches
from bertworks.evaluation.answer_views import Gallery
from bertworks.evaluation.dev_scores import DevScores, DevSet
from bertworks.evaluation.findings import worst_first
from bertworks.evaluation.floors import ONE_TEXT, Floors
from bertworks.evaluation.full_report import (
    Part,
    again,
    dev_parts,
    findings_of,
    fingerprint,
    training_report,
)
from bertworks.evaluation.run_parts import Speed
from bertworks.evaluation.statistics import NO_WIDTH, has_no_width, range_rows
from bertworks.evaluation.training_curves import course_of
from bertworks.serving.model_folder import OpenModel, write_model
from bertworks.stages.finetune_data import CutAnew, TaskData, cut_task, read_task
from bertworks.stages.finetune_model import (
    longest_of,
    open_for,
    own_tasks,
    refuse_vain_lessons,
)
from bertworks.stages.finetune_plan import plan_of
from bertworks.stages.finetune_seeds import run_seeds
from bertworks.stages.finetune_vectors import settle_vectors
from bertworks.stages.settings import FinetuneSettings
from bertworks.stages.task_list import TaskSource, task_sources
from bertworks.tokenizer.piece_dropout import PieceDropout
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.log import read_log
from bertworks.training.loop import train
from bertworks.training.pace import Stopwatch
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Counters, Run, is_finished, refuse_taken


def run(settings: FinetuneSettings) -> dict[str, Any]:
    """Fine-tune a model on one task or several; the epoch that scores best on dev is kept."""
    sources = task_sources(settings)
    if settings.choice.seeds > 1:
        return run_seeds(settings, run, origin=_origin(settings, sources, {}))
    return _run_once(settings, sources)


@dataclass(frozen=True)
class _Ready:
    """All that a run learns from and with, made before its folder is."""

    learned: list[TaskData]
    opened: OpenModel
    longest: int
    batches: ExampleBatches | MixedBatches
    scores: DevScores
    plan: TrainingPlan

    @cached_property
    def set_aside(self) -> Quarantine:
        """What was set aside of all files."""
        whole = Quarantine()
        for part in (part for one in self.learned for part in (one.training, one.dev)):
            whole.take(part.quarantine)
        return whole


def _run_once(settings: FinetuneSettings, sources: Sequence[TaskSource]) -> dict[str, Any]:
    machine = prepare(**vars(settings.machine))
    origin = _origin(settings, sources, {"precision": machine.precision})
    if settings.resume == "auto" and is_finished(settings.out, origin):
        say(f"{settings.out} is finished already")
        return {"model": str(settings.out)}
    refuse_taken(settings.out, resume=settings.resume == "auto")
    ready = _make_ready(settings, sources, machine)
    floors = Floors.of(ready.scores)
    running = Run(settings.out, origin=origin, resume=settings.resume == "auto")
    _tell_aside(ready.set_aside, settings.out)
    at = train(
        ready.opened.model,
        ready.batches,
        ready.plan,
        run=running,
        machine=machine,
        evaluate=ready.scores.score,
    )
    scoring = Stopwatch()
    _tell_early_end(ready.plan, at)
    ready.scores.tune()
    told, shown = _last_scores(ready.learned, ready.scores, floors)
    seconds = at.spent.seconds + scoring.spent()
    work = {"steps": at.step, "examples": ready.batches.num_seen(at.step)}
    report = training_report(
        f"Fine-tuning of {settings.model.name}",
        shown,
        course_of(read_log(settings.out), best_step=at.best_step),
        last=[
            *_data_parts(ready.learned, origin),
            Speed.of(machine, seconds, work),
            again(origin),
        ],
    )
    with saving(settings.out, kind="model", origin=origin) as folder:
        extra = {**told, "best_step": at.best_step, "longest": ready.longest}
        write_model(folder, ready.opened.model, ready.opened.tokenizer, extra=extra)
        report.write(folder)
    return {
        "model": str(settings.out),
        "task": ", ".join(one.task.name for one in ready.learned),
        "best_epoch": at.best_step / ready.batches.steps_per_epoch,
        "seconds": at.spent.seconds + scoring.spent(),
        "bad_rows": ready.set_aside.num_bad,
        **{f"dev_{name}": value for name, value in told["dev"].items()},
        "intervals": range_rows(told["dev_intervals"]),
    }


def _make_ready(
    settings: FinetuneSettings, sources: Sequence[TaskSource], machine: Machine
) -> _Ready:
    """Read the data and open the model; a row that cannot be scored stops the run here."""
    own = own_tasks(settings)
    going_on = {} if settings.several.new_head else own
    read = [read_task(source, going_on) for source in sources]
    tasks = [one.task for one in read]
    opened = open_for(settings, tasks, own)
    longest = longest_of(settings, opened)
    refuse_vain_lessons(settings, tasks, opened)
    settled = settle_vectors(settings, read, opened)
    learned = [cut_task(one, opened, longest) for one in settled]
    batches = _batches(settings, learned, opened.tokenizer, longest)
    scores = _dev_scores(settings, learned, opened, machine)
    plan = plan_of(
        settings,
        opened,
        {one.task.name: one.source.weight for one in learned},
        num_examples=sum(len(one.training.examples) for one in learned),
        steps_per_epoch=batches.steps_per_epoch,
    )
    return _Ready(learned, opened, longest, batches, scores, plan)


def _tell_aside(quarantine: Quarantine, out: Path) -> None:
    """Write and say what was set aside."""
    quarantine.write(out)
    if summary := quarantine.summary():
        say(f"warning: {summary}")


def _tell_early_end(plan: TrainingPlan, at: Counters) -> None:
    if at.step != plan.steps and plan.gives_up(at.step, best_step=at.best_step):
        say(f"no gain in {plan.patience} epochs, so training ended after step {at.step}")
        if plan.regularize.average_last and at.step <= plan.average_since:
            say("warning: it ended before the epochs of --average-last, so nothing is averaged")


def _batches(
    settings: FinetuneSettings, learned: Sequence[TaskData], tokenizer: Tokenizer, longest: int
) -> ExampleBatches | MixedBatches:
    made, rate = [], settings.regularize.piece_dropout
    for one in learned:
        seed = settings.seed
        if len(learned) > 1:
            seed = derive(seed, "task", one.task.name)
        dropout = PieceDropout(tokenizer, rate=rate, seed=seed) if rate else None
        batches = ExampleBatches(
            one.training.windows,
            batch_size=settings.batch_size,
            accumulate=settings.accumulate,
            seed=seed,
            recut=CutAnew(one, dropout, longest) if dropout else None,
        )
        made.append(batches)
    if len(made) == 1:
        return made[0]
    return MixedBatches(made, temperature=settings.several.temperature, seed=settings.seed)


def _dev_scores(
    settings: FinetuneSettings,
    learned: Sequence[TaskData],
    opened: OpenModel,
    machine: Machine,
) -> DevScores:
    sets = {one.task.name: DevSet(one.dev.examples, one.dev.windows) for one in learned}
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
    learned: Sequence[TaskData], scores: DevScores, floors: Floors
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
    are_alike = len(learned) == 1 and any(own.are_alike for own in scores.judges.values())
    for sentence in floors.warnings(found.score, fallen, are_alike=are_alike):
        say(f"warning: {sentence}")
    intervals = scores.intervals()
    if has_no_width(intervals.values()):
        say(f"warning: {NO_WIDTH}")
    ranges = {name: (one.low, one.high) for name, one in intervals.items()}
    told: dict[str, Any] = {
        "dev": found.metrics,
        "dev_intervals": ranges,
        "dev_floor": floors.chosen,
    }
    if are_alike:
        told[ONE_TEXT] = True
    if len(learned) > 1:
        told |= {"dev_floors": floors.of_tasks, "collapsed_tasks": fallen}
    return told, dev_parts(scores, galleries)


def _input_name(source: TaskSource, part: str) -> str:
    return f"{source.name} {part}" if source.name else part


def _data_parts(learned: Sequence[TaskData], origin: Origin) -> list[Part]:
    """Return what was found in the data, and what they are."""
    rows = {
        _input_name(one.source, name): len(part.examples)
        for one in learned
        for name, part in (("train", one.training), ("dev", one.dev))
    }
    findings = worst_first(found for one in learned for found in one.findings)
    return [findings_of(findings), fingerprint(origin, rows)]
