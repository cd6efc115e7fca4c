"""Documents in text files: between blank lines, whole files, or articles of wiki-extractor."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from bertworks.core.lines import read_lines
from bertworks.core.quarantine import Quarantine
from bertworks.corpus.document import LONGEST_DOCUMENT, Document

ARTICLE = "<doc id="  # how an article of wiki-extractor begins
ARTICLE_END = "</doc>"
_TITLE = re.compile(r'title="(.*)">$')


def read_text(file: Path, quarantine: Quarantine, *, is_whole: bool = False) -> Iterator[Document]:
    """Yield what stands between blank lines, or all of the file as one document."""
    paragraphs = (line.strip() for _, line in read_lines(file, quarantine))
    if is_whole:
        return _gather((text for text in paragraphs if text), quarantine)
    return _gather((text or None for text in paragraphs), quarantine)


def read_articles(file: Path, quarantine: Quarantine) -> Iterator[Document]:
    """Yield the articles that wiki-extractor wrote, without their titles."""
    return _gather(_article_lines(file, quarantine), quarantine)


def _article_lines(file: Path, quarantine: Quarantine) -> Iterator[str | None]:
    title = ""  # of the article that just began
    for _, line in read_lines(file, quarantine):
        text = html.unescape(line.strip())
        if line.startswith((ARTICLE, ARTICLE_END)):
            found = _TITLE.search(text)
            title = found[1] if found else ""
            yield None
        elif text:
            if text != title:
                yield text
            title = ""


def _gather(lines: Iterator[str | None], quarantine: Quarantine) -> Iterator[Document]:
    """Yield runs of lines as documents; None ends one, and one too long goes on as another."""
    paragraphs: list[str] = []
    size = 0
    for line in lines:
        if line is not None:
            quarantine.pass_good()
            paragraphs.append(line)
            size += len(line)
        if paragraphs and (line is None or size > LONGEST_DOCUMENT):
            yield Document(tuple(paragraphs))
            paragraphs, size = [], 0
    if paragraphs:
        yield Document(tuple(paragraphs))
