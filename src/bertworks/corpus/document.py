"""A document: one continuous text of a corpus."""

import hashlib
from dataclasses import dataclass

LONGEST_DOCUMENT = 20_000_000  # bytes; more is a collection rather than one text


@dataclass(frozen=True)
class Document:
    """Paragraphs that belong together, in order."""

    paragraphs: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str) -> "Document":
        """Make a document of a text whose lines are paragraphs."""
        return cls(tuple(filter(None, map(str.strip, text.splitlines()))))

    def plain(self) -> "Document":
        """Return this document, which carries no markup; pages of a wiki do."""
        return self

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(self.paragraphs)

    @property
    def num_bytes(self) -> int:
        """The size of the text, for progress."""
        return sum(len(paragraph.encode()) + 1 for paragraph in self.paragraphs)

    def is_held_out(self, share: float) -> bool:
        """Tell whether this document is kept for evaluation; its text alone decides."""
        digest = hashlib.blake2b(self.text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < share * 2**64
