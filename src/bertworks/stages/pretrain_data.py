"""What a pre-training learns from: batches of its shards, and held-out ones that judge it."""

from dataclasses import replace

import numpy as np

from bertworks.core.batch import Batch
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import say
from bertworks.core.scripts import HAN, script_of
from bertworks.core.settings import Ramp
from bertworks.data.corpus_batches import BatchPlan, CorpusBatches
from bertworks.data.masking import Masking
from bertworks.data.passages import LABELS
from bertworks.data.phases import PhasedBatches
from bertworks.data.shards import Shards
from bertworks.stages.settings import PretrainSettings
from bertworks.tokenizer.tokenizer import Tokenizer

EVALUATION_TOKENS = 65_536  # at most so much held-out text is scored each time
SENTENCES_OF_SCRIPT, PIECES_OF_SCRIPT = 256, 128  # of each sentence; they tell the script
NEVER, ALWAYS = Ramp(0, 0), Ramp(1, 1)


def corpus_batches(
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
    split, repeated = settings.objective.split_share, settings.objective.repeat_share
    if split + repeated > 1 and not LABELS.keys() & {*objectives}:
        raise UsageError(
            f"--split-share {split} and --repeat-share {repeated} are shares of the same texts, "
            "but together they are more than 1; lower one"
        )
    plan = BatchPlan(
        tokens=settings.batch_tokens,
        longest=settings.longest,
        objectives=objectives,
        accumulate=settings.accumulate,
        seed=settings.seed,
        mask_rate=settings.mask_rate,
        split_share=split,
        repeat_share=repeated,
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
    quiet = replace(
        plan, accumulate=1, seed=0, tokens=Ramp(tokens, tokens), repeat_share=0.0, num_steps=1
    )
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
