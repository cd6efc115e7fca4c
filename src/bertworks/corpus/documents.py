"""A documents folder: clean documents as compressed JSON lines, in parts of equal number."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from bertworks.core.artifact import ESCAPED, open_artifact

DOCUMENTS_PER_PART = 50_000
COMPRESSION = 1  # the quickest; the folder is read more often than it travels


class DocumentsWriter:
    """Writes documents in order; files only grow, and hold no trace of when they were written."""

    def __init__(self, folder: Path, *, num_written: int = 0) -> None:
        self.folder = folder
        self.num_written = num_written

    def add(self, documents: Sequence[tuple[str, str]]) -> None:
        """Add documents, each a text and where it comes from."""
        rest = list(documents)
        while rest:
            part, place = divmod(self.num_written, DOCUMENTS_PER_PART)
            now, rest = rest[: DOCUMENTS_PER_PART - place], rest[DOCUMENTS_PER_PART - place :]
            lines = [
                json.dumps({"text": text, "source": source}, ensure_ascii=False) + "\n"
                for text, source in now
            ]
            with (self.folder / f"documents-{part:05d}.jsonl.gz").open("ab") as file:
                file.write(
                    gzip.compress("".join(lines).encode(errors=ESCAPED), COMPRESSION, mtime=0)
                )
            self.num_written += len(now)


def document_files(folder: Path) -> list[Path]:
    """Return the parts of a documents folder, after checking every file of it."""
    open_artifact(folder, "documents")
    return sorted(folder.glob("documents-*.jsonl.gz"))
