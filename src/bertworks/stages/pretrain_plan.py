"""What a pre-training is asked to do: its flags as the loop wants them, by steps, time or both."""

import time

from bertworks.core.crew import Crew
from bertworks.core.errors import UsageError
from bertworks.core.settings import Ramp
from bertworks.stages.learning_plan import learning_plan
from bertworks.stages.settings import PretrainSettings
from bertworks.training.pace import Budget, seconds_of
from bertworks.training.plan import TrainingPlan


def budget_of(settings: PretrainSettings, crew: Crew) -> Budget | None:
    """Start the clock of a run that has a budget; the first process's is that of all."""
    if settings.budget is None:
        return None
    if settings.steps is None:
        _refuse_ramps(settings)
    clock = time.monotonic if crew.is_first else lambda: 0.0
    return Budget(seconds=seconds_of(settings.budget), clock=lambda: crew.sum([clock()])[0])


def _refuse_ramps(settings: PretrainSettings) -> None:
    """Fail where batches, which know only their step, would change over an unknown number."""
    ramps = {
        "--batch-tokens": settings.batch_tokens,
        "--mask-rate": settings.mask_rate,
        "--causal-share": settings.objective.causal_share,
    }
    remedies = {
        f"{flag} {ramp}": f"give one value, as {flag} {Ramp(ramp.end, ramp.end)}"
        for flag, ramp in ramps.items()
        if not ramp.is_constant
    }
    if settings.short_longest is not None:
        remedies[f"--short-longest {settings.short_longest}"] = "leave it out"
    if remedies:
        moving, remedy = next(iter(remedies.items()))
        raise UsageError(
            f"{moving} changes over the steps of a run, but --budget {settings.budget} leaves "
            f"their number open; {remedy}, or also give the --steps to count on"
        )


def plan_of(
    settings: PretrainSettings, budget: Budget | None, weights: dict[str, Ramp]
) -> TrainingPlan:
    """Return what is asked for as the loop wants it."""
    share = settings.warmup
    warmup = share * budget.seconds if budget else round(share * (settings.num_steps or 0))
    return TrainingPlan(
        steps=settings.num_steps,
        budget=budget,
        lr=settings.lr,
        **learning_plan(settings.learning, warmup=warmup),
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        spike=settings.spike,
        seed=settings.seed,
        workers=settings.workers,
        checkpoint_every=settings.checkpoint_every,
        evaluate_every=settings.evaluate_every,
        weights=weights,
        sharding=settings.crew.sharding,
    )
