"""finetune: a pre-trained model and labelled examples -> a fine-tuned model."""

import time
from typing import Any

from bertworks.core.artifact import Origin
from bertworks.core.device import prepare
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.data.example_batches import ExampleBatches
from bertworks.data.examples import Example, parse_columns, read_examples
from bertworks.evaluation.scoring import evaluate_task
from bertworks.serving.model_folder import OpenModel, open_model, save_model
from bertworks.stages.settings import FinetuneSettings
from bertworks.tasks.answering import windows_of
from bertworks.tasks.catalog import find_labels, guess_task, make_task
from bertworks.tasks.metrics import scikit_learn
from bertworks.tasks.task import Task
from bertworks.training.loop import train
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Run, is_finished


def run(settings: FinetuneSettings) -> dict[str, Any]:
    """Fine-tune a model; the epoch that scores best on dev is kept."""
    scikit_learn("metrics")  # before the work, not after it
    quarantine = Quarantine()
    columns = parse_columns(settings.columns)
    training = read_examples(settings.train, quarantine, columns=columns)
    dev = read_examples(settings.dev, quarantine, columns=columns)
    task = _task(settings, training)
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
    batches, dev_windows = _prepare(settings, opened, task, training, dev)
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

    def evaluate(step: int = 0) -> Any:
        return evaluate_task(
            opened.model, task, dev, dev_windows, tokenizer=opened.tokenizer, machine=machine
        )

    plan = _plan(settings, batches.steps_per_epoch)
    at = train(opened.model, batches, plan, run=running, machine=machine, evaluate=evaluate)
    metrics = evaluate().metrics
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


def _task(settings: FinetuneSettings, training: list[Example]) -> Task:
    try:
        name = settings.task or guess_task(training)
    except DataError as error:
        raise DataError(f"{settings.train} {error}") from error
    if settings.task is None:
        say(f"task: {name}, guessed from the columns")
    labels = find_labels(training)
    if len(labels) < 2:
        raise DataError(
            f"{settings.train} has one label only ({labels[0]!r}), so there is nothing to tell "
            "apart; add examples of another"
        )
    return make_task(name, labels)


def _prepare(
    settings: FinetuneSettings,
    opened: OpenModel,
    task: Task,
    training: list[Example],
    dev: list[Example],
) -> tuple[ExampleBatches, Any]:
    """Turn both files into windows; a row that cannot be scored stops the run before it begins."""
    limit = opened.model.config.max_positions
    longest = settings.longest or limit
    if longest > limit:
        raise UsageError(
            f"--longest is {longest}, but {settings.model} reads {limit} pieces; lower it"
        )
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
    return batches, dev_windows


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
