"""Checks of texts as such: how long they are, and characters that no writer meant."""

import re
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bertworks.evaluation.example_views import texts_of
from bertworks.evaluation.findings import Finding, Places, rows_of
from bertworks.evaluation.mojibake import is_mojibake

VERY_LONG = 100_000  # characters
PERCENTILES = (50, 90, 99, 100)
SUSPICIOUS: dict[str, tuple[Callable[[str], object], str]] = {
    "replacement characters": (
        re.compile("\ufffd").search,
        "a program could not decode them; read the source in its own encoding",
    ),
    "mojibake": (is_mojibake, "convert the source to UTF-8 from the encoding that it has"),
    "control characters": (
        re.compile("[\0-\x08\x0e-\x1f\x7f\ufeff\ufffe\uffff]").search,
        "remove them",
    ),
}


class LengthCheck:
    """Measures texts in characters."""

    def __init__(self) -> None:
        self.lengths: dict[str, array[int]] = {}
        self.very_long = Places()

    def add(self, part: str, example: Any) -> None:
        """Measure the texts of an example together."""
        length = sum(map(len, texts_of(example)))
        self.lengths.setdefault(part, array("q")).append(length)
        if length >= VERY_LONG:
            self.very_long.add(part, example.line)

    def findings(self) -> Iterator[Finding]:
        """Yield the lengths, and which texts are books rather than texts."""
        if self.very_long.count:
            longest = max(max(lengths) for lengths in self.lengths.values())
            yield Finding(
                severity="warning",
                check="very long texts",
                said=f"{rows_of(self.very_long.count)} of {VERY_LONG:,} characters or more, the "
                f"longest of {longest:,}",
                remedy="each is read in very many windows; split it or cut it if it need not be",
                places=self.very_long,
            )
        if self.lengths:
            yield length_table("length in characters", self.lengths, unit="characters")


class CharacterCheck:
    """Looks for characters that no writer meant, and for texts without a letter or digit."""

    def __init__(self) -> None:
        self.found = {name: Places() for name in SUSPICIOUS}
        self.wordless = Places()

    def add(self, part: str, example: Any) -> None:
        """Look at the texts of an example."""
        texts = texts_of(example)
        if not all(any(map(str.isalnum, text)) for text in texts):
            self.wordless.add(part, example.line)
        if all(map(str.isascii, texts)) and all(map(str.isprintable, texts)):
            return
        for name, (is_found, _) in SUSPICIOUS.items():
            if any(map(is_found, texts)):
                self.found[name].add(part, example.line)

    def findings(self) -> Iterator[Finding]:
        """Yield every kind of character that was found."""
        for name, (_, remedy) in SUSPICIOUS.items():
            if self.found[name].count:
                yield Finding(
                    severity="warning",
                    check=name,
                    said=f"{rows_of(self.found[name].count)} with {name}",
                    remedy=remedy,
                    places=self.found[name],
                )
        if self.wordless.count:
            yield Finding(
                severity="note",
                check="texts without words",
                said=f"{rows_of(self.wordless.count)} with a text that has no letter and no digit",
                remedy="leave them out if they say nothing",
                places=self.wordless,
            )


def length_table(check: str, lengths: dict[str, "array[int]"], *, unit: str) -> Finding:
    """Return how long texts are, file by file."""
    rows = []
    for part, own in lengths.items():
        numbers = np.percentile(own, PERCENTILES, method="higher")
        shares = {f"{share} %": f"{n:,.0f}" for share, n in zip(PERCENTILES, numbers, strict=True)}
        rows.append({"file": part, "mean": f"{np.mean(own):,.0f}", **shares})
    medians = " and ".join(f"{row['50 %']} in {row['file']}" for row in rows)
    return Finding(
        severity="note",
        check=check,
        said=f"half of the texts have at most so many {unit}: {medians}",
        details=tuple(rows),
    )
