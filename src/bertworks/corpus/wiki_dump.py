"""MediaWiki's XML dumps: the articles, page by page, without holding more than one.

Each page is cut out and parsed alone. So a broken page costs only itself, no document type is read,
and nothing outside of a page can define entities for it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.parsers import expat

from bertworks.core.errors import DataError
from bertworks.core.lines import UNREADABLE, open_bytes
from bertworks.core.quarantine import Quarantine
from bertworks.corpus.document import LONGEST_DOCUMENT, Document
from bertworks.corpus.wikitext import plain_text

CHUNK_BYTES = 1 << 18
DEEPEST = 8  # elements inside one another; a page of a dump has four
_BEGIN, _END = b"<page>", b"</page>"
_MARK = re.compile(rb"</?page>")
_TITLE, _NS, _REDIRECT = "page/title", "page/ns", "page/redirect"
_MODEL, _TEXT = "page/revision/model", "page/revision/text"
_WANTED = {_TITLE, _NS, _REDIRECT, _MODEL, _TEXT}
_NAMESPACE = re.compile(r'<namespace key="(?:-2|6|14)"[^<>]*>([^<>]+)</namespace>')


@dataclass(frozen=True)
class Page:
    """The wikitext of an article, and the names under which its wiki keeps files and categories."""

    title: str
    wikitext: str
    media: frozenset[str]

    @property
    def num_bytes(self) -> int:
        """The size of the wikitext."""
        return len(self.wikitext.encode())

    def plain(self) -> Document:
        """Return the article without its markup; nothing may be left of it."""
        return Document.from_text(plain_text(self.wikitext, media=self.media))


def read_pages(file: Path, quarantine: Quarantine) -> Iterator[Page]:
    """Yield the articles of a dump: namespace 0, no redirects; broken pages are bad rows."""
    for line, found in _read(file):
        if isinstance(found, str):
            quarantine.add(file, line, found)
        else:
            quarantine.pass_good()
            yield found


def _read(file: Path) -> Iterator[tuple[int, Page | str]]:
    """Yield each article, or the reason why it is none, with the line on which it begins."""
    line = 0
    try:
        with open_bytes(file) as stream:
            pieces = _cut(stream)
            _, header, mark = next(pieces)
            media = _media_names(file, header)
            for line, raw, end in pieces:
                found = _page(raw, end, media) if mark == _BEGIN else _gap(raw, end)
                if found is not None:
                    yield line, found
                mark = end
    except UNREADABLE as error:
        raise DataError(f"{file} cannot be read after line {line}: {error}") from error


def _cut(stream: IO[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (line, what stands before a mark, the mark); of what is too long only a part."""
    held = bytearray()
    line, num_lines = 1, 0  # where the piece begins; lines of it that were let go
    start = 0
    while True:
        if found := _MARK.search(held, start):
            yield line, bytes(held[: found.start()]), found[0]
            line += num_lines + held.count(b"\n", 0, found.end())
            num_lines = start = 0
            del held[: found.end()]
            continue
        if not (chunk := stream.read(CHUNK_BYTES)):
            yield line, bytes(held), b""
            return
        if len(held) > LONGEST_DOCUMENT + CHUNK_BYTES:
            num_lines += held.count(b"\n", LONGEST_DOCUMENT, len(held) - len(_END))
            del held[LONGEST_DOCUMENT : len(held) - len(_END)]
        start = max(0, len(held) - len(_END))
        held += chunk


def _media_names(file: Path, header: bytes) -> frozenset[str]:
    """Check that this is a dump, and return the wiki's own names of files and categories."""
    if b"<mediawiki" not in header:
        raise DataError(f"{file} is no MediaWiki dump (it has no <mediawiki>); give one, or text")
    if b"<!DOCTYPE" in header:
        raise DataError(
            f"{file} declares a document type, which no MediaWiki dump does; "
            "give the dump as it was downloaded"
        )
    return frozenset(name.lower() for name in _NAMESPACE.findall(header.decode(errors="replace")))


def _gap(raw: bytes, end: bytes) -> str | None:
    """Return what is wrong between two pages, if anything."""
    if end == _END:
        return f"a {_END.decode()} without its {_BEGIN.decode()}"
    if not end and b"</mediawiki>" not in raw:
        return "the dump breaks off before its </mediawiki>"
    return None


def _page(raw: bytes, end: bytes, media: frozenset[str]) -> Page | str | None:
    """Parse one page; None for what is no article."""
    if end != _END:
        return "a page that breaks off before its </page>"
    if len(raw) > LONGEST_DOCUMENT:
        return f"a page longer than {LONGEST_DOCUMENT:,} bytes"
    try:
        fields = _fields(_BEGIN + raw + _END)
    except expat.ExpatError as error:
        return f"not XML: {error}"
    wikitext = fields.get(_TEXT, "")
    is_article = fields.get(_NS, "0") == "0" and fields.get(_MODEL, "wikitext") == "wikitext"
    if not is_article or _REDIRECT in fields or not wikitext.strip():
        return None
    return Page(fields.get(_TITLE, ""), wikitext, media)


def _fields(xml: bytes) -> dict[str, str]:
    """Return the text of the elements that matter; of several revisions the last."""
    texts: dict[str, list[str]] = {}
    path: list[str] = []

    def start(name: str, _: dict[str, str]) -> None:
        if len(path) == DEEPEST:
            raise expat.ExpatError(f"more than {DEEPEST} elements inside one another")
        path.append(name)
        if (place := "/".join(path)) in _WANTED:
            texts[place] = []

    def end(_: str) -> None:
        path.pop()

    def data(text: str) -> None:
        if (place := "/".join(path)) in _WANTED:
            texts[place].append(text)

    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = data
    parser.Parse(xml, True)
    return {place: "".join(parts) for place, parts in texts.items()}
