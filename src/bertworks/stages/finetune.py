"""finetune: a pre-trained model and labelled examples -> a fine-tuned model."""

import time
from dataclasses import replace
from typing import Any

from bertworks.core.artifact import Origin
from bertworks.core.device import prepare
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.data.example_batches import ExampleBatches
from bertworks.data.rows import find_form, parse_columns, read_examples
from bertworks.evaluation.scoring import evaluate_task
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import open_model, save_model
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.answering import Answerer, windows_of
from bertworks.tasks.catalog import KINDS, guess_kind, learn_task
from bertworks.tasks.metrics import scikit_learn
from bertworks.tasks.task import Task, Tunable
from bertworks.training.loop import train
from bertworks.training.plan import Evaluation, TrainingPlan
from bertworks.training.run import Run, is_finished


def run(settings: FinetuneSettings) -> dict[str, Any]:
    """Fine-tune a model; the epoch that scores best on dev is kept."""
    scikit_learn("metrics")  # before the work, not after it
    quarantine = Quarantine()
    columns = parse_columns(settings.columns)
    form = KINDS[settings.task].form if settings.task else find_form(settings.train, columns)
    training, dev = (
        read_examples(file, quarantine, form=form, columns=columns)
        for file in (settings.train, settings.dev)
    )
    task = _task(settings, form, training)
    machine = prepare(
        settings.machine.device,
        precision=settings.machine.precision,
        threads=settings.machine.threads,
    )
    opened = open_model(
        settings.model,
        tasks=[task],
        dropout=settings.dropout,
        fresh=settings.fresh,
        seed=settings.seed,
    )
    say(f"weights: {opened.account or 'fresh, nothing loaded'}")
    longest = _longest(settings, opened.model.config)
    # A row that cannot be scored stops the run before it begins.
    windows, dev_windows = (
        windows_of(task, examples, opened.tokenizer, longest=longest, where=f"{file} line")
        for file, examples in ((settings.train, training), (settings.dev, dev))
    )
    batches = ExampleBatches(
        windows,
        batch_size=settings.batch_size,
        accumulate=settings.accumulate,
        seed=settings.seed,
    )
    origin = Origin(
        command=as_command("finetune", settings),
        settings=as_json(settings) | {"precision": machine.precision},
        seed=settings.seed,
        inputs={"model": settings.model, "train": settings.train, "dev": settings.dev},
    )
    if settings.resume == "auto" and is_finished(settings.out, origin):
        say(f"{settings.out} is finished already")
        return {"model": str(settings.out)}
    running = Run(settings.out, origin=origin, resume=settings.resume == "auto")
    quarantine.write(settings.out)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    started = time.monotonic()
    answerer = Answerer(opened.model, task, opened.tokenizer, machine)

    def evaluate(step: int) -> Evaluation:
        return evaluate_task(answerer, dev, dev_windows)

    plan = _plan(settings, batches.steps_per_epoch)
    at = train(opened.model, batches, plan, run=running, machine=machine, evaluate=evaluate)
    if isinstance(task, Tunable):
        tuned = task.tuned(dev, answerer.answer(dev, dev_windows))
        opened.model.tasks[task.name] = tuned
        answerer = replace(answerer, task=tuned)
    metrics = evaluate_task(answerer, dev, dev_windows).metrics
    extra = {"dev": metrics, "best_step": at.best_step}
    save_model(settings.out, opened.model, opened.tokenizer, origin=origin, extra=extra)
    return {
        "model": str(settings.out),
        "task": task.name,
        "best_epoch": at.best_step / batches.steps_per_epoch,
        "seconds": time.monotonic() - started,
        "bad_rows": quarantine.num_bad,
        **{f"dev_{name}": value for name, value in metrics.items()},
    }


def _task(settings: FinetuneSettings, form: str, training: list[Any]) -> Task:
    try:
        kind = settings.task or guess_kind(form, training)
        chosen = {name: value for name, value in vars(settings.tasks).items() if value is not None}
        task = learn_task(kind, training, **chosen)
    except DataError as error:
        raise DataError(f"{settings.train} {error}") from error
    if settings.task is None:
        say(f"task: {kind}, guessed from the columns")
    return task


def _longest(settings: FinetuneSettings, config: EncoderConfig) -> int:
    limit = config.max_positions
    if settings.longest and settings.longest > limit:
        raise UsageError(
            f"--longest is {settings.longest}, but {settings.model} reads {limit} pieces; lower it"
        )
    return settings.longest or limit


def _plan(settings: FinetuneSettings, steps_per_epoch: int) -> TrainingPlan:
    learning, steps = settings.learning, settings.epochs * steps_per_epoch
    return TrainingPlan(
        steps=steps,
        lr=settings.lr,
        warmup=round(settings.warmup * steps),
        optimizer=learning.optimizer,
        betas=(learning.beta1, learning.beta2),
        epsilon=learning.epsilon,
        schedule=learning.schedule,
        decay=learning.decay,
        average=learning.average,
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        seed=settings.seed,
        checkpoint_every=settings.checkpoint_every,
        evaluate_every=steps_per_epoch,
    )
