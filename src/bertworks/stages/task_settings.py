"""Settings of single tasks: which there are, how some are learned, and how texts are written."""

from dataclasses import dataclass
from typing import Any, Literal

from bertworks.stages.setting_groups import (
    Count,
    CountOrZero,
    Positive,
    PositiveOrZero,
    Power,
    WholeShare,
)

TaskKind = Literal[
    "classify",
    "match",
    "multilabel",
    "score",
    "aspect",
    "relate",
    "tag",
    "intent_slots",
    "embed",
    "answer",
    "choose",
    "generate",
]


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """How some tasks are learned; a flag of another task than the one at hand is refused."""

    class_weights: Literal["balanced"] | None = None
    """classify, match, multilabel, aspect, relate: balanced counts rare labels more; by default all
    examples count alike."""
    focal: PositiveOrZero | None = None
    """classify, match, multilabel, aspect, relate: how much less examples count that are right
    already (2 is usual); by default they count alike."""
    vector_loss: Literal["contrastive", "ranking", "simcse"] | None = None
    """embed: contrastive tells a pair from the other pairs of a step, ranking puts cosines in the
    order of labels or scores, simcse needs single texts alone; by default as the columns allow."""
    vector_temperature: Positive | None = None
    """embed: what cosines are divided by in the loss; by default 0.05."""
    symmetric: bool | None = None
    """embed: let second texts look for their first ones too, in a contrastive loss; by default
    off."""
    pooling: Literal["mean", "first", "max"] | None = None
    """classify, match, multilabel, score, aspect, choose, embed: how the vectors of tokens become
    that of a text; by default that of the first token is taken, or the mean where a network mixes
    tokens without attention; embed does as the model's folder says, or takes the mean."""
    same: str | None = None
    """embed: the label of pairs that belong together; by default the one with a usual name, as yes
    or duplicate, or else the last of the two in the order of the alphabet, as 1 of 0 and 1."""
    stride: Count | None = None
    """answer, choose: pieces from the start of one window of a long passage to that of the next; by
    default three quarters of its room."""
    crf: bool | None = None
    """tag: learn which tags follow which, by a conditional random field; by default off."""
    max_answer: Count | None = None
    """answer: most pieces of an answer that is given; by default 30, or what nearly all answers of
    the training file have."""
    decoder: Literal["copied", "shared", "fresh", "prefix"] | None = None
    """generate: what writes: a decoder that begins as a copy of the encoder, one that shares its
    weights, one with fresh weights and the encoder's pieces, or, by prefix, the network itself; by
    default copied."""
    decoder_layers: Count | None = None
    """generate: layers of the decoder; by default as many as the encoder has."""
    beams: Count | None = None
    """generate: answers that are followed at once, of which the best is given; by default 1."""
    length_penalty: Power | None = None
    """generate: the power of its length by which the score of an answer is divided; by default
    1."""
    no_repeat: Count | None = None
    """generate: let no run of so many pieces come twice in an answer; by default any may."""
    shortest_reply: Count | None = None
    """generate: fewest pieces of an answer; by default there may be none."""
    longest_reply: Count | None = None
    """generate: most pieces of an answer, with its end; by default 128."""


@dataclass(frozen=True, kw_only=True)
class WritingSettings:
    """How a model that writes texts goes about it; by default as it was fine-tuned to."""

    beams: Count | None = None
    """generate: answers that are followed at once, of which the best is given."""
    length_penalty: Power | None = None
    """generate: the power of its length by which the score of an answer is divided."""
    no_repeat: CountOrZero | None = None
    """generate: let no run of so many pieces come twice in an answer; 0 lets any."""
    shortest_reply: CountOrZero | None = None
    """generate: fewest pieces of an answer."""
    longest_reply: Count | None = None
    """generate: most pieces of an answer, with its end."""
    begin: str | None = None
    """generate: what every answer begins with."""
    temperature: Positive | None = None
    """generate: draw each piece by its chance, more evenly the higher this is; by default the best
    answer is looked for."""
    top_k: Count | None = None
    """generate: draw each piece among so many of the likeliest."""
    top_p: WholeShare | None = None
    """generate: draw each piece among the likeliest that together have this chance."""
    draw_seed: int | None = None
    """generate: seed of what is drawn; the same text and seed give the same answer."""

    @property
    def asked(self) -> dict[str, Any]:
        """What is given."""
        return {name: value for name, value in vars(self).items() if value is not None}
