"""pretrain: token shards -> a pre-trained model."""

import math
import time
from dataclasses import replace
from typing import Any

from bertworks.core.artifact import Origin
from bertworks.core.batch import Batch
from bertworks.core.device import prepare
from bertworks.core.errors import DataError, TrainingError
from bertworks.core.progress import say
from bertworks.core.settings import as_command, as_json
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.masking import Masking
from bertworks.data.shards import Shards
from bertworks.evaluation.scoring import evaluate_objectives
from bertworks.model.config import EncoderConfig
from bertworks.serving.model_folder import save_model
from bertworks.stages.settings import PretrainSettings
from bertworks.tasks.catalog import make_task
from bertworks.tasks.task import Task, TaskModel
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.training.loop import TrainingPlan, train
from bertworks.training.run import Run, is_finished

WITH_NEXT_SENTENCE = ("bert", "bertworks")  # families
EVALUATION_TOKENS = 65_536  # at most so much held-out text is scored each time


def run(settings: PretrainSettings) -> dict[str, Any]:
    """Pre-train an encoder with masked words and, unless it is off, next sentences."""
    machine = prepare(
        settings.machine.device,
        precision=settings.machine.precision,
        threads=settings.machine.threads,
    )
    shards = Shards.open(settings.shards)
    tokenizer = Tokenizer.open(settings.shards / "tokenizer")
    config = _config(settings, shards)
    objectives = _objectives(config, next_sentence=settings.next_sentence)
    model = TaskModel(config, objectives, seed=settings.seed)
    batches, held_out = _batches(settings, shards, pairs=len(objectives) > 1)
    origin = Origin(
        command=as_command("pretrain", settings),
        settings=as_json(settings) | {"precision": machine.precision},
        seed=settings.seed,
        inputs={"shards": settings.shards},
    )
    if settings.resume == "auto" and is_finished(settings.out, origin):
        say(f"{settings.out} is finished already")
        return {"model": str(settings.out)}
    training = Run(settings.out, origin=origin, resume=settings.resume == "auto")
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    say(f"pre-training {num_parameters:,} parameters on {machine.device}")
    started = time.monotonic()
    at = train(
        model,
        batches,
        _plan(settings),
        run=training,
        machine=machine,
        evaluate=lambda: evaluate_objectives(model, held_out, machine=machine),
    )
    final = evaluate_objectives(model, held_out, machine=machine)
    if not math.isfinite(final.score):
        raise TrainingError(
            f"the loss on held-out text is {final.metrics['loss']} in the end, so the weights are "
            "broken; begin again elsewhere with a lower --lr"
        )
    extra = {"held_out": final.metrics, "best_step": at.best_step}
    save_model(settings.out, model, tokenizer, origin=origin, extra=extra)
    return {
        "model": str(settings.out),
        "steps": at.step,
        "best_step": at.best_step,
        "seconds": time.monotonic() - started,
        **final.metrics,
    }


def _config(settings: PretrainSettings, shards: Shards) -> EncoderConfig:
    config = EncoderConfig.named(settings.size)
    # A position that no text reaches would stay untrained, and be read by longer texts later.
    sized = replace(config, vocab_size=shards.vocab_size, max_positions=settings.longest)
    return sized.with_dropout(settings.dropout)


def _objectives(config: EncoderConfig, *, next_sentence: bool | None) -> list[Task]:
    """Return masked words, and next sentences unless the family is trained without them."""
    if next_sentence is None:
        next_sentence = config.family in WITH_NEXT_SENTENCE
    names = ["fill_mask", "next_sentence"] if next_sentence else ["fill_mask"]
    return [make_task(name) for name in names]


def _batches(
    settings: PretrainSettings, shards: Shards, *, pairs: bool
) -> tuple[CorpusBatches, list[Batch]]:
    """Return the training batches, and batches of held-out text that never change."""
    masking = Masking(shards.specials, shards.vocab_size, rate=settings.mask_rate)
    plan = BatchPlan(
        tokens=settings.batch_tokens,
        longest=settings.longest,
        accumulate=settings.accumulate,
        pairs=pairs,
        seed=settings.seed,
    )
    training = CorpusBatches(shards, masking, plan)
    if not len(training.passages):
        raise DataError(f"{settings.shards} has no documents to train on; tokenize more text")
    if not shards.is_held_out.any():
        raise DataError(
            f"{settings.shards} has no held-out documents; tokenize again with a larger --held-out"
        )
    quiet = replace(plan, accumulate=1, seed=0, tokens=min(plan.tokens, 8192))
    evaluation = CorpusBatches(shards, masking, quiet, held_out=True)
    count = min(max(EVALUATION_TOKENS // quiet.tokens, 1), evaluation.steps_in_epoch(0))
    return training, [batch for step in range(count) for batch in evaluation.at(step)]


def _plan(settings: PretrainSettings) -> TrainingPlan:
    return TrainingPlan(
        steps=settings.steps,
        lr=settings.lr,
        warmup=round(settings.warmup * settings.steps),
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        seed=settings.seed,
        workers=settings.workers,
        checkpoint_every=settings.checkpoint_every,
        evaluate_every=settings.evaluate_every,
    )
