"""The settings of the commands that answer: each class is one command's.

The module imports nothing heavy, so that `--help` is quick.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertworks.stages.setting_groups import (
    BackendSettings,
    MachineSettings,
    ShapeSettings,
    VectorSettings,
    ZeroShotSettings,
)


@dataclass(frozen=True, kw_only=True)
class PredictSettings:
    """Answer a file of inputs, one JSON line for each."""

    model: Path
    """Folder of a fine-tuned or pre-trained model."""
    data: str
    """Inputs (as labelled examples, without labels), or - for JSON lines from standard input."""
    out: str = "-"
    """File to write the answers to, or - for standard output."""
    task: str | None = None
    """Which of the model's tasks answers; by default its first."""
    without_training: ZeroShotSettings = ZeroShotSettings()
    explain: bool = False
    """Add to each answer what every piece and word of its input speaks for it, some thirty times
    slower; for tasks that judge a whole text or pair."""
    columns: tuple[str, ...] = ()
    """Other column names, as text=sentence, or their numbers where a file has no header, as text=4;
    may be given several times."""
    resume: Literal["never", "auto"] = "never"
    """auto goes on with an --out that was left unfinished, to the same bytes; one that is finished
    is not made again."""
    machine: MachineSettings = MachineSettings()
    runtime: BackendSettings = BackendSettings()


@dataclass(frozen=True, kw_only=True)
class EmbedSettings:
    """Turn a file of texts into vectors."""

    model: Path
    """Folder of a model: ours, Hugging Face's or of sentence-transformers."""
    data: str
    """Texts: .jsonl, .csv, .tsv or .parquet, also compressed, or lines of a .txt; or - for JSON
    lines from standard input."""
    out: str = "-"
    """File to write the vectors to, .npy, .parquet or .jsonl, or - for JSON lines on standard
    output."""
    columns: tuple[str, ...] = ()
    """Other column names, as text=sentence, or their numbers where a file has no header, as text=4;
    may be given several times."""
    vectors: VectorSettings = VectorSettings()
    shape: ShapeSettings = ShapeSettings()
    prompt: str | None = None
    """Name of one of the model's prompts, or the very words to put before each text; an empty one
    is none; by default as the model says."""
    resume: Literal["never", "auto"] = "never"
    """auto goes on with an --out that was left unfinished, to the same bytes; one that is finished
    is not made again."""
    machine: MachineSettings = MachineSettings()
    runtime: BackendSettings = BackendSettings()
