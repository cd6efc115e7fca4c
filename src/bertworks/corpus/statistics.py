"""Counts of a corpus that is cleaned: what was read, what was kept, and why the rest was not."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Self

EXAMPLES = 3  # of every reason
LONGEST_EXAMPLE = 200  # characters
COUNTERS = ("lengths", "scripts", "languages")


@dataclass(frozen=True)
class Facts:
    """What is counted of one document."""

    bytes_read: int  # before repair
    bytes: int
    characters: int
    script: str
    language: str
    is_held_out: bool


@dataclass
class Amount:
    """Some documents and their sizes."""

    documents: int = 0
    characters: int = 0
    bytes: int = 0

    def add(self, facts: Facts) -> None:
        """Count one document more, as it is after repair."""
        self.documents += 1
        self.characters += facts.characters
        self.bytes += facts.bytes


@dataclass
class Statistics:
    """All counts; as JSON data they can be put aside and taken up again."""

    documents_read: int = 0
    bytes_read: int = 0
    kept: Amount = field(default_factory=Amount)
    dropped: dict[str, Amount] = field(default_factory=dict)  # by reason
    examples: dict[str, list[str]] = field(default_factory=dict)  # the first of every reason
    lengths: Counter[str] = field(default_factory=Counter)  # kept documents by length_class
    scripts: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    held_out_documents: int = 0

    def keep(self, facts: Facts) -> None:
        """Count a document that is kept."""
        self._read(facts)
        self.kept.add(facts)
        self.lengths[str(length_class(facts.characters))] += 1
        self.scripts[facts.script] += 1
        if facts.language:
            self.languages[facts.language] += 1
        self.held_out_documents += facts.is_held_out

    def drop(self, reason: str, facts: Facts, text: str) -> None:
        """Count a document that is dropped, and show the first few of a reason."""
        self._read(facts)
        self.dropped.setdefault(reason, Amount()).add(facts)
        shown = self.examples.setdefault(reason, [])
        if len(shown) < EXAMPLES:
            shown.append(example(text))

    def share_dropped(self, *reasons: str) -> float:
        """Return the share of the documents that was dropped for one of these reasons."""
        dropped = sum(
            self.dropped[reason].documents for reason in reasons if reason in self.dropped
        )
        return dropped / self.documents_read if self.documents_read else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return all counts as JSON data."""
        counters = {name: dict(getattr(self, name)) for name in COUNTERS}
        dropped = {reason: asdict(amount) for reason, amount in self.dropped.items()}
        return vars(self) | {"kept": asdict(self.kept), "dropped": dropped} | counters

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Take up counts that were put aside."""
        counters = {name: Counter(data[name]) for name in COUNTERS}
        return cls(
            documents_read=data["documents_read"],
            bytes_read=data["bytes_read"],
            kept=Amount(**data["kept"]),
            dropped={reason: Amount(**amount) for reason, amount in data["dropped"].items()},
            examples={reason: list(texts) for reason, texts in data["examples"].items()},
            held_out_documents=data["held_out_documents"],
            **counters,
        )

    def _read(self, facts: Facts) -> None:
        self.documents_read += 1
        self.bytes_read += facts.bytes_read


def length_class(length: int) -> int:
    """Return the power of two at which the class of a length begins."""
    return 1 << max(length.bit_length() - 1, 0)


def example(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: 2 * LONGEST_EXAMPLE].split())
    return line if len(line) <= LONGEST_EXAMPLE else line[: LONGEST_EXAMPLE - 1] + "…"
