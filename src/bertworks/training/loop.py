"""The training loop: the gradient, the step, the record, in that order, on one screen."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from torch import nn

from bertworks.core.batch import Batch
from bertworks.core.crew import Crew
from bertworks.core.device import Machine
from bertworks.core.errors import InterruptedRunError, TrainingError
from bertworks.core.freed_memory import kept
from bertworks.core.progress import Meter, SilentMeter, progress, say
from bertworks.data.loader import Ahead, Batches, load
from bertworks.training.average import applied
from bertworks.training.descent import Descent
from bertworks.training.gradients import Gradients
from bertworks.training.health import Health, Verdict, judge, limits
from bertworks.training.pace import Pace
from bertworks.training.plan import Evaluation, TrainingPlan
from bertworks.training.run import Counters, Run
from bertworks.training.saver import Saver
from bertworks.training.sharding import shard, whole
from bertworks.training.signals import heeded_signals

Evaluate = Callable[[int], Evaluation]


def train(
    model: nn.Module,
    batches: Batches,
    plan: TrainingPlan,
    *,
    run: Run,
    machine: Machine,
    evaluate: Evaluate | None = None,
) -> Counters:
    """Train to the last step, from wherever the run stands; end with the best weights.

    Called with a batch, the model returns the loss of each of its tasks, summed over the targets;
    called with a step, `evaluate` scores the model as it is then.
    """
    descent, crew = _begin(model, plan, run, machine), run.crew
    evaluate = evaluate and _agreed(evaluate, model, crew)
    at = descent.restore(run)
    pace = _pace(plan, at, evaluate, machine)
    gradients = Gradients(model, plan, machine, crew)
    steps = _steps(batches, pace, plan, machine, stands_at=lambda: at)
    with (
        heeded_signals(is_nested=plan.is_nested) as stop,  # also while the last files are written
        Saver(run, in_background=machine.device.type == "cuda") as saver,
        _meter(plan, at) as meter,
        kept() if machine.device.type == "cpu" else nullcontext(),  # memory, for the next step
        closing(steps),
    ):
        for step, parts, fetch_next in steps:
            rate = plan.lr * pace.rate(step)
            descent.freeze(step)
            measured = gradients.compute(
                [] if at.health.leaves_out(step) else parts,
                step,
                share=pace.share(step),
                weights=descent.lent(step),
            )
            is_bad = measured.is_bad(limits(at.health, plan.spike))
            has_moved = descent.step_unless(is_bad, rate, number=step)
            fetch_next()
            losses, norm = measured.read()
            verdict, health = judge(at.health, step, losses, norm=norm, spike=plan.spike)
            if verdict.act == "update" and not has_moved:
                descent.step(rate, number=step)
            descent.forget_gradients()
            at = replace(at, step=step, health=health)
            _record(
                saver,
                {"step": step, **losses, "lr": rate, "gradient_norm": norm},
                parts=parts,
                verdict=verdict,
            )
            meter.advance(note=f"loss {sum(losses.values()):.3f}{pace.note()}")
            if verdict.act == "go back":
                at = _go_back(saver, descent, health, meter)
                continue
            is_last = pace.is_last(step)
            if evaluate and _is_due(step, plan.evaluate_every, is_last):
                at = _score(saver, descent, at, evaluate, pace)
                is_last = is_last or plan.gives_up(step, best_step=at.best_step)
            # Asked once, for a signal may come at any time, and to any of the processes.
            signal_number = int(crew.largest(stop[0] if stop else 0))
            if signal_number or _is_due(step, plan.checkpoint_every, is_last or pace.wants("save")):
                _save(saver, descent, at, pace)
            if signal_number and not is_last:
                _end(saver, step, signal_number=signal_number)
    descent.finish(run, at)
    return replace(at, spent=pace.spent)


def _begin(model: nn.Module, plan: TrainingPlan, run: Run, machine: Machine) -> Descent:
    """Put a model where it is trained: whole in each process, or shared by all."""
    model.to(machine.device).train()
    if plan.sharding == "full" and run.crew.size > 1:
        shard(model, run.crew, machine.device)
        run.write_together()
    # A GPU that is asked before it is told to move has nothing to do until it is told.
    moves_first = machine.device.type == "cuda" and run.crew.size == 1
    return Descent(model, plan, moves_first=moves_first, in_half=machine.precision == "bf16")


def _agreed(evaluate: Evaluate, model: nn.Module, crew: Crew) -> Evaluate:
    """Let all processes score the whole model, and believe the first."""

    def scored(step: int) -> Evaluation:
        with whole(model):
            return evaluate(step).agreed(crew)

    return scored


def _pace(plan: TrainingPlan, at: Counters, evaluate: Evaluate | None, machine: Machine) -> Pace:
    """Return where the run stands; under a budget an evaluation tells first how long it takes."""
    pace = plan.pace(at.spent)
    if plan.budget and evaluate:
        compiles = machine.device.type == "cuda"
        pace.rehearse("evaluation", partial(evaluate, at.step), compiles=compiles)
    return pace


def _meter(plan: TrainingPlan, at: Counters) -> AbstractContextManager[Meter]:
    if plan.is_nested:
        return nullcontext(SilentMeter())
    return progress("training", total=plan.steps, unit="steps", already=at.step)


def _steps(
    batches: Batches,
    pace: Pace,
    plan: TrainingPlan,
    machine: Machine,
    *,
    stands_at: Callable[[], Counters],
) -> Generator[tuple[int, list[Batch], Callable[[], None]], None, None]:
    """Yield each step, its batch, and how to fetch the next; anew whenever the run went back."""

    def has_given_up() -> bool:
        return plan.gives_up(stands_at().step, best_step=stands_at().best_step)

    while pace.goes_on_after(start := stands_at().step) and not has_given_up():
        with closing(load(batches, first=start, last=pace.steps, workers=plan.workers)) as made:
            # Fetched while the device works, a batch is there when its step begins.
            ahead = Ahead([part.to(machine.device) for part in parts] for parts in made)
            for step, parts in enumerate(ahead, start=start + 1):
                yield step, parts, ahead.fetch
                if stands_at().step != step or pace.has_ended or has_given_up():
                    break


def _go_back(saver: Saver, descent: Descent, health: Health, meter: Meter) -> Counters:
    new = health.rollbacks[-1]
    saver.wait()
    at = descent.go_back(saver.run, before=new.first)
    left_out = f"steps {new.first} to {new.last} are left out"
    say(f"warning: back to step {at.step}; {left_out}: {new.reason}")
    meter.advance(at.step - new.last)
    return replace(at, health=replace(at.health, rollbacks=health.rollbacks))


def _score(
    saver: Saver, descent: Descent, at: Counters, evaluate: Evaluate, pace: Pace
) -> Counters:
    """Score the model, or the average of its weights, and keep what is the best so far."""
    with pace.timing("evaluation"), applied(descent.average):
        evaluation = evaluate(at.step)
        saver.run.record({"step": at.step, "evaluation": evaluation.metrics})
        shown = ", ".join(f"{name} {value:.4f}" for name, value in evaluation.metrics.items())
        say(f"after step {at.step}: {shown}")
        score = evaluation.score
        if score is None or not score > at.best_score:  # nor if it is no number
            return at
        with whole(descent.model):
            saver.save_best(dict(descent.model.named_parameters()), at.step)
        return replace(at, best_step=at.step, best_score=score)


def _record(saver: Saver, entry: dict[str, Any], *, parts: list[Batch], verdict: Verdict) -> None:
    """Log a step; stop where the run must not go on, or where a checkpoint could not be saved."""
    skipped = [] if verdict.act == "update" else _examples(parts, saver.run.crew)
    if verdict.act != "update":
        ids = [example for part in skipped for example in part]
        entry = {**entry, "skipped": ids, "reason": verdict.reason}
    if verdict.act == "skip":
        say(f"warning: step {entry['step']} is skipped: {verdict.reason}")
    saver.run.record(entry)
    saver.check()
    if verdict.act == "stop":
        raise TrainingError(_stop_message(verdict, skipped))


def _examples(parts: list[Batch], crew: Crew) -> list[tuple[int, ...]]:
    """Return which examples each part of a step has, those of other processes too."""
    own = [part.ids for part in parts]
    return [ids for turn in zip(*crew.gather(own), strict=True) for ids in turn]


def _end(saver: Saver, step: int, *, signal_number: int) -> NoReturn:
    saver.wait()
    saver.run.crew.agree(step)  # the end of one process would end those that still write
    raise InterruptedRunError(
        f"stopped by a signal after step {step}; continue with --resume auto",
        signal_number=signal_number,
    )


def _stop_message(verdict: Verdict, examples: list[tuple[int, ...]]) -> str:
    ids = ", ".join(str(example) for part in examples for example in part[:5])
    return (
        f"{verdict.reason} (examples {ids}, …; all in log.jsonl); look at these examples, or begin "
        "again elsewhere with a lower --lr"
    )


def _save(saver: Saver, descent: Descent, at: Counters, pace: Pace) -> None:
    """Write a checkpoint; under a budget the first one is waited for, to know how long it takes."""
    stands = replace(at, spent=pace.spent)
    if not pace.wants("save"):
        saver.save(descent.state(), stands)
        return
    with pace.timing("save"):
        saver.save(descent.state(), stands)
        saver.wait()


def _is_due(step: int, every: int, is_last: bool) -> bool:
    return bool(every) and (step % every == 0 or is_last)
