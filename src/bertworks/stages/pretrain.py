"""pretrain: token shards -> a pre-trained model."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.core.artifact import Origin, saving
from bertworks.core.batch import Batch
from bertworks.core.crew import Crew, joined
from bertworks.core.device import Machine, prepare
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import say
from bertworks.core.scripts import HAN, script_of
from bertworks.core.settings import Ramp, as_command, as_json
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.corpus_counts import CorpusCounts
from bertworks.data.masking import Masking
from bertworks.data.own_parts import OwnParts
from bertworks.data.phases import PhasedBatches
from bertworks.data.shards import Shards
from bertworks.evaluation.full_report import Part, Report, again, fingerprint
from bertworks.evaluation.judge import FinalScores, HeldOutJudge, MoreScores
from bertworks.evaluation.probe import Probe
from bertworks.evaluation.run_parts import Speed, Warnings
from bertworks.evaluation.statistics import interval_rows
from bertworks.evaluation.training_curves import course_of
from bertworks.interop.hugging_face import open_folder
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.model.config import Dropout, EncoderConfig
from bertworks.serving.learners import (
    AnyLearner,
    Wanted,
    draw_learner,
    main_model,
    open_learner,
    write_learner,
)
from bertworks.stages.idle_flags import say_idle
from bertworks.stages.learning_plan import learning_plan
from bertworks.stages.settings import PretrainSettings
from bertworks.tasks.objectives import read_objectives
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.log import read_log
from bertworks.training.loop import train
from bertworks.training.pace import Budget, seconds_of
from bertworks.training.plan import TrainingPlan
from bertworks.training.run import Run, is_finished, refuse_taken
from bertworks.training.sharding import whole

DEFAULT_SIZE = "mini"
EVALUATION_TOKENS = 65_536  # at most so much held-out text is scored each time
SENTENCES_OF_SCRIPT, PIECES_OF_SCRIPT = 256, 128  # of each sentence; they tell the script
NEVER, ALWAYS = Ramp(0, 0), Ramp(1, 1)


def run(settings: PretrainSettings) -> dict[str, Any]:
    """Pre-train an encoder with its objectives, and say what usually goes wrong if it does."""
    with joined(patience=settings.crew.lost_after) as crew:
        return _run(settings, crew)


def _run(settings: PretrainSettings, crew: Crew) -> dict[str, Any]:
    budget = _budget(settings, crew)
    machine = prepare(**vars(settings.machine))
    origin, resume = _origin(settings, machine), settings.resume == "auto"
    if resume and crew.lead(lambda: is_finished(settings.out, origin)):
        say(f"{settings.out} is finished already")
        return {"model": str(settings.out)}
    crew.lead(lambda: refuse_taken(settings.out, resume=resume))
    shards = Shards.open(settings.shards)
    tokenizer = Tokenizer.open(settings.shards / "tokenizer")
    config = _config(settings, shards)
    say_idle(settings, config)
    weights = read_objectives(settings.objective.objectives, config.family)
    model = _learner(settings, config, tokenizer, tuple(weights))
    batches, held_out = _batches(settings, shards, tuple(weights))
    own = OwnParts(batches, accumulate=settings.accumulate, crew=crew)
    plan, probe = _plan(settings, budget, weights), _probe(settings, tokenizer, machine)
    training = Run(settings.out, origin=origin, resume=resume, crew=crew)
    _announce(model, machine, crew)
    judge = HeldOutJudge(
        model,
        held_out,
        CorpusCounts.of(shards, batches.phases[-1].passages),
        machine=machine,
        weights={name: ramp.end for name, ramp in weights.items()},
        more=_probing(probe, model, every=settings.probing.probe_every or 1),
    )
    started = time.monotonic()
    at = train(model, own, plan, run=training, machine=machine, evaluate=judge.score)
    if not at.step:
        raise UsageError(f"--budget {settings.budget} was over before the first step; raise it")
    final, warnings = _judged(judge, model, settings, crew)
    done = {"steps": at.step - training.resumed_after}
    parts: list[Part] = [
        final.part(),
        course_of(read_log(settings.out), best_step=at.best_step),
        Warnings(tuple(warnings.values())),
        fingerprint(origin, {"shards": len(shards.is_held_out)}),
        Speed.of(machine, time.monotonic() - started, done),
        again(origin),
    ]
    best_step = at.best_step or at.step  # the last, where nothing was scored on the way
    extra = {**final.as_json(), "best_step": best_step, "warnings": warnings}
    with whole(model):  # once more, for scoring has parted its weights again
        if not crew.is_first:
            return {}
        with saving(settings.out, kind="model", origin=origin) as folder:
            write_learner(folder, model, tokenizer, extra=extra)
            Report(
                title=f"Pre-training on {settings.shards.name}",
                summary=_summary(model, at.step, final),
                parts=parts,
            ).write(folder)
    return {
        "model": str(settings.out),
        "steps": at.step,
        "best_step": best_step,
        "seconds": time.monotonic() - started,
        **final.metrics,
        "intervals": interval_rows(final.intervals),
        "warnings": list(warnings.values()),
    }


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


def _announce(model: AnyLearner, machine: Machine, crew: Crew) -> None:
    in_all = f" in {crew.size} processes" if crew.size > 1 else ""
    say(f"pre-training {_num_parameters(model):,} parameters on {machine.device}{in_all}")


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


def _config(settings: PretrainSettings, shards: Shards) -> EncoderConfig:
    """Describe the network by its size, or take the description of a model."""
    if settings.model is not None:
        return _config_of_model(settings.model, settings)
    config = EncoderConfig.named(settings.size or DEFAULT_SIZE)
    # A position that no text reaches would stay untrained, and be read by longer texts later.
    sized = replace(config, vocab_size=shards.vocab_size, max_positions=settings.longest)
    return sized.with_dropout(**vars(settings.dropping))


def _config_of_model(path: Path, settings: PretrainSettings) -> EncoderConfig:
    config = open_folder(encoder_folder(path)).config
    if settings.size is not None:
        raise UsageError(
            f"--size {settings.size} and --model {path} contradict each other: a model has its "
            "size; leave one of them out"
        )
    if settings.longest > config.max_positions:
        raise UsageError(
            f"--longest is {settings.longest}, but {path} reads {config.max_positions} pieces; "
            "lower it, or use bertworks extend-positions first"
        )
    return config


def _learner(
    settings: PretrainSettings,
    config: EncoderConfig,
    tokenizer: Tokenizer,
    objectives: tuple[str, ...],
) -> AnyLearner:
    has_difference = settings.objective.shared_table == "generator"
    if has_difference:
        _refuse_difference(settings, objectives)
    wanted = Wanted(
        objectives=objectives,
        generator_size=settings.objective.generator_size,
        has_difference=has_difference,
        z_loss=settings.objective.z_loss,
        seed=settings.seed,
    )
    if settings.model is None:
        return draw_learner(config, wanted)
    dropout = Dropout(**vars(settings.dropping))
    return open_learner(settings.model, tokenizer, wanted, dropout=dropout)


def _refuse_difference(settings: PretrainSettings, objectives: tuple[str, ...]) -> None:
    """Stop where no two networks share a table, or where it lies in several processes."""
    if "replaced_token" not in objectives:
        raise UsageError(
            "--shared-table generator speaks of the two networks of replaced_token, which is no "
            "objective of this run; leave it out or add --objectives replaced_token"
        )
    if settings.crew.sharding == "full":
        raise UsageError(
            "--shared-table generator reads the generator's whole table, but --sharding full "
            "leaves each process some rows; leave out one of them"
        )


def _batches(
    settings: PretrainSettings, shards: Shards, objectives: tuple[str, ...]
) -> tuple[PhasedBatches, list[Batch]]:
    """Return the training batches, and batches of held-out text that never change."""
    masking = Masking(
        shards.specials,
        shards.vocab_size,
        kind=settings.masking.mask_kind,
        masked_share=settings.masking.masked_share,
        random_share=settings.masking.random_share,
    )
    if masking.needs_words:
        _say_words(masking, shards)
    plan = BatchPlan(
        tokens=settings.batch_tokens,
        longest=settings.longest,
        objectives=objectives,
        accumulate=settings.accumulate,
        seed=settings.seed,
        mask_rate=settings.mask_rate,
        causal_share=settings.objective.causal_share if "next_piece" in objectives else NEVER,
        num_steps=settings.num_steps or 1,
    )
    phases = [CorpusBatches(shards, masking, phase) for phase in _phases(settings, plan)]
    training = PhasedBatches(phases)
    if not len(phases[-1].passages):
        raise DataError(f"{settings.shards} has no documents to train on; tokenize more text")
    if not shards.is_held_out.any():
        raise DataError(
            f"{settings.shards} has no held-out documents; tokenize again with a larger --held-out"
        )
    return training, _held_out(shards, masking, plan)


def _say_words(masking: Masking, shards: Shards) -> None:
    """Tell what words are, and warn where most of them are single Chinese characters."""
    say(f"hiding by {masking.kind}; words are those of tokenize --words {shards.words}")
    if shards.words != "text":
        return
    ends = shards.sentence_starts[1:]
    some = np.unique(np.linspace(0, len(ends) - 1, SENTENCES_OF_SCRIPT, dtype=int))
    pieces = [shards.tokens(shards.sentence_starts[n], ends[n])[:PIECES_OF_SCRIPT] for n in some]
    tokenizer = Tokenizer.open(shards.folder / "tokenizer")
    if script_of("".join(tokenizer.text_of(own.tolist()) for own in pieces)) == HAN:
        say(
            "warning: Chinese words are not marked in these shards, so each character is hidden "
            "as a word of its own; tokenize again with --words zh"
        )


def _phases(settings: PretrainSettings, plan: BatchPlan) -> list[BatchPlan]:
    """Return the plan of short texts, if there is one, and that of long ones."""
    if settings.short_longest is None:
        return [plan]
    if settings.short_longest >= settings.longest:
        raise UsageError(
            f"--short-longest is {settings.short_longest}, but it must be below --longest "
            f"{settings.longest}; lower it"
        )
    first_long = round(settings.short_share * plan.num_steps)
    short = replace(plan, longest=settings.short_longest)
    return [short, replace(plan, first_step=first_long)]


def _held_out(shards: Shards, masking: Masking, plan: BatchPlan) -> list[Batch]:
    """Return what a run is judged by: the values that its ramps end with, whatever its seed.

    The ids of its texts are those of their documents, which are what scores vary with.
    """
    tokens = int(min(plan.tokens.end, 8192))
    quiet = replace(plan, accumulate=1, seed=0, tokens=Ramp(tokens, tokens), num_steps=1)
    count = max(EVALUATION_TOKENS // tokens, 1)
    found = []
    for causal_share in (NEVER, ALWAYS) if "next_piece" in plan.objectives else (NEVER,):
        judging = replace(quiet, causal_share=causal_share)
        batches = CorpusBatches(shards, masking, judging, held_out=True)
        steps = range(min(count, batches.steps_in_epoch(0)))
        for batch in (batch for step in steps for batch in batches.at(step)):
            documents = batches.passages.document_of[list(batch.ids)]
            found.append(replace(batch, ids=tuple(documents.tolist())))
    return found


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


def _budget(settings: PretrainSettings, crew: Crew) -> Budget | None:
    """Start the clock of a run that has a budget; the first process's is that of all."""
    if settings.budget is None:
        return None
    if settings.steps is not None:
        raise UsageError(
            f"a run has either {settings.steps} steps or the budget {settings.budget}; "
            "leave out one of --steps and --budget"
        )
    _refuse_ramps(settings)
    clock = time.monotonic if crew.is_first else lambda: 0.0
    return Budget(seconds_of(settings.budget), clock=lambda: crew.sum([clock()])[0])


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
            f"their number open; {remedy}, or give --steps instead of --budget"
        )


def _plan(
    settings: PretrainSettings, budget: Budget | None, weights: dict[str, Ramp]
) -> TrainingPlan:
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
