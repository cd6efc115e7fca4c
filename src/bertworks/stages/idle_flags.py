"""Flags that would change nothing: refused, or said where a recipe may have brought them along."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.core.settings import changed_settings, settings_of
from bertworks.data.passages import LABELS
from bertworks.model.config import EncoderConfig
from bertworks.stages.pretrain_model import objectives_of
from bertworks.stages.settings import FinetuneSettings, PretrainSettings


@dataclass(frozen=True)
class Companion:
    """What a setting says more of."""

    flag: str
    is_given: Callable[[Any, EncoderConfig], bool]  # with these settings, in this network


STABLE = Companion("--schedule stable", lambda s, _: s.learning.schedule == "stable")
ATTENTION = Companion("networks with attention", lambda _, config: config.mixer == "attention")
LEARNED = Companion("a --model that has learned, not to --size", lambda s, _: s.size is None)


def _objective(name: str) -> Companion:
    def is_learned(settings: PretrainSettings, config: EncoderConfig) -> bool:
        return name in objectives_of(settings, config)

    return Companion(f"--objectives {name}", is_learned)


def _asks_of_no_pairs(settings: PretrainSettings, config: EncoderConfig) -> bool:
    return not LABELS.keys() & {*objectives_of(settings, config)}


OF_SINGLES = Companion(
    "runs that learn neither next_sentence nor sentence_order, which make pairs of all texts",
    _asks_of_no_pairs,
)
# The settings that do nothing by themselves.
OF_PRETRAIN = {
    "piece_vectors": Companion("fresh weights, not to --model", lambda s, _: s.model is None),
    "short_share": Companion("--short-longest", lambda s, _: s.short_longest is not None),
    "causal_share": _objective("next_piece"),
    "split_share": OF_SINGLES,
    "repeat_share": OF_SINGLES,
    "generator_size": _objective("replaced_token"),
    "decay": STABLE,
    "attention_dropout": ATTENTION,
}
OF_FINETUNE = {
    "temperature": Companion("--tasks", lambda s, _: s.several.tasks is not None),
    "fresh": LEARNED,
    "new_head": LEARNED,
    "keep_tasks": LEARNED,
    "decay": STABLE,
    "attention_dropout": ATTENTION,
}


def say_idle(settings: PretrainSettings | FinetuneSettings, config: EncoderConfig) -> None:
    """Say which settings change nothing in this run of a network."""
    companions = OF_PRETRAIN if isinstance(settings, PretrainSettings) else OF_FINETUNE
    for setting in changed_settings(settings):
        companion = companions.get(setting.name)
        if companion is not None and not companion.is_given(settings, config):
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
