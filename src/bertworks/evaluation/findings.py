"""What a look at labelled data finds: how bad it is, how many rows, where they are, what to do."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal, Protocol

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # the worst first
MOST_NAMED = 5  # places or labels that a sentence names


class Check(Protocol):
    """Looks at one example after the other and keeps only what its findings are made of."""

    def add(self, part: str, example: Any) -> None:
        """Look at an example of a file."""

    def findings(self) -> Iterable["Finding"]:
        """Return what was found in all of them."""


@dataclass
class Places:
    """How many rows something was found in, and where the first of them are."""

    count: int = 0
    first: list[tuple[str, int]] = field(default_factory=list)

    def add(self, part: str, line: int, *, times: int = 1) -> None:
        """Count a row of a file."""
        self.count += times
        if len(self.first) < MOST_NAMED:
            self.first.append((part, line))

    def __str__(self) -> str:
        lines: dict[str, list[str]] = {}
        for part, line in self.first:
            lines.setdefault(part, []).append(str(line))
        dots = ", …" if self.count > len(self.first) else ""
        told = (
            f"{part} line{'s' * (len(own) > 1)} {', '.join(own)}" for part, own in lines.items()
        )
        return "; ".join(told) + dots


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that somebody should know before training."""

    severity: Severity
    check: str  # what was looked for, in a few words
    said: str  # what was found
    remedy: str = ""
    places: Places = field(default_factory=Places)
    like: tuple[tuple[str, int], ...] = ()  # for each of the first places one that is like it
    details: tuple[dict[str, Any], ...] = ()  # the rows of a table

    def __str__(self) -> str:
        where = f" ({self.places})" if self.places.first else ""
        return f"{self.said}{where}" + (f"; {self.remedy}" if self.remedy else "")

    def shown_places(self) -> list[tuple[str, int]]:
        """Return the first places, each with the one that it is like."""
        pairs = zip_longest(self.places.first, self.like)
        return [place for pair in pairs for place in pair if place is not None]

    def as_json(self) -> dict[str, Any]:
        """Return all that is known as JSON data."""
        return {
            "severity": self.severity,
            "check": self.check,
            "rows": self.places.count,
            "said": self.said,
            "remedy": self.remedy,
            "first": _as_json(self.places.first),
            "like": _as_json(self.like),
            "details": list(self.details),
        }


def joined(all_places: Iterable[Places]) -> Places:
    """Return the rows of several things, one of each named first."""
    whole = Places()
    for places in all_places:
        whole.add(*places.first[0], times=places.count)
    return whole


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of their severity."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def named(items: Iterable[str]) -> str:
    """Name a few of some things."""
    rest: Iterator[str] = iter(items)
    shown = [item for item, _ in zip(rest, range(MOST_NAMED), strict=False)]
    return ", ".join(shown) + (", …" if next(rest, None) is not None else "")


def shown(label: str) -> str:
    """Return a label as it is, or by its escapes where it holds what nobody sees."""
    return label if label.isprintable() else repr(label)


def rows_are(count: int, part: str) -> str:
    """Begin a sentence about rows of a file: 1 row of a is, 2 rows of a are."""
    return f"{rows_of(count)} of {part} {'is' if count == 1 else 'are'}"


def rows_of(count: int, of: str = "row") -> str:
    """Count rows in words: 1 row, 2 rows."""
    return f"{count:,} {of}{'s' * (count != 1)}"


def _as_json(places: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"file": part, "line": line} for part, line in places]
