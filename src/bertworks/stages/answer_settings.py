"""The settings of the commands that answer: each class is one command's.

The module imports nothing heavy, so that `--help` is quick.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from bertworks.core.settings import Limit, ModelFolder
from bertworks.stages.setting_groups import (
    BackendSettings,
    Count,
    MachineSettings,
    Positive,
    PositiveOrZero,
    ShapeSettings,
    VectorSettings,
    ZeroShotSettings,
)
from bertworks.stages.task_settings import WritingSettings

Port = Annotated[int, Limit("from 0 to 65535", lambda n: 0 <= n <= 65535)]


@dataclass(frozen=True, kw_only=True)
class PredictSettings:
    """Answer a file of inputs, one JSON line for each."""

    model: ModelFolder
    """Folder of a fine-tuned or pre-trained model."""
    data: str
    """Inputs (as labelled examples, without labels), or - for JSON lines from standard input."""
    out: str = "-"
    """File to write the answers to, or - for standard output."""
    task: str | None = None
    """Which of the model's tasks answers; by default its first."""
    without_training: ZeroShotSettings = ZeroShotSettings()
    writing: WritingSettings = WritingSettings()
    with_inputs: bool = False
    """Write the columns of each input before its answer, under our names for them."""
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

    model: ModelFolder
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


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Answer the requests of many clients over HTTP."""

    model: tuple[str, ...] = ()
    """Folder of a model, or the name of one that comes with bertworks, or NAME=FOLDER; of several
    the first answers where none is named; by default all that come with bertworks."""
    host: str = "127.0.0.1"
    """Address to listen on; one that other machines reach needs an --api-key-file."""
    port: Port = 8080
    """Port to listen on; 0 takes a free one, which is said."""
    api_key_file: Path | None = None
    """File with the keys that open the service, one in each line; by default none is asked for."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which clients may call the service beside localhost, as a proxy passes them on, or *
    for any; by default any where other machines are let in, and no other where not."""
    batch_tokens: Count | None = None
    """Most tokens that are computed at once; a longer text is computed alone; by default 1024 on a
    CPU and 16384 on a GPU."""
    queue_tokens: Count = 262144
    """Most tokens that wait to be computed; requests beyond are told to come again."""
    wait: Positive = 0.4
    """Seconds of work that may wait before a request; with more, and more than 16 like itself, it
    is told to come again."""
    deadline: Positive = 10.0
    """Seconds that a request may wait; later it is not begun."""
    max_items: Count = 2048
    """Most texts of one request."""
    max_body: Count = 4194304
    """Most bytes of one request."""
    drain: PositiveOrZero = 30.0
    """Seconds in which requests that were begun are finished when the service ends, or when a model
    is exchanged."""
    allow_swap: bool = False
    """Let clients exchange a model for that of another folder, by POST /models/NAME."""
    page: bool = True
    """Show a page to try the models with in a browser, at /."""
    access_log: bool = False
    """Say one line for each request: time, client, method, path, status, milliseconds."""
    machine: MachineSettings = MachineSettings()
    runtime: BackendSettings = BackendSettings()
