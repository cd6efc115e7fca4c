"""clean: raw text -> documents that are repaired, filtered and free of duplicates."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bertworks.core.artifact import ESCAPED, Origin
from bertworks.core.errors import DataError
from bertworks.core.optional import is_installed
from bertworks.core.processes import in_chunks, map_in_order
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.scripts import script_of
from bertworks.core.settings import as_command, as_json
from bertworks.core.work import Work, was_done, working
from bertworks.corpus.dedupe import Duplicates, Fingerprinter, Fingerprints
from bertworks.corpus.document import Document
from bertworks.corpus.documents import DocumentsWriter
from bertworks.corpus.filter import Filters
from bertworks.corpus.language import check_languages, language_of
from bertworks.corpus.read import find_files, read_raw
from bertworks.corpus.repair import repair
from bertworks.corpus.statistics import Facts, Statistics, example
from bertworks.corpus.wiki_dump import Page
from bertworks.evaluation.corpus_report import documents_page
from bertworks.stages.text_settings import CleanSettings, TokenizeSettings

CHUNK_BYTES = 500_000  # text that travels to a process at once
CHUNKS_PER_COMMIT = 64  # a kill costs at most the work on so many chunks
SHARE_OF_LANGUAGES = 1 / 8  # documents whose language is told: telling it is slow
CHARACTERS_OF_SCRIPT = 1000  # at the beginning of a document; they tell its script


def run(settings: CleanSettings) -> dict[str, Any]:
    """Clean a corpus with several processes; the documents do not depend on how many."""
    files = find_files(settings.text)
    if settings.filters.languages:
        check_languages(settings.filters.languages)
    origin = Origin(
        command=as_command("clean", settings),
        settings=as_json(settings),
        inputs={str(file): file for file in files},
    )
    is_resumed = settings.resume == "auto"
    if is_resumed and was_done(settings.out, kind="documents", origin=origin):
        say(f"{settings.out} is finished already")
        return {"documents": str(settings.out)}
    quarantine = Quarantine()
    with working(settings.out, kind="documents", origin=origin, resume=is_resumed) as work:
        statistics = _clean(_read(files, quarantine, settings), work, settings)
        quarantine.check()
        if not statistics.kept.documents:
            raise DataError(_nothing_left(settings, statistics))
        _write_reports(work.out, statistics, quarantine)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    return {"documents": str(settings.out), **_result(statistics), "bad_rows": quarantine.num_bad}


def _read(
    files: list[Path], quarantine: Quarantine, settings: CleanSettings
) -> Iterator[tuple[Document | Page, str]]:
    for file in files:
        documents = read_raw(
            [file], quarantine, column=settings.column, whole_files=settings.whole_files
        )
        for document in documents:
            yield document, str(file)


def _clean(
    documents: Iterator[tuple[Document | Page, str]], work: Work, settings: CleanSettings
) -> Statistics:
    """Clean all documents that the work has not seen yet; return the counts of all."""
    cleaning = _Cleaning(work, settings)
    chunks = in_chunks(documents, size_of=lambda item: item[0].num_bytes, least=CHUNK_BYTES)
    rest = islice(chunks, cleaning.num_chunks, None)
    make_worker = partial(_Worker, settings)
    with progress("cleaning", total=None, unit="MB") as meter:
        for chunk in map_in_order(make_worker, rest, workers=settings.workers, what="cleans"):
            cleaning.take(chunk)
            meter.advance(sum(document.facts.bytes_read for document in chunk.documents) / 1e6)
            if cleaning.num_chunks % CHUNKS_PER_COMMIT == 0:
                work.commit(cleaning.state())
    return cleaning.statistics


@dataclass(frozen=True)
class _Cleaned:
    """One document after repair: its facts, and why it is dropped, if it is."""

    text: str
    source: str
    facts: Facts
    reason: str | None


@dataclass(frozen=True)
class _Chunk:
    """Some documents in order, and the fingerprints of those that passed the filters."""

    documents: list[_Cleaned]
    prints: Fingerprints


class _Worker:
    """What one process needs to clean chunks."""

    def __init__(self, settings: CleanSettings) -> None:
        self.form, self.mojibake = settings.form, settings.mojibake
        self.filters = Filters(**vars(settings.filters))
        self.tells_languages = is_installed("py3langid")
        self.fingerprinter = Fingerprinter(_num_permutations(settings))

    def __call__(self, items: list[tuple[Document | Page, str]]) -> _Chunk:
        """Repair and filter documents, and take the fingerprints of what is left."""
        documents = [self._clean(raw.plain(), source) for raw, source in items]
        passed = [document.text for document in documents if document.reason is None]
        return _Chunk(documents, self.fingerprinter.take(passed))

    def _clean(self, document: Document, source: str) -> _Cleaned:
        repaired = Document.from_text(repair(document.text, form=self.form, mojibake=self.mojibake))
        text = repaired.text
        facts = Facts(
            bytes_read=document.num_bytes,
            bytes=len(text.encode()),
            characters=len(text),
            script=script_of(text[:CHARACTERS_OF_SCRIPT]) or "none",
            language=self._language(repaired) if text else "",
            is_held_out=repaired.is_held_out(TokenizeSettings.held_out),
        )
        reason = self.filters.reason(text) if text else "empty"
        # A text that is dropped is only shown, so its beginning is enough to travel back.
        return _Cleaned(example(text) if reason else text, source, facts, reason)

    def _language(self, document: Document) -> str:
        """Return the language of some documents, chosen by their text, for the statistics."""
        is_told = self.tells_languages and document.is_held_out(SHARE_OF_LANGUAGES)
        return language_of(document.text) if is_told else ""


class _Cleaning:
    """What becomes of the documents in order: counted, compared with earlier ones, written."""

    def __init__(self, work: Work, settings: CleanSettings) -> None:
        state = work.state or {"chunks": 0, "statistics": Statistics().as_json()}
        self.num_chunks: int = state["chunks"]
        self.statistics = Statistics.from_json(state["statistics"])
        self.writer = DocumentsWriter(work.out, num_written=self.statistics.kept.documents)
        self.duplicates = Duplicates(
            work.folder,
            similarity=settings.similarity,
            num_permutations=_num_permutations(settings),
        )

    def take(self, chunk: _Chunk) -> None:
        """Count and write the documents of the next chunk."""
        verdicts = iter(self.duplicates.judge(chunk.prints))
        kept: list[tuple[str, str]] = []
        for document in chunk.documents:
            reason = document.reason or next(verdicts)
            if reason == "kept":
                kept.append((document.text, document.source))
                self.statistics.keep(document.facts)
            else:
                self.statistics.drop(reason, document.facts, document.text)
        self.writer.add(kept)
        self.num_chunks += 1

    def state(self) -> dict[str, Any]:
        """Return what must be known to go on."""
        return {"chunks": self.num_chunks, "statistics": self.statistics.as_json()}


def _num_permutations(settings: CleanSettings) -> int:
    return settings.permutations if settings.similarity < 1 else 0


def _result(statistics: Statistics) -> dict[str, Any]:
    reasons = statistics.dropped
    return {
        "documents_read": statistics.documents_read,
        "documents_kept": statistics.kept.documents,
        "megabytes_kept": statistics.kept.bytes / 1e6,
        "duplicate_share": statistics.share_dropped("exact duplicate", "near duplicate"),
        "dropped": [
            {"reason": reason, "documents": reasons[reason].documents}
            for reason in sorted(reasons, key=lambda reason: -reasons[reason].documents)
        ],
    }


def _nothing_left(settings: CleanSettings, statistics: Statistics) -> str:
    if not statistics.documents_read:
        return f"{settings.text[0]} holds no text; give a file with text in it"
    reason, amount = max(statistics.dropped.items(), key=lambda item: item[1].documents)
    return (
        f"all {statistics.documents_read} documents were dropped, {amount.documents} of them as "
        f"{reason!r}; give other text or loosen the filters"
    )


def _write_reports(folder: Path, statistics: Statistics, quarantine: Quarantine) -> None:
    data = json.dumps(statistics.as_json(), indent=1, ensure_ascii=False)
    (folder / "statistics.json").write_text(data, encoding="utf-8", errors=ESCAPED)
    page = documents_page(statistics, bad_rows=quarantine.num_bad)
    (folder / "report.html").write_text(page, encoding="utf-8", errors=ESCAPED)
    quarantine.write(folder)
