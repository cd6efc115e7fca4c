"""Flags that would change nothing: refused, or said where a recipe may have brought them along."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.core.settings import changed_settings, settings_of
from bertworks.model.config import STYLES
from bertworks.stages.settings import FinetuneSettings, PretrainSettings


@dataclass(frozen=True)
class Companion:
    """What a setting says more of."""

    flag: str
    is_given: Callable[[Any], bool]


STABLE = Companion("--schedule stable", lambda s: s.learning.schedule == "stable")
ATTENTION = Companion("networks with attention", lambda s: _has_attention(s.size))
# The settings that do nothing by themselves.
OF_PRETRAIN = {
    "short_share": Companion("--short-longest", lambda s: s.short_longest is not None),
    "causal_share": Companion("--objectives next_piece", lambda s: _has(s, "next_piece")),
    "generator_size": Companion("--objectives replaced_token", lambda s: _has(s, "replaced_token")),
    "decay": STABLE,
    "attention_dropout": ATTENTION,
}
OF_FINETUNE = {
    "temperature": Companion("--tasks", lambda s: s.several.tasks is not None),
    "decay": STABLE,
    "attention_dropout": ATTENTION,
}


def say_idle(settings: PretrainSettings | FinetuneSettings) -> None:
    """Say which settings change nothing in this run."""
    companions = OF_PRETRAIN if isinstance(settings, PretrainSettings) else OF_FINETUNE
    for setting in changed_settings(settings):
        companion = companions.get(setting.name)
        if companion is not None and not companion.is_given(settings):
            say(f"{setting.flag} changes nothing here, for it belongs to {companion.flag}")


def refuse_any(chosen: Any, sentence: str) -> None:
    """Stop where one of a group of settings is given; the sentence goes on behind its flag."""
    for setting in changed_settings(chosen):
        raise UsageError(f"{setting.flag} {sentence}")


def refuse_all_but(settings: Any, *groups: type, of: str) -> None:
    """Stop where a setting is given that is none of these groups, nor the model, data or place."""
    known = {"model", "data", "out"} | {s.name for group in groups for s in settings_of(group)}
    for setting in changed_settings(settings):
        if setting.name not in known:
            raise UsageError(f"{setting.flag} is not for {of}; leave it out")


def _has_attention(size: str | None) -> bool:
    """Tell whether a network of a size has attention; None: one that is there already."""
    style = (size or "").rpartition("-")[0]
    return STYLES.get(style, {}).get("mixer", "attention") == "attention"


def _has(settings: PretrainSettings, objective: str) -> bool:
    return any(word.partition("=")[0] == objective for word in settings.objective.objectives)
