"""Checks of texts to write: sources beside their targets, in characters and in pieces."""

import math
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bertworks.data.examples import SourceExample
from bertworks.evaluation.findings import Finding, Places, rows_are, rows_of
from bertworks.evaluation.piece_checks import MOST_UNKNOWN, UNKNOWN_REMEDY
from bertworks.evaluation.text_checks import length_table
from bertworks.tokenizer.tokenizer import Tokenizer

FEWEST = 20  # rows, below which nothing is out of the ordinary
FAR = 3.0  # times longer or shorter than is usual
FAR_IN_SPREADS = 4.0  # where lengths differ much anyway
SPREAD_OF_MEDIAN = 1.4826  # makes the middle distance from the middle a deviation
SIDES = ("source", "target")
TOO_LONG = {
    "source": "more than the network reads, so that finetune sets them aside",
    "target": "of which finetune learns the beginning only",
}
FOLDED = (
    "have capital letters or letters with marks, which the tokenizer folds, so that none is ever "
    "written"
)
FOLDED_REMEDY = "take a cased model, or learn a vocabulary with --cased"


class TargetCheck:
    """Looks for targets that are their own source, or of another length than is usual."""

    def __init__(self) -> None:
        self.same: dict[str, Places] = {}
        self.ratios: dict[str, array[float]] = {}  # of target to source, as logarithms
        self.lines: dict[str, array[int]] = {}

    def add(self, part: str, example: Any) -> None:
        """Measure the targets of a source."""
        if not isinstance(example, SourceExample) or not example.targets:
            return
        source = example.source.split()
        same = self.same.setdefault(part, Places())
        if any(target.split() == source for target in example.targets):
            same.add(part, example.line)
        lengths = sorted(map(len, example.targets))
        ratio = math.log(lengths[len(lengths) // 2] / len(example.source))
        self.ratios.setdefault(part, array("d")).append(ratio)
        self.lines.setdefault(part, array("q")).append(example.line)

    def findings(self) -> Iterator[Finding]:
        """Yield copies and odd lengths of each file, and what is usual."""
        for part, places in self.same.items():
            if places.count:
                yield Finding(
                    severity="warning",
                    check="target is its source",
                    said=f"{rows_are(places.count, part)} the same on both sides",
                    remedy="the network learns to copy; remove them if nothing is to be copied",
                    places=places,
                )
        for part in self.ratios:
            yield from self._odd_lengths(part)
        if self.ratios:
            yield self._table()

    def _odd_lengths(self, part: str) -> Iterator[Finding]:
        ratios = np.array(self.ratios[part])
        distances = np.abs(ratios - np.median(ratios))
        spread = SPREAD_OF_MEDIAN * float(np.median(distances))
        odd = np.flatnonzero(distances > max(math.log(FAR), FAR_IN_SPREADS * spread))
        if len(ratios) < FEWEST or not len(odd):
            return
        places = Places()
        for row in odd.tolist():
            places.add(part, self.lines[part][row])
        yield Finding(
            severity="warning",
            check="odd lengths",
            said=f"{rows_are(len(odd), part)} much longer or shorter than the source lets expect",
            remedy="look whether both sides say the same",
            places=places,
        )

    def _table(self) -> Finding:
        rows = []
        for part, ratios in self.ratios.items():
            low, middle, high = np.exp(np.percentile(ratios, (5, 50, 95)))
            shares = {"5 %": f"{low:.2f}", "50 %": f"{middle:.2f}", "95 %": f"{high:.2f}"}
            rows.append({"file": part, "rows": f"{len(ratios):,}", **shares})
        told = " and ".join(f"{row['50 %']} in {row['file']}" for row in rows)
        return Finding(
            severity="note",
            check="length of target to source",
            said=f"a target has so many characters for each of its source: {told}",
            details=tuple(rows),
        )


class TargetPieceCheck:
    """Counts the pieces of both sides, and those that are unknown."""

    def __init__(self, tokenizer: Tokenizer, *, longest: int) -> None:
        self.tokenizer = tokenizer
        self.room = longest - tokenizer.specials.num_added(pair=False)
        self.lengths: dict[str, dict[str, array[int]]] = {side: {} for side in SIDES}
        self.long = {side: Places() for side in SIDES}
        self.unknown = {side: Places() for side in SIDES}
        self.folded = Places()  # targets with letters that no piece has
        self.count: Counter[tuple[str, bool]] = Counter()  # by side and whether it is unknown

    def add(self, part: str, example: Any) -> None:
        """Cut both sides of an example."""
        if not isinstance(example, SourceExample):
            return
        if loses_letters(example, self.tokenizer):
            self.folded.add(part, example.line)
        for side, texts in zip(SIDES, ((example.source,), example.targets or ()), strict=True):
            cut = self.tokenizer.written_ids_of if side == "target" else self.tokenizer.ids_of
            for ids in cut(texts):
                self.lengths[side].setdefault(part, array("q")).append(len(ids))
                found = ids.count(self.tokenizer.specials.unknown)
                self.count[side, True] += found
                self.count[side, False] += len(ids) - found
                if found:
                    self.unknown[side].add(part, example.line)
                if len(ids) > self.room:
                    self.long[side].add(part, example.line)

    def findings(self) -> Iterator[Finding]:
        """Yield what is too long, what cannot be read or written, and all lengths."""
        for side in SIDES:
            if self.long[side].count:
                yield Finding(
                    severity="warning",
                    check=f"long {side}s",
                    said=f"{rows_of(self.long[side].count, side)} of more than {self.room:,} "
                    f"pieces, {TOO_LONG[side]}",
                    remedy="raise --longest if the model reads more, or shorten them",
                    places=self.long[side],
                )
            yield from self._unknown_pieces(side)
            if self.lengths[side]:
                yield length_table(
                    f"{side}s in pieces", self.lengths[side], unit=f"pieces ({side})"
                )

        if self.folded.count:
            yield Finding(
                severity="warning",
                check="folded letters",
                said=f"{rows_of(self.folded.count)} with targets that {FOLDED}",
                remedy=FOLDED_REMEDY,
                places=self.folded,
            )

    def _unknown_pieces(self, side: str) -> Iterator[Finding]:
        unknown, total = self.count[side, True], self.count[side, True] + self.count[side, False]
        if not unknown:
            return
        what = "can never be written" if side == "target" else "say nothing"
        yield Finding(
            severity="warning" if unknown > MOST_UNKNOWN * total else "note",
            check=f"unknown pieces in {side}s",
            said=f"{unknown / total:.2%} of the pieces of {side}s are unknown to the tokenizer and "
            f"{what}, in {rows_of(self.unknown[side].count)}",
            remedy=UNKNOWN_REMEDY,
            places=self.unknown[side],
        )


def folded_warning(part: str, examples: Sequence[Any], tokenizer: Tokenizer) -> str | None:
    """Return what to say of a file with letters that a tokenizer cannot write."""
    count = sum(loses_letters(example, tokenizer) for example in examples)
    if not count:
        return None
    return f"{part}: {rows_of(count)} with targets that {FOLDED}; {FOLDED_REMEDY}"


def loses_letters(example: Any, tokenizer: Tokenizer) -> bool:
    """Tell whether a tokenizer folds letters of an example's targets."""
    targets = (example.targets or ()) if isinstance(example, SourceExample) else ()
    if tokenizer.folds("A", "a") and any(target != target.lower() for target in targets):
        return True
    return tokenizer.folds("ü", "u") and any(map(_has_marks, targets))


def _has_marks(text: str) -> bool:
    """Tell whether letters of a text have marks, as ü and é have."""
    return not text.isascii() and any(
        map(unicodedata.combining, unicodedata.normalize("NFD", text))
    )
