"""The kinds of numbers that settings take, and the groups of settings that belong together.

A group lends its flags to the commands that have it. The module imports nothing heavy, so that
`--help` is quick.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from bertworks.core.settings import Limit, ModelFolder, Ramp

Count = Annotated[int, Limit("of at least 1", lambda n: n >= 1)]
CountOrZero = Annotated[int, Limit("of at least 0", lambda n: n >= 0)]
Positive = Annotated[float, Limit("above 0", lambda x: 0 < x < math.inf)]
PositiveOrZero = Annotated[float, Limit("of at least 0", lambda x: 0 <= x < math.inf)]
MultipleOrZero = Annotated[float, Limit("of 0 or above 1", lambda x: x == 0 or 1 < x < math.inf)]
Share = Annotated[float, Limit("from 0 to below 1", lambda x: 0 <= x < 1)]
OpenShare = Annotated[float, Limit("above 0 and below 1", lambda x: 0 < x < 1)]
ClosedShare = Annotated[float, Limit("from 0 to 1", lambda x: 0 <= x <= 1)]
Power = Annotated[float, Limit("from -10 to 10", lambda x: -10 <= x <= 10)]
Places = Annotated[int, Limit("of at least 16", lambda n: n >= 16)]
WholeShare = Annotated[float, Limit("above 0 and at most 1", lambda x: 0 < x <= 1)]
CountRamp = Annotated[Ramp, Limit("of at least 1", lambda n: n >= 1)]
ClosedShareRamp = Annotated[Ramp, Limit("from 0 to 1", lambda x: 0 <= x <= 1)]
ShareRamp = Annotated[Ramp, Limit("from 0 to below 1", lambda x: 0 <= x < 1)]
OpenShareRamp = Annotated[Ramp, Limit("above 0 and below 1", lambda x: 0 < x < 1)]
Longest = Annotated[int, Limit("of at least 8", lambda n: n >= 8)]  # special pieces counted


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """Where and how a command computes."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; auto takes the GPU if there is one."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic of the forward pass; auto is bf16 on a GPU and fp32 on a CPU."""
    threads: Count | None = None
    """CPU threads; by default as many as there are cores."""


@dataclass(frozen=True, kw_only=True)
class BackendSettings:
    """What computes the network of a model that answers."""

    backend: Literal["auto", "torch", "onnx"] = "auto"
    """What computes the network; auto takes the ONNX file of a folder that has one, on a CPU."""


@dataclass(frozen=True, kw_only=True)
class CrewSettings:
    """How the processes that torchrun starts train one model."""

    sharding: Literal["none", "full"] = "none"
    """What of the model lies in each of several processes: none of it is shared, so each has all;
    or full, so each keeps some rows of every tensor. Checkpoints of one fit the other."""
    lost_after: Count = 600
    """Seconds after which a process that does not answer counts as lost."""


@dataclass(frozen=True, kw_only=True)
class DropoutSettings:
    """How much is left out by chance while a network learns."""

    dropout: Share | None = None
    """Dropout rate; by default the network's own (BERT's is 0.1)."""
    attention_dropout: Share | None = None
    """Dropout rate of what attention looks at; by default that of --dropout, or the network's
    own."""


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """How the weights follow their gradients."""

    optimizer: Literal["adamw", "lamb", "muon"] = "adamw"
    """adamw; lamb, for very large batches; or muon for the matrices of the blocks and adamw for
    all else."""
    beta1: Share = 0.9
    """How much of the mean gradient is kept from step to step."""
    beta2: Share = 0.999
    """How much of the mean squared gradient is kept from step to step."""
    epsilon: Positive = 1e-6
    """What is added to the root of the mean squared gradient."""
    schedule: Literal["linear", "cosine", "stable", "root", "constant"] = "linear"
    """How the learning rate falls after its rise; stable falls only at the end, root as in
    "Attention is all you need"."""
    decay: OpenShare = 0.2
    """Share of the run in which a stable learning rate falls."""
    average: Share = 0.0
    """Keep a running average of the weights, and evaluate and save that; each step adds 1 minus
    this, so 0.999 spans about a thousand steps; 0 keeps none."""


@dataclass(frozen=True, kw_only=True)
class SeveralSettings:
    """How several tasks share one encoder, and which heads a model keeps."""

    tasks: Path | None = None
    """TOML file with a table for each of several tasks, in place of --train and --dev."""
    temperature: Positive = 1.0
    """Share of the steps that a task of several gets: its size to the power of one over this, so
    that small tasks come more often the higher it is."""
    new_head: bool = False
    """Begin with a fresh task head, even if the model has one for these labels."""
    keep_tasks: bool = False
    """Keep the model's other task heads in the result, untrained beside the encoder that moves."""


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """Which layers of a model learn, and how fast."""

    freeze: str | None = None
    """What does not learn: embeddings, or a number of blocks from the bottom with the embeddings,
    or all but the task head; what the model lacks always learns."""
    thaw_every: Positive | None = None
    """Epochs after which one more frozen block learns too, from the top; by default none does."""
    layer_decay: WholeShare = 1.0
    """Learning rate of each layer as a share of that above it."""


@dataclass(frozen=True, kw_only=True)
class RegularizeSettings:
    """What keeps fine-tuning from collapsing or learning by heart."""

    bias_correction: bool = True
    """Let adamw correct its means, which begin at zero; off, it is that of the original BERT, whose
    first steps are too long."""
    reinit: CountOrZero | None = None
    """Blocks from the top that are drawn afresh, with what lies behind them; by default none, or
    one of six where examples are few and a task head begins that does not write."""
    decay_toward: Literal["zero", "pretrained"] = "zero"
    """What --weight-decay draws weights to: zero, or what they were before; fresh ones to zero."""
    mixout: Share = 0.0
    """Share of the neurons whose weights are put back to what they were, anew in each step."""
    parameter_dropout: Share = 0.0
    """Share of the neurons whose weights are put to zero, anew in each step."""
    r_drop: PositiveOrZero = 0.0
    """Weight of how far two passes with other dropout are apart; 0 makes one pass."""
    piece_dropout: Share = 0.0
    """Share of the merges that are left out by chance where texts to learn from are cut into
    pieces, anew in each epoch; for byte-level BPE; 0 cuts them as all others."""
    adversary: Literal["fgm", "pgd", "freelb"] | None = None
    """Learn also from texts whose word vectors are moved to where the loss rises: by one move, by
    several, or by several that all count; by default from none."""
    adversary_radius: Positive | None = None
    """How far the word vectors of a text are moved, all of them together; by default 0.1."""
    adversary_moves: Count | None = None
    """pgd, freelb: moves of a text in a step; by default 3."""
    label_smoothing: ShareRamp = Ramp(0.0, 0.0)
    """What a gold label gives to all labels alike; A..B moves over the run, as 0.1..0."""
    average_last: CountOrZero = 0
    """Epochs from the end whose weights are averaged evenly; 0 averages none."""
    lora: Count | None = None
    """Rank of the thin matrices that alone learn, with the task head; by default all learn."""
    lora_alpha: Positive | None = None
    """How much the thin matrices count, as a multiple of one over their rank; by default twice the
    rank."""
    lora_on: Literal["attention", "feed-forward", "all"] | None = None
    """Which matrices of the blocks the thin ones move; by default those of the attention."""


@dataclass(frozen=True, kw_only=True)
class ChoiceSettings:
    """Which weights are the result."""

    choose_by: str | None = None
    """Score on dev that chooses the best epoch; by default the task's first, of several tasks the
    mean of their first."""
    patience: Count | None = None
    """Epochs without a gain on dev after which training ends; by default it goes on."""
    seeds: Count = 1
    """Times the whole is done, with seeds from --seed on; mean, deviation and collapsed runs are
    told, and the best on dev is the result."""


@dataclass(frozen=True, kw_only=True)
class SuiteSettings:
    """Which public tasks a model is fine-tuned and scored on, and how far."""

    suite: (
        Literal[
            "glue",
            "squad",
            "clue",
            "tags",
            "intents",
            "aspects",
            "topics",
            "pairs",
            "translate",
            "summarize",
        ]
        | None
    ) = None
    """Fine-tune and score the model on each task of a suite; --data is then the folder that holds
    the public sets, and --model is pre-trained."""
    only: tuple[str, ...] = ()
    """Some tasks of the suite, as sst2 mrpc; by default all."""
    seeds: Count = 1
    """Times each task is run, with the seeds 0, 1 and so on; mean, deviation and collapsed runs
    are told."""
    limit: Count | None = None
    """Train on so many examples only, chosen by a hash, for trials."""
    epochs: Count | None = None
    """Times every example is seen; by default what the suite has for the task."""
    lr: tuple[Positive, ...] = ()
    """Highest learning rate; of several the one with the best mean on dev is told for each task. By
    default what the suite has for it."""
    finetune: tuple[str, ...] = ()
    """Other settings of every fine-tuning by their names, as layer-decay=0.8 pooling=mean."""
    at_once: Count = 1
    """Fine-tunings that run side by side; a GPU has room for several small ones."""
    resume: Literal["never", "auto"] = "never"
    """auto goes on with a suite in the same folder; tasks that are finished are not run again."""


@dataclass(frozen=True, kw_only=True)
class ZeroShotSettings:
    """How labels are given that the model never learned."""

    zero_shot: tuple[str, ...] = ()
    """Labels to choose from without training, each as NAME or NAME=DESCRIPTION."""
    by: Literal["entailment", "cloze", "vectors"] | None = None
    """How labels of --zero-shot are told: by a model that judges pairs, by one that fills masks, or
    by vectors; by default the first of these that the model can."""
    template: str | None = None
    """What a label of --zero-shot is put into: with {label}, or for cloze with {text} and
    [MASK]."""
    calibrate: bool = False
    """Take off how likely each label of --zero-shot is for a text that says nothing."""


@dataclass(frozen=True, kw_only=True)
class RankingSettings:
    """How documents are put in order for queries."""

    retriever: ModelFolder | None = None
    """Folder of a model whose vectors choose the documents that a model of pairs puts in order; by
    default it reads all of them."""
    top: Count | None = None
    """Documents that the retriever chooses for a query; by default 100."""


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """What is tried on the side while a network learns."""

    probe: Path | None = None
    """Labelled examples on which a copy of the network is fine-tuned briefly now and then."""
    probe_every: Count | None = None
    """Steps between probes, a multiple of those between evaluations; by default as many."""


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """Which documents are kept; a character of Chinese and the like counts as half a word."""

    min_words: CountOrZero = 20
    """Drop shorter documents; a character of Chinese and the like counts as half a word."""
    max_words: Count = 1_000_000
    """Drop longer documents."""
    min_letters: Share = 0.6
    """Least share of the characters that must be letters."""
    max_digits: WholeShare = 0.25
    """Largest share of the characters that may be digits."""
    max_symbols: WholeShare = 0.1
    """Largest share of the characters that may be symbols."""
    max_repeated_lines: WholeShare = 0.3
    """Largest share of the text that may stand in lines that stood before."""
    max_repeated_words: WholeShare = 0.3
    """Largest share of the words that may stand in runs of words that stood before."""
    languages: tuple[str, ...] = ()
    """Keep only these languages, as en zh; by default all. Needs the extra corpus."""


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """What a network learns in pre-training."""

    objectives: tuple[str, ...] = ()
    """fill_mask, next_sentence, sentence_order, replaced_token, next_piece; with a weight as
    fill_mask=0.5, or one that moves over the run as fill_mask=1..0.5; by default the
    model's own, or the family's."""
    causal_share: ClosedShareRamp = Ramp(0.1, 0.1)
    """Share of the steps in which next_piece, if it is an objective, takes the place of all else;
    A..B moves over the run."""
    split_share: ClosedShare = 0.0
    """Share of the texts that are shown as two parts, though no objective asks of pairs, so that a
    network that is fine-tuned on pairs has met such texts before: 0 splits none, 1 all of at least
    two sentences, at a boundary drawn by chance. A text of one sentence stays whole. For runs
    that learn neither next_sentence nor sentence_order, which make pairs of all texts."""
    repeat_share: ClosedShare = 0.0
    """Share of the texts that are shown as two parts which are the same, up to half of a text, each
    with other pieces hidden, so that what is hidden in one can mostly be found in the other.
    Held-out texts are never repeated. For the same runs as --split-share."""
    generator_size: OpenShare = 0.25
    """Width of the generator of replaced_token, as a share of the network's."""
    shared_table: Literal["both", "generator"] = "both"
    """Who moves the table of pieces that generator and network share: both, as in ELECTRA; or the
    generator, and the network adds a difference of its own, as in DeBERTa-v3."""
    z_loss: PositiveOrZero = 0.0
    """Weight of the squared log-sum of logits at hidden pieces, which keeps them small."""


@dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """What is hidden together, and behind what."""

    mask_kind: Literal["piece", "word", "span", "ngram"] = "piece"
    """What is hidden together: single pieces, whole words, spans of up to ten words as in SpanBERT,
    or up to three words as in ALBERT."""
    masked_share: ClosedShare = 0.8
    """Share of what is hidden that the mask stands for."""
    random_share: ClosedShare = 0.1
    """Share of what is hidden that random pieces stand for; the rest is asked for but stays."""


@dataclass(frozen=True, kw_only=True)
class LookSettings:
    """What counts as worrying in labelled data."""

    rare: Count = 5
    """Call a label rare that has fewer examples."""
    similarity: WholeShare = 0.8
    """Call texts near copies that share so much; 1 finds only exact ones, and is quicker."""
    tokenizer: ModelFolder | None = None
    """Folder of a tokenizer or model: texts are then measured in its pieces as well."""
    longest: Longest = 512
    """Longest window in pieces."""


@dataclass(frozen=True, kw_only=True)
class VectorSettings:
    """How the vector of a text is made, by the names that `Predictor.embed` knows."""

    pooling: Literal["mean", "first", "max", "weighted", "last", "sqrt"] | None = None
    """How the vectors of tokens become that of a text: weighted counts later ones more, sqrt is
    their sum over the root of their number; by default as the model says, or mean."""
    normalize: bool | None = None
    """Make the vectors of texts one long; by default as the model says, or on."""
    max_length: Longest | None = None
    """Longest text in pieces; by default as the model says, or all that it reads."""


@dataclass(frozen=True, kw_only=True)
class OnnxSettings:
    """How an ONNX file, or a folder of ours, is written and compared."""

    precision: Literal["fp32", "int8"] = "fp32"
    """Arithmetic of an ONNX file; with int8 the layers that suffer from it stay in fp32. Of a
    folder of ours: the numbers in which its weights are kept; they are opened as fp32."""
    operators: Literal["fused", "plain"] = "fused"
    """Operators of an ONNX file: those of ONNX Runtime, or only such as every runtime knows."""
    data: Path | None = None
    """Texts, or labelled examples of the model's task, on which an ONNX file or a folder of ours is
    compared."""


@dataclass(frozen=True, kw_only=True)
class DifferenceSettings:
    """How a folder of ours is told by how far it is from another."""

    base: ModelFolder | None = None
    """--to bertworks: the model that this one was fine-tuned from; only how far the weights are
    from its own is written, and the folder is opened together with it."""
    rank: Count | None = None
    """Directions in which a matrix may be away from that of --base; by default all in which it
    is."""


@dataclass(frozen=True, kw_only=True)
class ShapeSettings:
    """What vectors are made of, and in which numbers they are written."""

    layers: tuple[int, ...] = ()
    """Layers that the vectors come from: 1 is the first, -1 the last, 0 what enters the first; by
    default the last."""
    mix: Literal["mean", "concat"] = "mean"
    """How several layers become one: their mean, or all side by side."""
    dims: Count | None = None
    """Keep so many numbers of each vector, its first ones, before it is normalized; by default
    all."""
    numbers: Literal["float32", "int8", "uint8", "binary", "ubinary"] = "float32"
    """What each number becomes: int8 and uint8 are 255 steps of its range, binary and ubinary one
    bit, eight to a byte."""
    ranges: Path | None = None
    """int8, uint8: ranges of the numbers as .npy, or a file of some hundred texts to take them
    from, which --data may be; those are kept beside --out."""
