"""learn-vocab: text -> a tokenizer."""

from collections.abc import Iterator
from typing import Any

from bertworks.core.artifact import Origin, refuse_existing, saving
from bertworks.core.errors import DataError, UsageError
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.corpus.read import find_files, read_documents
from bertworks.stages.text_settings import LearnVocabSettings
from bertworks.tokenizer.learn import Read, learn_byte_bpe, learn_unigram, learn_wordpiece
from bertworks.tokenizer.tokenizer import Tokenizer

LEAST_OF_UNIGRAM = 2  # its trainer looks only at what is repeated


def run(settings: LearnVocabSettings) -> dict[str, Any]:
    """Learn a vocabulary and save it as a tokenizer folder."""
    if settings.kind == "unigram" and settings.min_count != LEAST_OF_UNIGRAM:
        raise UsageError("--min-count cannot be chosen with --kind unigram; leave it out")
    refuse_existing(settings.out)
    files = find_files(settings.text)
    passes: list[Quarantine] = []

    def read() -> Iterator[str]:
        passes.append(Quarantine())
        with progress("reading", total=None, unit="MB") as meter:
            for document in read_documents(files, passes[-1]):
                meter.advance(document.num_bytes / 1e6)
                yield document.text

    tokenizer = _learn(read, settings)
    quarantine = passes[-1]
    quarantine.check()
    if not quarantine.num_good:
        raise DataError(f"{settings.text[0]} holds no text; give a file with text in it")
    origin = Origin(
        command=as_command("learn-vocab", settings),
        settings=as_json(settings),
        inputs={str(file): file for file in files},
    )
    with saving(settings.out, kind="tokenizer", origin=origin) as folder:
        tokenizer.save(folder)
        quarantine.write(folder)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    return {
        "tokenizer": str(settings.out),
        "pieces": tokenizer.vocab_size,
        "bad_rows": quarantine.num_bad,
    }


def _learn(read: Read, settings: LearnVocabSettings) -> Tokenizer:
    if settings.kind == "unigram":
        return learn_unigram(read, size=settings.size, cased=settings.cased)
    learn = {"wordpiece": learn_wordpiece, "byte-bpe": learn_byte_bpe}[settings.kind]
    return learn(read, size=settings.size, cased=settings.cased, min_count=settings.min_count)
