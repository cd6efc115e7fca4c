"""vocab extend: a model and words -> a model that knows each of them as one piece."""

from typing import Any

from bertworks.core.artifact import Origin, refuse_existing
from bertworks.core.errors import UsageError
from bertworks.core.lines import read_lines, require_content
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.serving.model_folder import open_model, save_model
from bertworks.stages.text_settings import ExtendVocabSettings
from bertworks.tasks.resize import with_rows
from bertworks.tokenizer.extend import extend


def run(settings: ExtendVocabSettings) -> dict[str, Any]:
    """Add the words to tokenizer and network, and say of each kind of word what became of it."""
    refuse_existing(settings.out)
    words = _words(settings)
    opened = open_model(settings.model)
    before = opened.model.config.vocab_size
    extension = extend(opened.tokenizer, words)
    if not extension.parts and not extension.reused:
        raise UsageError(
            f"{settings.model} knows each of the {len(words)} words as one piece already; "
            "there is nothing to add"
        )
    model = with_rows(opened.model, "vocab_size", extension.sources(before))
    inputs = {"model": settings.model}
    if settings.words_file is not None:
        inputs["words_file"] = settings.words_file
    origin = Origin(
        command=as_command("vocab extend", settings), settings=as_json(settings), inputs=inputs
    )
    recipe, notes = opened.recipe, opened.notes
    save_model(settings.out, model, extension.tokenizer, origin=origin, recipe=recipe, extra=notes)
    return {
        "model": str(settings.out),
        "added": len(extension.parts),
        "known": extension.known,
        "reused": extension.reused,
        "unreadable_before": extension.unreadable,
        "pieces_before": before,
        "pieces": model.config.vocab_size,
    }


def _words(settings: ExtendVocabSettings) -> list[str]:
    words = list(settings.words)
    if settings.words_file is not None:
        require_content(settings.words_file)
        quarantine = Quarantine()
        words += [line.strip() for _, line in read_lines(settings.words_file, quarantine)]
        quarantine.check()
    words = list(filter(None, words))
    if not words:
        raise UsageError("vocab extend needs --words or a --words-file with words in it")
    return words
