"""tokenize: text and a tokenizer -> token shards."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bertworks.core.artifact import Origin, check_artifact, refuse_existing, saving
from bertworks.core.errors import BertworksError, DataError
from bertworks.core.progress import Meter, progress, say
from bertworks.core.quarantine import Quarantine
from bertworks.core.settings import as_command, as_json
from bertworks.corpus.document import Document
from bertworks.corpus.read import find_files, read_documents
from bertworks.corpus.sentences import split_sentences
from bertworks.data.shards import ShardWriter, TokenizedDocuments
from bertworks.stages.settings import TokenizeSettings
from bertworks.tokenizer.tokenizer import Tokenizer
from bertworks.tokenizer.words import after_another

CHUNK_BYTES = 500_000  # text that travels to a process at once
CHUNKS_IN_FLIGHT = 3  # per process: memory stays bounded when reading is faster than tokenizing


def run(settings: TokenizeSettings) -> dict[str, Any]:
    """Tokenize a corpus with several processes; the shards do not depend on how many."""
    refuse_existing(settings.out)
    files = find_files(settings.text)
    check_artifact(settings.tokenizer, "tokenizer", "model")
    tokenizer = Tokenizer.open(settings.tokenizer)
    quarantine = Quarantine()
    origin = Origin(
        command=as_command("tokenize", settings),
        settings=as_json(settings),
        inputs={"tokenizer": settings.tokenizer, **{str(file): file for file in files}},
    )
    with (
        saving(settings.out, kind="shards", origin=origin) as folder,
        progress("tokenizing", total=None, unit="MB") as meter,
    ):
        writer = ShardWriter(
            folder, specials=tokenizer.specials, word_starts=tokenizer.word_starts()
        )
        chunks = _chunks(read_documents(files, quarantine), meter)
        for documents in _tokenize(chunks, settings):
            writer.add(documents)
        quarantine.check()
        description = writer.finish()
        if not description["tokens"]:
            raise DataError(f"{settings.text[0]} holds no text; give a file with text in it")
        (folder / "tokenizer").mkdir()
        tokenizer.save(folder / "tokenizer")
        quarantine.write(folder)
    if summary := quarantine.summary():
        say(f"warning: {summary}")
    counts = {key: value for key, value in description.items() if isinstance(value, int)}
    return {"shards": str(settings.out), **counts, "bad_rows": quarantine.num_bad}


def _chunks(documents: Iterable[Document], meter: Meter) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += document.num_bytes
        if size >= CHUNK_BYTES:
            yield chunk
            meter.advance(size / 1e6)
            chunk, size = [], 0
    if chunk:
        yield chunk
        meter.advance(size / 1e6)


def _tokenize(
    chunks: Iterator[list[Document]], settings: TokenizeSettings
) -> Iterator[TokenizedDocuments]:
    """Yield the chunks tokenized, in order."""
    workers = settings.workers or os.cpu_count() or 1
    if workers == 1:
        worker = _Worker(settings.tokenizer, settings.held_out)
        yield from map(worker.tokenize, chunks)
        return
    waiting: deque[Future[TokenizedDocuments]] = deque()
    pool = ProcessPoolExecutor(
        workers, get_context("spawn"), _start_worker, (settings.tokenizer, settings.held_out)
    )
    try:
        with pool:
            for chunk in chunks:
                waiting.append(pool.submit(_tokenize_chunk, chunk))
                if len(waiting) >= CHUNKS_IN_FLIGHT * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise BertworksError(
            "a process that tokenizes died, perhaps for lack of memory; use fewer --workers"
        ) from error


class _Worker:
    """What one process needs to tokenize chunks."""

    def __init__(self, tokenizer: Path, held_out: float) -> None:
        self.tokenizer = Tokenizer.open(tokenizer)
        self.held_out = held_out

    def tokenize(self, documents: list[Document]) -> TokenizedDocuments:
        """Cut documents into sentences and sentences into pieces; empty ones vanish."""
        sentences = [_running_sentences(document) for document in documents]
        pieces = iter(self.tokenizer.ids_of([s for document in sentences for s in document]))
        kept = [list(filter(None, [next(pieces) for _ in document])) for document in sentences]
        is_kept = [bool(document) for document in kept]
        ids = [piece for document in kept for sentence in document for piece in sentence]
        flags = [document.is_held_out(self.held_out) for document in documents]
        return TokenizedDocuments(
            tokens=np.array(ids, dtype=np.uint32),
            sentences=np.array([len(s) for document in kept for s in document], dtype=np.int64),
            documents=np.array([len(document) for document in kept if document], dtype=np.int64),
            is_held_out=np.array(flags, dtype=bool)[is_kept],
        )


def _running_sentences(document: Document) -> list[str]:
    """Return the sentences with the space that stands before them, which some tokenizers keep."""
    sentences = [s for paragraph in document.paragraphs for s in split_sentences(paragraph)]
    return sentences[:1] + [after_another(sentence) for sentence in sentences[1:]]


_worker: _Worker | None = None  # in a tokenizing process only


def _start_worker(tokenizer: Path, held_out: float) -> None:
    global _worker
    _worker = _Worker(tokenizer, held_out)


def _tokenize_chunk(documents: list[Document]) -> TokenizedDocuments:
    assert _worker is not None
    return _worker.tokenize(documents)
