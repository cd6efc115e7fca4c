"""The settings of the commands about models as they are handed on."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bertworks.core.settings import ModelFolder
from bertworks.stages.setting_groups import MachineSettings


@dataclass(frozen=True, kw_only=True)
class ModelsSettings:
    """Tell what the models that come with bertworks are, or those of some folders."""

    folders: tuple[ModelFolder, ...] = field(kw_only=False, default=())
    """Folders of models, or names; by default all models that come with bertworks."""


@dataclass(frozen=True, kw_only=True)
class CardSettings:
    """Write the card of a model."""

    model: ModelFolder
    """Folder of a model that was made here."""
    notes: Path
    """TOML file with what a person says of it: about, language, license, limits, data."""
    run: Path | None = None
    """Folder of the run that trained it, which tells command, settings and time; by default the
    model itself."""
    scores: tuple[Path, ...] = ()
    """Folders that evaluate wrote, of files or of suites."""
    bias: Literal["en", "zh", "none"] | None = None
    """Language in which chances of he and she beside occupations are asked for; by default that of
    the notes, and none where there is no such probe."""
    out: Path | None = None
    """File to write; by default README.md in the folder of the model."""
    machine: MachineSettings = MachineSettings()
