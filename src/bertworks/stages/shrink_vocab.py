"""vocab shrink: a model and text -> a smaller model that says the same of that text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertworks.core.artifact import Origin, refuse_existing
from bertworks.core.errors import ArtifactError, DataError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.corpus.read import find_files, read_documents
from bertworks.corpus.sentences import split_sentences
from bertworks.serving.model_folder import open_model, save_model
from bertworks.stages.text_settings import ShrinkVocabSettings
from bertworks.tasks.resize import with_rows
from bertworks.tasks.task import TaskModel
from bertworks.tokenizer.shrink import Needs
from bertworks.tokenizer.tokenizer import Tokenizer


def run(settings: ShrinkVocabSettings) -> dict[str, Any]:
    """Leave out every piece that the text does not need, and cut the text again to be sure."""
    refuse_existing(settings.out)
    files = find_files(settings.text)
    opened = open_model(settings.model)
    needs, quarantine = Needs(opened.tokenizer), Quarantine()
    for texts in _read(files, quarantine, "reading"):
        needs.add(texts)
    quarantine.check()
    if not quarantine.num_good:
        raise DataError(f"{settings.text[0]} holds no text; give a file with text in it")
    tokenizer, kept = needs.shrunken()
    for texts in _read(files, Quarantine(), "comparing"):
        _compare(opened.tokenizer, tokenizer, kept, texts)
    model = with_rows(opened.model, "vocab_size", [[index] for index in kept])
    origin = Origin(
        command=as_command("vocab shrink", settings),
        settings=as_json(settings),
        inputs={"model": settings.model, **{str(file): file for file in files}},
    )
    recipe, notes = opened.recipe, opened.notes
    save_model(settings.out, model, tokenizer, origin=origin, recipe=recipe, extra=notes)
    if quarantine.num_bad:
        say(f"warning: {quarantine.num_bad} rows were not read; the first: {quarantine.rows[0]}")
    return {
        "model": str(settings.out),
        "pieces_before": opened.model.config.vocab_size,
        "pieces": len(kept),
        "parameters_before": _num_parameters(opened.model),
        "parameters": _num_parameters(model),
        "bad_rows": quarantine.num_bad,
    }


def _read(files: list[Path], quarantine: Quarantine, label: str) -> Iterator[list[str]]:
    """Yield each document whole and in sentences: byte-level pieces differ at a beginning."""
    with progress(label, total=None, unit="MB") as meter:
        for document in read_documents(files, quarantine):
            sentences = [s for p in document.paragraphs for s in split_sentences(p)]
            yield [document.text, *sentences]
            meter.advance(document.num_bytes / 1e6)


def _compare(old: Tokenizer, new: Tokenizer, kept: list[int], texts: list[str]) -> None:
    for text, before, now in zip(texts, old.ids_of(texts), new.ids_of(texts), strict=True):
        if before != [kept[index] for index in now]:
            raise ArtifactError(
                f"the smaller vocabulary would cut {text[:60]!r} otherwise; nothing was written: "
                "leave this text out, or keep the model as it is"
            )


def _num_parameters(model: TaskModel) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
