"""What a task of a suite is: its files, how it is trained, and what others published on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SIZES = ("tiny", "mini", "small", "medium", "base")
Figures = Mapping[str, float]  # by the size of a BERT


@dataclass(frozen=True)
class Metric:
    """A score that the table shows, under the name of its scorer, and what others reached."""

    name: str
    dev: Figures = field(default_factory=dict)
    test: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """A file or folder of a data set, or a share of its examples."""

    file: str
    columns: tuple[str, ...] = ()
    begin: float = 0.0
    end: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SuiteTask:
    """One task of a suite; one without a kind is a retrieval set."""

    kind: str | None
    parts: Mapping[str, tuple[Source, ...]]  # train, dev, test
    metrics: tuple[Metric, ...]  # the first chooses the best epoch
    epochs: int = 4
    batch_size: int = 32
    lr: float = 5e-5
    longest: int | None = None  # None: what the model reads
    held_out: Mapping[str, float] = field(default_factory=dict)  # parts that are split off train
    model_of: str | None = None  # another task of the suite, whose model answers here too
    remark: str = ""


def files_of(folder: str, *columns: str, **names: str) -> dict[str, tuple[Source, ...]]:
    """Return one file for each part, all with the same columns."""
    return {part: (Source(f"{folder}/{name}", columns),) for part, name in names.items()}
