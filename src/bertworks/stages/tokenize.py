"""tokenize: text and a tokenizer -> token shards."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.core.artifact import ESCAPED, Origin, check_artifact
from bertworks.core.errors import DataError
from bertworks.core.processes import in_chunks, map_in_order
from bertworks.core.progress import progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.core.work import Work, was_done, working
from bertworks.corpus.document import Document
from bertworks.corpus.read import find_files, read_documents
from bertworks.corpus.sentences import split_sentences
from bertworks.corpus.words import count_words
from bertworks.data.shards import ShardWriter, TokenizedDocuments
from bertworks.data.token_statistics import TokenStatistics
from bertworks.evaluation.corpus_report import shards_page
from bertworks.stages.text_settings import TokenizeSettings
from bertworks.tokenizer.boundaries import WordFinder, WordKind
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.tokenizer.words import after_another

CHUNK_BYTES = 500_000  # text that travels to a process at once
CHUNKS_PER_COMMIT = 64  # a kill costs at most the work on so many chunks


def run(settings: TokenizeSettings) -> dict[str, Any]:
    """Tokenize a corpus with several processes; the shards do not depend on how many."""
    files = find_files(settings.text)
    check_artifact(settings.tokenizer, "tokenizer", "model")
    words = WordFinder(Tokenizer.open(settings.tokenizer), settings.words)
    origin = Origin(
        command=as_command("tokenize", settings),
        settings=as_json(settings) | words.description,
        inputs={"tokenizer": settings.tokenizer, **{str(file): file for file in files}},
    )
    is_resumed = settings.resume == "auto"
    if is_resumed and was_done(settings.out, kind="shards", origin=origin):
        say(f"{settings.out} is finished already")
        return {"shards": str(settings.out)}
    quarantine = Quarantine()
    with working(settings.out, kind="shards", origin=origin, resume=is_resumed) as work:
        tokenizing = _Tokenizing(work, words)
        _tokenize(read_documents(files, quarantine), tokenizing, work, settings)
        quarantine.check()
        description = tokenizing.finish(bad_rows=quarantine.num_bad)
        if not description["tokens"]:
            raise DataError(f"{settings.text[0]} holds no text; give a file with text in it")
        quarantine.write(work.out)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    counts = {key: value for key, value in description.items() if isinstance(value, int)}
    return {"shards": str(settings.out), **counts, "bad_rows": quarantine.num_bad}


def _tokenize(
    documents: Iterator[Document],
    tokenizing: "_Tokenizing",
    work: Work,
    settings: TokenizeSettings,
) -> None:
    """Tokenize all documents that the work has not seen yet."""
    chunks = in_chunks(documents, size_of=lambda one: one.num_bytes, least=CHUNK_BYTES)
    rest = islice(chunks, tokenizing.num_chunks, None)
    make_worker = partial(_Worker, settings.tokenizer, settings.words, settings.held_out)
    with progress("tokenizing", total=None, unit="MB") as meter:
        for chunk in map_in_order(make_worker, rest, workers=settings.workers, what="tokenizes"):
            tokenizing.take(chunk)
            meter.advance(chunk.num_bytes / 1e6)
            if tokenizing.num_chunks % CHUNKS_PER_COMMIT == 0:
                work.commit(tokenizing.state())


class _Tokenizing:
    """What becomes of the chunks in order: written and counted."""

    def __init__(self, work: Work, words: WordFinder) -> None:
        nothing = {"chunks": 0, "parts": [], "statistics": TokenStatistics().as_json()}
        state: dict[str, Any] = work.state or nothing
        self.num_chunks: int = state["chunks"]
        self.statistics = TokenStatistics.from_json(state["statistics"])
        self.folder, self.tokenizer = work.out, words.tokenizer
        self.writer = ShardWriter(
            self.folder,
            specials=self.tokenizer.specials,
            vocab_size=self.tokenizer.vocab_size,
            words=words.description,
            parts=state["parts"],
        )

    def take(self, chunk: "_Chunk") -> None:
        """Write and count the documents of the next chunk."""
        self.writer.add(chunk.documents)
        self.statistics.add(chunk.statistics)
        self.num_chunks += 1

    def state(self) -> dict[str, Any]:
        """Return what must be known to go on."""
        return {
            "chunks": self.num_chunks,
            "parts": self.writer.parts,
            "statistics": self.statistics.as_json(),
        }

    def finish(self, *, bad_rows: int) -> dict[str, Any]:
        """Write all that is not written chunk by chunk; return the description of the shards."""
        description = self.writer.finish()
        (self.folder / "tokenizer").mkdir(exist_ok=True)
        self.tokenizer.save(self.folder / "tokenizer")
        summary = self.statistics.summary()
        data = json.dumps(summary, indent=1)
        (self.folder / "statistics.json").write_text(data, encoding="utf-8", errors=ESCAPED)
        page = shards_page(summary, bad_rows=bad_rows)
        (self.folder / "report.html").write_text(page, encoding="utf-8", errors=ESCAPED)
        return description


@dataclass(frozen=True)
class _Chunk:
    """Some documents as pieces, and the counts of them."""

    documents: TokenizedDocuments
    statistics: TokenStatistics
    num_bytes: int


class _Worker:
    """What one process needs to tokenize chunks."""

    def __init__(self, tokenizer: Path, words: WordKind, held_out: float) -> None:
        self.tokenizer = Tokenizer.open(tokenizer)
        self.words = WordFinder(self.tokenizer, words)
        self.held_out = held_out

    def __call__(self, documents: list[Document]) -> _Chunk:
        """Cut documents into sentences and sentences into pieces, and count; empty ones vanish."""
        sentences = [_running_sentences(document) for document in documents]
        pieces, begins_word = self.words.cut([s for document in sentences for s in document])
        is_full = pieces.counts > 0
        owners = np.repeat(np.arange(len(documents)), [len(document) for document in sentences])
        sizes = np.bincount(owners[is_full], minlength=len(documents))
        kept = [document for document, size in zip(documents, sizes, strict=True) if size]
        made = TokenizedDocuments(
            tokens=pieces.ids,
            begins_word=begins_word,
            sentences=pieces.counts[is_full],
            documents=sizes[sizes > 0],
            is_held_out=np.array([d.is_held_out(self.held_out) for d in kept], dtype=bool),
        )
        num_bytes = sum(document.num_bytes for document in documents)
        return _Chunk(made, self._count(kept, made), num_bytes)

    def _count(self, documents: list[Document], made: TokenizedDocuments) -> TokenStatistics:
        counts = TokenStatistics(
            held_out_documents=int(made.is_held_out.sum()),
            sentences=len(made.sentences),
            unknown_tokens=int(np.count_nonzero(made.tokens == self.tokenizer.specials.unknown)),
        )
        ends = np.cumsum(made.sentences)[np.cumsum(made.documents) - 1]
        for document, length in zip(documents, np.diff(ends, prepend=0).tolist(), strict=True):
            num_words, num_unspaced = count_words(document.text)
            counts.add_document(length, num_words=num_words, num_unspaced=num_unspaced)
        return counts


def _running_sentences(document: Document) -> list[str]:
    """Return the sentences with the space that stands before them, which some tokenizers keep."""
    sentences = [s for paragraph in document.paragraphs for s in split_sentences(paragraph)]
    return sentences[:1] + [after_another(sentence) for sentence in sentences[1:]]
