"""Retrieval sets: queries, documents, and how well each document answers a query.

A folder holds them in a layout of our own or in that of the SMART system, compressed or not.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bertworks.core.errors import DataError
from bertworks.core.lines import COMPRESSIONS, read_lines, require_content
from bertworks.core.quarantine import Quarantine
from bertworks.data.rows import read_rows

Texts = dict[str, str]  # id -> text
OURS = ("queries.jsonl", "documents.jsonl", "judgements.tsv")
SMART_DOCUMENTS, SMART_QUERIES, SMART_JUDGEMENTS = "*.all*", "*.qry", "*qrel"
SMART_BEST = 4  # documents of code 1 are graded so, those of code 4 with 1


@dataclass(frozen=True)
class RetrievalSet:
    """Texts to look for and among, and the grades of those that answer."""

    queries: Texts
    documents: Texts
    grades: dict[str, dict[str, float]] = field(default_factory=dict)  # by query and by document

    @property
    def judged(self) -> list[str]:
        """The queries that at least one document answers; there is nothing to score of others."""
        found = (query for query, own in self.grades.items() if max(own.values()) > 0)
        return [query for query in found if query in self.queries]


def read_retrieval_set(folder: Path, quarantine: Quarantine) -> RetrievalSet:
    """Read the retrieval set of a folder; rows that cannot be used go to the quarantine."""
    if _find(folder, OURS[0]) is not None:
        found = _read_ours(folder, quarantine)
    elif _find(folder, SMART_QUERIES) is not None:
        found = _read_smart(folder, quarantine)
    else:
        raise DataError(
            f"{folder} holds no retrieval set; it needs the files {', '.join(OURS)}, or those of "
            "the SMART layout"
        )
    if not found.judged:
        raise DataError(f"in {folder} no document answers any query; there is nothing to score")
    return found


@contextmanager
def _checked(quarantine: Quarantine) -> Iterator[Quarantine]:
    """Lend a quarantine of one file, and stop where too much of that file is bad."""
    own = Quarantine()
    yield own
    own.check()
    quarantine.take(own)


def _read_ours(folder: Path, quarantine: Quarantine) -> RetrievalSet:
    queries, documents, judgements = (_require(folder, name) for name in OURS)
    with _checked(quarantine) as of_queries, _checked(quarantine) as of_documents:
        made = RetrievalSet(
            _read_texts(queries, of_queries),
            _read_texts(documents, of_documents, may_be_empty=True),
        )
    with _checked(quarantine) as own:
        for line, row in read_rows(judgements, own):
            try:
                _grade(made, str(row["query"]), str(row["document"]), float(row["grade"]))
                own.pass_good()
            except KeyError as error:
                found = ", ".join(map(str, row)) or "nothing"
                own.add(judgements, line, f"no column {error} (found {found})")
            except (DataError, ValueError) as error:
                own.add(judgements, line, str(error))
    return made


def _read_texts(file: Path, quarantine: Quarantine, *, may_be_empty: bool = False) -> Texts:
    texts: Texts = {}
    for line, row in read_rows(file, quarantine):
        name, text = row.get("id"), row.get("text")
        if isinstance(name, bool) or not isinstance(name, str | int) or str(name) in texts:
            quarantine.add(file, line, f"the id {name!r:.60} is missing, or was there before")
        elif not isinstance(text, str) or not (may_be_empty or text.strip()):
            quarantine.add(file, line, "'text' is empty or not a string")
        else:
            texts[str(name)] = text
            quarantine.pass_good()
    return texts


def _read_smart(folder: Path, quarantine: Quarantine) -> RetrievalSet:
    """Read files whose entries begin with .I; a document is what its .W says.

    Judgements name a query by its place among the queries, not by its number.
    """
    files = (SMART_QUERIES, SMART_DOCUMENTS, SMART_JUDGEMENTS)
    queries, documents, judgements = (_require(folder, name) for name in files)
    with _checked(quarantine) as of_queries, _checked(quarantine) as of_documents:
        texts = (text for _, text in _entries(queries, of_queries))
        made = RetrievalSet(
            {str(place): text for place, text in enumerate(texts, start=1)},
            _unlike(_entries(documents, of_documents), documents, of_documents),
        )
        of_queries.pass_good(len(made.queries))
        of_documents.pass_good(len(made.documents))
    with _checked(quarantine) as own:
        for line, text in read_lines(judgements, own):
            try:
                query, document, code = map(int, text.split())
                grade = SMART_BEST + 1 - code if 1 <= code <= SMART_BEST else 0
                _grade(made, str(query), str(document), grade)
                own.pass_good()
            except (DataError, ValueError) as error:
                own.add(judgements, line, f"no judgement: {error}")
    return made


def _unlike(entries: Iterator[tuple[str, str]], file: Path, quarantine: Quarantine) -> Texts:
    """Return the texts by their numbers; of those with one number the first."""
    texts: Texts = {}
    for place, (number, text) in enumerate(entries, start=1):
        if number in texts:
            quarantine.add(file, place, f"the entry {number} was there before")
        else:
            texts[number] = text
    return texts


def _entries(file: Path, quarantine: Quarantine) -> Iterator[tuple[str, str]]:
    """Yield the number and the text of each entry."""
    number, part, lines = "", "", list[str]()
    for _, line in read_lines(file, quarantine):
        if line.startswith(".I"):
            if number:
                yield number, " ".join(lines)
            number, part, lines = line[2:].strip().lstrip("0"), "", []
        elif line[:1] == "." and line[1:2].isupper() and not line[2:].strip():
            part = line[1]
        elif part == "W":
            lines += line.split()
    if number:
        yield number, " ".join(lines)


def _grade(made: RetrievalSet, query: str, document: str, grade: float) -> None:
    for name, known in ((query, made.queries), (document, made.documents)):
        if name not in known:
            kind = "query" if known is made.queries else "document"
            raise DataError(f"there is no {kind} {name!r}")
    if not 0 <= grade < math.inf:
        raise DataError(f"the grade is {grade}; it must be 0 or more")
    if made.grades.setdefault(query, {}).setdefault(document, grade) != grade:
        raise DataError(f"the document {document!r} has another grade for this query already")


def _require(folder: Path, name: str) -> Path:
    file = _find(folder, name)
    if file is None:
        raise DataError(f"{folder} has no {name}, which its retrieval set needs")
    require_content(file)
    return file


def _find(folder: Path, name: str) -> Path | None:
    """Return the file of a name or pattern, compressed or not."""
    found = (path for ending in ("", *COMPRESSIONS) for path in sorted(folder.glob(name + ending)))
    return next(found, None)
