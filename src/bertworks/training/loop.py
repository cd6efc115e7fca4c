"""The training loop: forward, backward, step, record, in that order, on one screen."""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from bertworks.core.batch import Batch
from bertworks.core.device import Machine
from bertworks.core.errors import InterruptedRunError, TrainingError
from bertworks.core.progress import progress, say
from bertworks.core.seeds import derive
from bertworks.data.loader import Batches, load
from bertworks.training.optimizer import make_optimizer, set_rate
from bertworks.training.run import Counters, Run
from bertworks.training.schedule import warmup_linear

MOST_SKIPPED_IN_A_ROW = 3


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How long and how fast a model learns."""

    steps: int
    lr: float
    warmup: int = 0  # steps
    weight_decay: float = 0.01
    clip: float = 1.0  # the largest norm of a gradient
    seed: int = 0
    workers: int = 0
    checkpoint_every: int = 0  # steps; 0: only when interrupted
    evaluate_every: int = 0  # steps; 0: never


@dataclass(frozen=True)
class Evaluation:
    """A model's scores in the middle of a run; a higher score is better."""

    score: float
    metrics: dict[str, float]


def train(
    model: nn.Module,
    batches: Batches,
    plan: TrainingPlan,
    *,
    run: Run,
    machine: Machine,
    evaluate: Callable[[], Evaluation] | None = None,
) -> Counters:
    """Train to the last step, from wherever the run stands; end with the best weights.

    Called with a batch, the model returns the loss of each of its tasks, summed over the targets.
    """
    model.to(machine.device).train()
    optimizer = make_optimizer(model, lr=plan.lr, weight_decay=plan.weight_decay)
    at = run.restore(model, optimizer)
    shown = progress("training", total=plan.steps, unit="steps", already=at.step)
    steps = load(batches, first=at.step, last=plan.steps, workers=plan.workers)
    with _signals() as stop, shown as meter, closing(steps):
        for step, parts in enumerate(steps, start=at.step + 1):
            rate = plan.lr * warmup_linear(step, warmup=plan.warmup, total=plan.steps)
            set_rate(optimizer, rate)
            losses = _backward(model, parts, step, plan=plan, machine=machine)
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), plan.clip))
            is_finite = math.isfinite(norm) and all(map(math.isfinite, losses.values()))
            if is_finite:
                optimizer.step()
            optimizer.zero_grad()
            at = replace(
                at, step=step, skipped_in_a_row=0 if is_finite else at.skipped_in_a_row + 1
            )
            _record(run, step, losses, rate=rate, norm=norm, parts=None if is_finite else parts)
            meter.advance(note=f"loss {sum(losses.values()):.3f}")
            if at.skipped_in_a_row > MOST_SKIPPED_IN_A_ROW:
                raise TrainingError(_skip_message(step, parts))
            if evaluate and _is_due(step, plan.evaluate_every, plan.steps):
                at = _keep_best(run, model, at, evaluate())
            is_stopped = bool(stop)  # looked at once: a signal may come at any time
            if is_stopped or _is_due(step, plan.checkpoint_every, plan.steps):
                run.save(model, optimizer, at)
            if is_stopped and step < plan.steps:
                raise InterruptedRunError(
                    f"stopped by a signal after step {step}; continue with --resume auto",
                    signal_number=stop[0],
                )
    if at.best_step:
        run.load_best(model)
    return at


def _backward(
    model: nn.Module, parts: list[Batch], step: int, *, plan: TrainingPlan, machine: Machine
) -> dict[str, float]:
    """Add up the gradients of a step's parts; each task's loss is the mean over the whole step."""
    totals = {name: sum(part.targets[name].count for part in parts) for name in parts[0].targets}
    means = dict.fromkeys(totals, 0.0)
    for number, part in enumerate(parts):
        torch.manual_seed(derive(plan.seed, "dropout", step, number))
        with machine.autocast():
            sums = model(part.to(machine.device))
        shares = {name: loss / max(totals[name], 1e-9) for name, loss in sums.items()}
        torch.stack(list(shares.values())).sum().backward()
        means = {name: means[name] + float(share.detach()) for name, share in shares.items()}
    return means


def _keep_best(run: Run, model: nn.Module, at: Counters, evaluation: Evaluation) -> Counters:
    run.record({"step": at.step, "evaluation": evaluation.metrics})
    shown = ", ".join(f"{name} {value:.4f}" for name, value in evaluation.metrics.items())
    say(f"after step {at.step}: {shown}")
    if not evaluation.score > at.best_score:  # one that is no number never is
        return at
    run.save_best(model)
    return replace(at, best_step=at.step, best_score=evaluation.score)


def _record(
    run: Run,
    step: int,
    losses: dict[str, float],
    *,
    rate: float,
    norm: float,
    parts: list[Batch] | None,
) -> None:
    entry: dict[str, Any] = {"step": step, **losses, "lr": rate, "gradient_norm": norm}
    if parts is not None:
        entry["skipped"] = [example for part in parts for example in part.ids]
        say(f"warning: step {step} is skipped, its loss or gradient is not finite")
    run.record(entry)


def _skip_message(step: int, parts: list[Batch]) -> str:
    ids = ", ".join(str(example) for part in parts for example in part.ids[:5])
    return (
        f"{MOST_SKIPPED_IN_A_ROW + 1} steps in a row up to {step} had a loss or gradient that is "
        f"not finite (examples {ids}, …; all in log.jsonl); look at these examples, or begin again "
        "elsewhere with a lower --lr"
    )


def _is_due(step: int, every: int, last: int) -> bool:
    return bool(every) and (step % every == 0 or step == last)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect the signals that ask for an end, instead of dying of them."""
    received: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    names = (signal.SIGTERM, signal.SIGINT) if is_main else ()
    before = [signal.signal(name, lambda number, _: received.append(number)) for name in names]
    try:
        yield received
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
