"""The command table: a name, its settings, and where its work is done."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bertworks.stages import answer_settings, settings, shipping_settings, text_settings


@dataclass(frozen=True)
class Command:
    """One command; its stage, which may need torch, is imported only to run it."""

    settings: type
    module: str

    def run(self, chosen: Any) -> dict[str, Any]:
        """Do the work and return its result as JSON data."""
        stage: Callable[[Any], dict[str, Any]] = import_module(self.module).run
        return stage(chosen)


COMMANDS = {
    "quickstart": Command(settings.QuickstartSettings, "bertworks.stages.quickstart"),
    "clean": Command(text_settings.CleanSettings, "bertworks.stages.clean"),
    "learn-vocab": Command(text_settings.LearnVocabSettings, "bertworks.stages.learn_vocab"),
    "vocab inspect": Command(text_settings.InspectVocabSettings, "bertworks.stages.inspect_vocab"),
    "vocab extend": Command(text_settings.ExtendVocabSettings, "bertworks.stages.extend_vocab"),
    "vocab shrink": Command(text_settings.ShrinkVocabSettings, "bertworks.stages.shrink_vocab"),
    "extend-positions": Command(
        settings.ExtendPositionsSettings, "bertworks.stages.extend_positions"
    ),
    "tokenize": Command(text_settings.TokenizeSettings, "bertworks.stages.tokenize"),
    "pairs": Command(text_settings.PairsSettings, "bertworks.stages.pairs"),
    "pretrain": Command(settings.PretrainSettings, "bertworks.stages.pretrain"),
    "check": Command(settings.CheckSettings, "bertworks.stages.check"),
    "finetune": Command(settings.FinetuneSettings, "bertworks.stages.finetune"),
    "evaluate": Command(settings.EvaluateSettings, "bertworks.stages.evaluate"),
    "compare": Command(settings.CompareSettings, "bertworks.stages.compare"),
    "predict": Command(answer_settings.PredictSettings, "bertworks.stages.predict"),
    "embed": Command(answer_settings.EmbedSettings, "bertworks.stages.embed"),
    "serve": Command(answer_settings.ServeSettings, "bertworks.stages.serve"),
    "export": Command(settings.ExportSettings, "bertworks.stages.export"),
    "import": Command(settings.ImportSettings, "bertworks.stages.import_model"),
    "card": Command(shipping_settings.CardSettings, "bertworks.stages.write_card"),
    "models": Command(shipping_settings.ModelsSettings, "bertworks.stages.list_models"),
}
