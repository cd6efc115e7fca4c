"""pretrain: token shards -> a pre-trained model."""

from dataclasses import dataclass, replace
from typing import Any

from bertworks.core.artifact import Origin, saving
from bertworks.core.crew import Crew, joined
from bertworks.core.device import Machine, prepare
from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.core.settings import as_command, as_json
from bertworks.data.corpus_counts import CorpusCounts
from bertworks.data.own_parts import OwnParts
from bertworks.data.shards import Shards
from bertworks.evaluation.full_report import Part, Report, again, fingerprint
from bertworks.evaluation.judge import FinalScores, HeldOutJudge, MoreScores
from bertworks.evaluation.probe import Probe
from bertworks.evaluation.run_parts import Speed, Warnings
from bertworks.evaluation.statistics import interval_rows
from bertworks.evaluation.training_curves import course_of
from bertworks.interop.descriptions import OWN
from bertworks.interop.hugging_face import encoder_obstacle
from bertworks.model.config import EncoderConfig
from bertworks.serving.learners import AnyLearner, main_model, write_learner
from bertworks.stages.idle_flags import say_idle
from bertworks.stages.pretrain_data import corpus_batches
from bertworks.stages.pretrain_model import config_of, knowing_of, learner_of, objectives_of
from bertworks.stages.pretrain_plan import budget_of, plan_of
from bertworks.stages.settings import PretrainSettings
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.log import read_log
from bertworks.training.loop import train
from bertworks.training.pace import Budget, Stopwatch
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Run, is_finished, refuse_taken
from bertworks.training.sharding import whole


def run(settings: PretrainSettings) -> dict[str, Any]:
    """Pre-train an encoder with its objectives, and say what usually goes wrong if it does."""
    with joined(patience=settings.crew.lost_after) as crew:
        return _run(settings, crew)


@dataclass(frozen=True)
class _Ready:
    """All that a run learns from and with, made before its folder is."""

    shards: Shards
    tokenizer: Tokenizer
    model: AnyLearner
    batches: OwnParts
    plan: TrainingPlan
    judge: HeldOutJudge


def _run(settings: PretrainSettings, crew: Crew) -> dict[str, Any]:
    budget = budget_of(settings, crew)
    machine = prepare(**vars(settings.machine))
    origin, resume = _origin(settings, machine), settings.resume == "auto"
    if resume and crew.lead(lambda: is_finished(settings.out, origin)):
        say(f"{settings.out} is finished already")
        return {"model": str(settings.out)}
    crew.lead(lambda: refuse_taken(settings.out, resume=resume))
    ready = _make_ready(settings, budget, machine, crew)
    model, judge = ready.model, ready.judge
    training = Run(settings.out, origin=origin, resume=resume, crew=crew)
    _announce(ready, machine, crew)
    at = train(
        model, ready.batches, ready.plan, run=training, machine=machine, evaluate=judge.score
    )
    if not at.step:
        raise UsageError(f"--budget {settings.budget} was over before the first step; raise it")
    scoring = Stopwatch()
    final, warnings = _judged(judge, model, settings, crew)
    seconds = at.spent.seconds + scoring.spent()
    parts: list[Part] = [
        final.part(),
        course_of(read_log(settings.out), best_step=at.best_step),
        Warnings(tuple(warnings.values())),
        fingerprint(origin, {"shards": len(ready.shards.is_held_out)}),
        Speed.of(machine, seconds, {"steps": at.step}),
        again(origin),
    ]
    best_step = at.best_step or at.step  # the last, where nothing was scored on the way
    extra = {**final.as_json(), "best_step": best_step, "warnings": warnings}
    with whole(model):  # once more, for scoring has parted its weights again
        if not crew.is_first:
            return {}
        with saving(settings.out, kind="model", origin=origin) as folder:
            write_learner(folder, model, ready.tokenizer, extra=extra)
            Report(
                title=f"Pre-training on {settings.shards.name}",
                summary=_summary(model, at.step, final),
                parts=parts,
            ).write(folder)
    return {
        "model": str(settings.out),
        "steps": at.step,
        "best_step": best_step,
        "seconds": at.spent.seconds + scoring.spent(),
        **final.metrics,
        "intervals": interval_rows(final.intervals),
        "warnings": list(warnings.values()),
    }


def _make_ready(
    settings: PretrainSettings, budget: Budget | None, machine: Machine, crew: Crew
) -> _Ready:
    """Open the shards and draw or open the model; what cannot be meant stops the run here."""
    shards = Shards.open(settings.shards)
    tokenizer = Tokenizer.open(settings.shards / "tokenizer")
    config = config_of(settings, shards)
    say_idle(settings, config)
    _warn_of_obstacle(config, tokenizer)
    weights = objectives_of(settings, config)
    batches, held_out = corpus_batches(settings, shards, tuple(weights))
    plan = plan_of(settings, budget, weights)
    probe = _probe(settings, tokenizer, machine)
    knowing = knowing_of(settings, shards, machine, crew)
    model = learner_of(settings, config, tokenizer, tuple(weights), knowing=knowing)
    judge = HeldOutJudge(
        model,
        held_out,
        CorpusCounts.of(shards, batches.phases[-1].passages),
        machine=machine,
        weights={name: ramp.end for name, ramp in weights.items()},
        more=_probing(probe, model, every=settings.probing.probe_every or 1),
    )
    own = OwnParts(batches, accumulate=settings.accumulate, crew=crew)
    return _Ready(shards, tokenizer, model, own, plan, judge)


def _judged(
    judge: HeldOutJudge, model: AnyLearner, settings: PretrainSettings, crew: Crew
) -> tuple[FinalScores, dict[str, str]]:
    """Return the scores of the best weights and what speaks against the run, which is said."""
    with whole(model):
        final = judge.final_scores()
    final = replace(final, evaluation=final.evaluation.agreed(crew))
    warnings = judge.warnings(final, read_log(settings.out), clip=settings.clip)
    for sentence in [*final.lacking(), *warnings.values()]:
        say(f"warning: {sentence}")
    return final, warnings


def _warn_of_obstacle(config: EncoderConfig, tokenizer: Tokenizer) -> None:
    """Say before a run, not at its export, that a published family will not know the network."""
    why = encoder_obstacle(config, pad_id=tokenizer.specials.pad)
    if config.family != OWN and why is not None:
        say(f"warning: no other library will know this network: {why}")


def _announce(ready: _Ready, machine: Machine, crew: Crew) -> None:
    in_all = f" in {crew.size} processes" if crew.size > 1 else ""
    count, weights = _num_parameters(ready.model), ready.plan.weights
    several = [f"{name}={weight}" for name, weight in weights.items()]
    learned = ", ".join(several if len(several) > 1 else weights)
    say(f"pre-training {count:,} parameters on {machine.device}{in_all}: {learned}")


def _summary(model: AnyLearner, steps: int, final: FinalScores) -> str:
    documents = "1 document" if final.num_documents == 1 else f"{final.num_documents:,} documents"
    return (
        f"{_num_parameters(model):,} parameters after {steps:,} steps, scored on text of "
        f"{documents} that they did not learn from."
    )


def _num_parameters(model: AnyLearner) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _probing(probe: Probe | None, model: AnyLearner, *, every: int) -> MoreScores:
    """Return what scores a network after a step in which a probe is due."""

    def scored(step: int) -> dict[str, float]:
        return probe.score(main_model(model)) if probe and step % every == 0 else {}

    return scored


def _origin(settings: PretrainSettings, machine: Machine) -> Origin:
    inputs = {
        "shards": settings.shards,
        "model": settings.model,
        "probe": settings.probing.probe,
    }
    return Origin(
        command=as_command("pretrain", settings),
        settings=as_json(settings) | {"precision": machine.precision},
        seed=settings.seed,
        inputs={name: path for name, path in inputs.items() if path is not None},
    )


def _probe(settings: PretrainSettings, tokenizer: Tokenizer, machine: Machine) -> Probe | None:
    file, every = settings.probing.probe, settings.probing.probe_every
    if file is not None and settings.crew.sharding == "full":
        raise UsageError(
            "--probe copies the whole network, but --sharding full leaves each process some rows; "
            "leave out one of them"
        )
    if every and (file is None or not settings.evaluate_every or every % settings.evaluate_every):
        raise UsageError(
            f"--probe-every is {every}, but it needs a --probe and must be a multiple of "
            f"--evaluate-every {settings.evaluate_every}; change one of them"
        )
    if file is None:
        return None
    return Probe.open(file, tokenizer, longest=settings.longest, machine=machine)
