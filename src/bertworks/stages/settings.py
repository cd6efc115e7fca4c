"""The settings of the commands, with their defaults and help.

Those of raw text stand in text_settings, of answers in answer_settings, of handing on in
shipping_settings.

A flag, a key of a recipe and a field are the same name; nothing heavy is imported here.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bertworks.core.settings import ModelFolder, Ramp
from bertworks.stages.setting_groups import (
    BackendSettings,
    ChoiceSettings,
    Count,
    CountOrZero,
    CountRamp,
    CrewSettings,
    DifferenceSettings,
    DropoutSettings,
    LayerSettings,
    LearningSettings,
    Longest,
    LookSettings,
    MachineSettings,
    MaskingSettings,
    MultipleOrZero,
    ObjectiveSettings,
    OnnxSettings,
    OpenShare,
    OpenShareRamp,
    Positive,
    PositiveOrZero,
    ProbeSettings,
    RankingSettings,
    RegularizeSettings,
    SeveralSettings,
    Share,
    SuiteSettings,
    VectorSettings,
    ZeroShotSettings,
)
from bertworks.stages.task_settings import TaskKind, TaskSettings, WritingSettings

DEFAULT_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class ExtendPositionsSettings:
    """Let a model read longer texts; shorter ones keep their vectors."""

    model: ModelFolder
    """Folder of a model, ours or Hugging Face's."""
    to: Longest
    """Longest text in pieces afterwards."""
    out: Path
    """Folder to write the model to."""
    window: Count | None = None
    """Let each token see only so many neighbors to each side; by default it sees what it saw."""


@dataclass(frozen=True, kw_only=True)
class PretrainSettings:
    """Pre-train an encoder on token shards."""

    shards: Path = field(kw_only=False)
    """Folder that tokenize wrote."""
    out: Path
    """Folder for the run: checkpoints and log while it goes on, the model at its end."""
    model: ModelFolder | None = None
    """Folder of a model, ours or Hugging Face's, to train further; by default training begins with
    fresh weights."""
    size: str | None = None
    """tiny, mini, small, medium, base, large, or LAYERSxWIDTH such as 6x384; of another family
    than BERT with its name before it, as roberta-base, modern-6x384 or recurrent-mini; by default
    mini, or that of the model."""
    piece_vectors: Literal["drawn", "counted"] | None = None
    """What the vectors of pieces begin with: drawn by chance, which is the default; or counted,
    from how often pieces stand near each other in the shards, so that a short run need not learn
    it. For fresh weights."""
    longest: Longest = 128
    """Longest text in pieces."""
    short_longest: Longest | None = None
    """Longest text in the first part of the run; by default there is none."""
    short_share: OpenShare = 0.9
    """Share of the steps that the first part takes, if there is one."""
    steps: Count | None = None
    """Steps to train; by default 1000, or as many as the budget allows."""
    budget: str | None = None
    """Time to train, as 25m, 90s or 1h30m, the last evaluation and the saving of the model within
    it; with --steps the run ends with whichever is over first."""
    batch_tokens: CountRamp = Ramp(8192, 8192)
    """Tokens per step; A..B moves over the run."""
    accumulate: Count = 1
    """Parts in which a step is computed, to save memory or by several processes; the result is that
    of the whole."""
    lr: Positive = 1e-3
    """Highest learning rate."""
    warmup: Share = 0.1
    """Share of the run in which the learning rate rises."""
    weight_decay: PositiveOrZero = 0.01
    """Decoupled decay of matrices."""
    clip: Positive = 1.0
    """Largest norm of a gradient."""
    spike: MultipleOrZero = 3.0
    """A loss this many times its average is not learned from; after some in a row the run goes
    back and leaves them out. 0 learns from all."""
    dropping: DropoutSettings = DropoutSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    mask_rate: OpenShareRamp = Ramp(0.15, 0.15)
    """Share of the pieces that is hidden; A..B moves over the run."""
    masking: MaskingSettings = MaskingSettings()
    learning: LearningSettings = LearningSettings()
    seed: int = 0
    """Seed of every random choice."""
    evaluate_every: CountOrZero = 200
    """Steps between evaluations on held-out documents."""
    probing: ProbeSettings = ProbeSettings()
    checkpoint_every: CountOrZero = 200
    """Steps between checkpoints."""
    resume: Literal["never", "auto"] = "never"
    """auto continues an unfinished run in the same folder, exactly."""
    workers: CountOrZero = 0
    """Processes that make batches; the result does not depend on it."""
    machine: MachineSettings = MachineSettings()
    crew: CrewSettings = CrewSettings()

    @property
    def num_steps(self) -> int | None:
        """The steps to train; None where a budget decides."""
        return self.steps if self.steps or self.budget else DEFAULT_STEPS


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Look at labelled data before training on them."""

    data: Path = field(kw_only=False)
    """Labelled examples, those to train on if there are several files."""
    against: tuple[Path, ...] = ()
    """Other files, such as dev and test, that share no text with DATA and have no other labels."""
    task: TaskKind | None = None
    """What the examples are for, as finetune has it; by default the columns tell."""
    columns: tuple[str, ...] = ()
    """Other column names, as text=sentence, or their numbers where a file has no header, as text=4;
    may be given several times."""
    look: LookSettings = LookSettings()
    out: Path | None = None
    """Folder to write a report to; by default the findings are only printed."""


@dataclass(frozen=True, kw_only=True)
class FinetuneSettings:
    """Fine-tune a model on labelled examples."""

    model: ModelFolder
    """Folder of a pre-trained model, ours or Hugging Face's; with --size, of a tokenizer."""
    size: str | None = None
    """Begin with a fresh network of this size, as pretrain has them, such as transformer-base or
    modern-6x384; by default with the model."""
    train: Path | None = None
    """Labelled examples: .jsonl, .csv, .tsv, .parquet or an official layout, also compressed."""
    dev: Path | None = None
    """Labelled examples that choose the best epoch."""
    out: Path
    """Folder for the run: checkpoints and log while it goes on, the model at its end."""
    task: TaskKind | None = None
    """classify (text, label), match (text, text_b, label), multilabel (text, labels), score (text,
    score), aspect (text, aspect, label), relate (text, first, second, label), tag (tokens, tags; or
    text, spans), intent_slots (as tag, and intent), embed (text, text_b and a label, a score or
    neither; or text alone), answer (question, passage, answers), choose (question, choices, label,
    perhaps a passage) or generate (source, target); by default the columns tell."""
    columns: tuple[str, ...] = ()
    """Other column names, as text=sentence, or their numbers where a file has no header, as text=4;
    may be given several times."""
    epochs: Count | None = None
    """Times every example is seen; by default 3, or more where examples are few."""
    batch_size: Count = 32
    """Examples per step."""
    accumulate: Count = 1
    """Parts in which a step is computed, to save memory."""
    lr: Positive | None = None
    """Highest learning rate; by default 5e-5, or 1e-4 of a network narrower than 512."""
    warmup: Share = 0.1
    """Share of the run in which the learning rate rises."""
    weight_decay: PositiveOrZero = 0.01
    """Decoupled decay of matrices."""
    clip: Positive = 1.0
    """Largest norm of a gradient."""
    learning: LearningSettings = LearningSettings()
    of_task: TaskSettings = TaskSettings()
    several: SeveralSettings = SeveralSettings()
    layers: LayerSettings = LayerSettings()
    regularize: RegularizeSettings = RegularizeSettings()
    choice: ChoiceSettings = ChoiceSettings()
    dropping: DropoutSettings = DropoutSettings()
    longest: Longest | None = None
    """Longest window in pieces; by default what the model reads. embed learns from such windows,
    but scores and answers by whole texts, as far as the model reads them."""
    fresh: bool = False
    """Forget the model's weights: the control without pre-training."""
    seed: int = 0
    """Seed of every random choice."""
    checkpoint_every: CountOrZero = 0
    """Steps between checkpoints; 0 saves one only when interrupted."""
    resume: Literal["never", "auto"] = "never"
    """auto continues an unfinished run in the same folder, exactly."""
    workers: CountOrZero = 0
    """Processes that make batches, for --piece-dropout on a GPU; the result does not depend on
    it."""
    machine: MachineSettings = MachineSettings()


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """Score a fine-tuned model on labelled examples, or a pre-trained one on a suite of tasks."""

    model: ModelFolder
    """Folder of a fine-tuned model; for a suite, of a pre-trained one."""
    data: Path
    """Labelled examples: .jsonl, .csv, .tsv, .parquet or an official layout, also compressed; or
    the folder of a retrieval set."""
    out: Path
    """Folder to write the report to."""
    task: str | None = None
    """Which of the model's tasks is scored; by default its first."""
    columns: tuple[str, ...] = ()
    """Other column names, as text=sentence, or their numbers where a file has no header, as text=4;
    may be given several times."""
    without_training: ZeroShotSettings = ZeroShotSettings()
    writing: WritingSettings = WritingSettings()
    ranking: RankingSettings = RankingSettings()
    suites: SuiteSettings = SuiteSettings()
    machine: MachineSettings = MachineSettings()
    runtime: BackendSettings = BackendSettings()


@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """Compare two reports of the same examples."""

    first: Path = field(kw_only=False)
    """Folder that evaluate wrote for one model."""
    second: Path = field(kw_only=False)
    """Folder that it wrote for the other, on the same file."""
    out: Path | None = None
    """Folder to write the comparison to; by default it is only printed."""
    seed: int = 0
    """Seed of every random choice."""


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """Turn a folder with pickled weights into one with safetensors."""

    folder: ModelFolder = field(kw_only=False)
    """Hugging Face folder with pytorch_model.bin; only tensors are read, no code is run."""
    out: Path
    """Folder to write the model to."""


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """Write a model as other libraries want it, or in less space."""

    model: ModelFolder
    """Folder of a model: ours, Hugging Face's or of sentence-transformers."""
    to: Literal["hugging-face", "sentence-transformers", "onnx", "bertworks"]
    """Which library should open the result; bertworks: this one, without the files of a run."""
    out: Path
    """Folder to write the model to."""
    vectors: VectorSettings = VectorSettings()
    prompt: tuple[str, ...] = ()
    """Prompts to add, as 'query=search for: '; may be given several times."""
    onnx: OnnxSettings = OnnxSettings()
    difference: DifferenceSettings = DifferenceSettings()


@dataclass(frozen=True, kw_only=True)
class QuickstartSettings:
    """Live the whole life of a small BERT on text that every Python carries."""

    out: Path = Path("quickstart")
    """Folder for everything that is made; a finished part is not made again."""
    model: ModelFolder | None = None
    """A model that learns from some of the same pairs, to compare; by default
    bertworks-en-mini if it came with the package."""
    steps: Count | None = None
    """Pre-training steps; by default those of the recipe `quickstart`."""
    epochs: Count | None = None
    """Fine-tuning epochs; by default those of the recipe `quickstart`."""
    seed: int = 0
    """Seed of every random choice."""
