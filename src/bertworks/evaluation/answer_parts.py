"""The parts of a report that tell of answers: their scores, labels, chances and mistakes.

A part is data; its `blocks` are what a page and Markdown show of it, and its fields are its JSON.
What is not known is left out, and then not shown.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bertworks.evaluation.report_blocks import (
    Block,
    Cards,
    Cell,
    Diagonal,
    Estimate,
    Examples,
    Forest,
    Heading,
    Matrix,
    Shown,
    Table,
    Text,
    number,
    sentence,
)
from bertworks.evaluation.statistics import NO_WIDTH, Interval, wilson

MOST_CONFUSED = 15  # pairs in a table
MOST_LABELS = 120  # in a matrix
MOST_CARDS = 6
MOST_DRAWN = 40  # ranges in a picture
MOST_NAMED = 10
FEW = 30  # examples, by which nobody should judge
OTHERS, NOTHING = "(others)", "(none)"  # NOTHING: where one side has no label at all


@dataclass(frozen=True)
class Scores:
    """The scores of all answers, the one to improve first."""

    key: ClassVar[str] = "scores"
    scores: tuple[Estimate, ...]
    examples: int | None = None
    of: str = ""  # which examples they are
    lacking: tuple[str, ...] = ()  # sentences of what these examples do not tell
    notes: tuple[str, ...] = ()  # sentences of how the scores are to be read

    @classmethod
    def of_metrics(
        cls,
        metrics: Mapping[str, float],
        intervals: Mapping[str, Interval],
        *,
        examples: int | None = None,
        of: str = "",
        lacking: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> Self:
        """Take scores with the intervals that are known."""
        return cls(
            tuple(_estimate(name, value, intervals.get(name)) for name, value in metrics.items()),
            examples,
            of,
            tuple(lacking),
            tuple(notes),
        )

    def blocks(self) -> Iterator[Block]:
        """Show the first scores, and below them all others, on cards."""
        yield Heading(f"Scores {self.of}".strip())
        counted = [Estimate("examples", self.examples)] * (self.examples is not None)
        first, others = self.scores[: MOST_CARDS - 1], self.scores[MOST_CARDS - 1 :]
        yield Cards([*map(_named, first), *counted])
        if others:
            yield Cards(list(map(_named, others)), is_minor=True)
        lost = [_words(own.name) for own in self.scores if not _is_finite(own.value)]
        if lost:
            yield Text(f"{', '.join(lost)}: there is no number, so nothing can be said of it.")
        yield from map(Text, map(sentence, self.lacking))
        yield from (Text(sentence(note), is_note=True) for note in self.notes)
        if any(own.bounds for own in self.scores):
            yield Text("Ranges hold the score with 95 % confidence.", is_note=True)
        if any(own.bounds and own.low == own.high for own in self.scores):
            yield Text(sentence(NO_WIDTH), is_note=True)
        if self.examples is not None and self.examples < FEW:
            said = "1 example says" if self.examples == 1 else f"{self.examples} examples say"
            yield Text(f"{said} very little.", is_note=True)


@dataclass(frozen=True)
class CopyScores:
    """What copying scores where texts are written: any writer should do better."""

    key: ClassVar[str] = "copying"
    rows: Mapping[str, Mapping[str, float]]  # by what is copied

    def blocks(self) -> Iterator[Block]:
        """Show one row for each."""
        names = list(dict.fromkeys(name for row in self.rows.values() for name in row))
        yield Heading("What copying scores")
        yield Table(
            ("copied", *map(_words, names)),
            [
                (of, *(number(row[name]) if name in row else "" for name in names))
                for of, row in self.rows.items()
            ],
        )


@dataclass(frozen=True)
class ClassRow:
    """The scores of one label."""

    label: str
    support: int
    scores: tuple[Estimate, ...]


@dataclass(frozen=True)
class ClassTable:
    """The scores of each label."""

    key: ClassVar[str] = "labels"
    rows: tuple[ClassRow, ...]

    @classmethod
    def of_labels(cls, found: Mapping[str, Mapping[str, float | None]]) -> Self:
        """Take what is known of each label: numbers by name, `_low` and `_high` their bounds.

        Where nobody tells bounds of precision and recall, they are Wilson's.
        """
        return cls(tuple(_class_row(label, row) for label, row in found.items()))

    def blocks(self) -> Iterator[Block]:
        """Show a row for each label; one that no example has, without scores."""
        if not self.rows:
            return
        yield Heading("Labels")
        names = [own.name for own in self.rows[0].scores]
        rows: list[list[Cell]] = [
            [row.label, number(row.support), *row.scores] for row in self.rows
        ]
        yield Table(("label", "examples", *names), rows)
        absent = [row.label for row in self.rows if not row.support]
        if absent:
            shown = ", ".join(absent[:MOST_NAMED]) + ", …" * (len(absent) > MOST_NAMED)
            yield Text(f"No example has the label {shown}, so it has no scores.", is_note=True)
        few = [row.label for row in self.rows if row.support and _lacks_range(row, "f1")]
        if few and len(few) + len(absent) < len(self.rows):
            shown = ", ".join(few[:MOST_NAMED]) + ", …" * (len(few) > MOST_NAMED)
            yield Text(f"Too few examples have the label {shown} to tell a range of its F1.", True)


@dataclass(frozen=True)
class Confusion:
    """How often each label was given for each."""

    key: ClassVar[str] = "confusion"
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # by gold and by answer

    @classmethod
    def of_pairs(cls, pairs: Mapping[tuple[str, str], int], labels: Sequence[str]) -> Self:
        """Count pairs of gold and answer; labels that are not named before come last."""
        found = {label for pair in pairs for label in pair}
        names = [*(own for own in labels if own in found or found <= {*labels})]
        names += sorted(found - {*names}, key=lambda name: (name == NOTHING, name))
        if len(names) > MOST_LABELS:
            pairs, names = _most_confused(pairs, names)
        rows = tuple(tuple(pairs.get((gold, given), 0) for given in names) for gold in names)
        return cls(tuple(names), rows)

    def blocks(self) -> Iterator[Block]:
        """Show the matrix, and the pairs that are confused most."""
        yield Heading("Which label was taken for which")
        yield Matrix(self.labels, self.counts)
        yield Text(
            "A row for each label that is right, a column for each that was given. Blue is right, "
            "red is wrong, the darker the larger its share of the row.",
            is_note=True,
        )
        wrong = self.confused()
        if wrong and len(self.labels) > 2:
            yield Heading("Confused most", level=3)
            yield Table(("gold", "answer", "times", "share of the gold"), wrong)

    def confused(self) -> list[tuple[str, str, str, str]]:
        """Return the commonest mistakes."""
        cells = [
            (count, gold, given)
            for gold, row in enumerate(self.counts)
            for given, count in enumerate(row)
            if count and gold != given
        ]
        most = sorted(cells, key=lambda cell: -cell[0])[:MOST_CONFUSED]
        return [
            (
                self.labels[gold],
                self.labels[given],
                number(count),
                "–" if self.labels[gold] == NOTHING else f"{count / sum(self.counts[gold]):.1%}",
            )
            for count, gold, given in most
        ]


@dataclass(frozen=True)
class Pairs:
    """Answers beside the gold, where they are no labels."""

    key: ClassVar[str] = "pairs"
    pairs: tuple[tuple[str, str, int], ...]

    def blocks(self) -> Iterator[Block]:
        """Show the commonest."""
        yield Heading("Gold and answer")
        rows = [(gold, given, number(times)) for gold, given, times in self.pairs]
        yield Table(("gold", "answer", "examples"), rows)


@dataclass(frozen=True)
class Confidence:
    """Whether answers are as often right as they are said to be."""

    key: ClassVar[str] = "calibration"
    points: tuple[tuple[float, float, int], ...]  # mean confidence, share right, answers
    ece: float | None = None
    brier: float | None = None
    temperature: float | None = None

    def blocks(self) -> Iterator[Block]:
        """Show the points beside the diagonal, and the numbers they come to."""
        yield Heading("Confidence")
        names = {
            "expected calibration error": self.ece,
            "Brier score": self.brier,
            "temperature": self.temperature,
        }
        rows = [Estimate(name, value) for name, value in names.items() if value is not None]
        if rows:
            yield Table(("", "value"), [(own.name, own) for own in rows])
        axes = ("confidence", "share that is right")
        yield Diagonal("Share of right answers by confidence", self.points, axes)
        yield Text(
            "On the dashed line confidence can be taken at its word; below it answers are surer "
            "than they should be. A larger point stands for more answers.",
            is_note=True,
        )


@dataclass(frozen=True)
class Errors:
    """The worst answers: the surest mistakes, or the texts that are farthest from their gold."""

    key: ClassVar[str] = "errors"
    views: tuple[Shown, ...]
    total: int
    are_texts: bool = False  # that were written

    def blocks(self) -> Iterator[Block]:
        """Show them in their texts."""
        order = "the lowest chrF first" if self.are_texts else "the surest first"
        yield Heading(f"Worst answers, {order}")
        if not self.views:
            yield Text("Every text is as a reference." if self.are_texts else "No answer is wrong.")
            return
        few = len(self.views) < self.total
        shown = f", of which {len(self.views)} are shown" * few
        counted = "1 answer is" if self.total == 1 else f"{self.total:,} answers are"
        wrong = "not as a reference" if self.are_texts else "not wholly right"
        yield Text(f"{counted} {wrong}{shown}.", is_note=True)
        pieces = [p for view in self.views for text in view.texts.values() for p in text]
        if any(piece.gold or piece.answer for piece in pieces):
            yield Text(
                "Marked in the texts: green what should have been found, dashed red what was "
                "found instead, grey what is right.",
                is_note=True,
            )
        yield Examples(self.views)


@dataclass(frozen=True)
class DifferenceRow:
    """How far two models are apart in one score, label or slice; or why that is not known."""

    name: str
    first: float | None
    second: float | None
    difference: Estimate
    p_value: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Differences:
    """How far two models are apart in several things."""

    key: str  # its name in JSON, as scores, labels or slices
    title: str
    rows: tuple[DifferenceRow, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of_rows(cls, key: str, title: str, rows: Iterable[Mapping[str, Any]]) -> Self:
        """Take rows of JSON data: a name first, then `first`, `second`, `difference` and others."""
        return cls(key, title, tuple(map(_difference, rows)))

    def blocks(self) -> Iterator[Block]:
        """Show the differences around the line of none, and all numbers in a table."""
        yield Heading(self.title)
        shown = [Estimate(row.name, *_ends(row.difference)) for row in self.rows]
        yield Forest("Second less first", [own for own in shown if own.bounds][:MOST_DRAWN])
        has_notes = any(row.note for row in self.rows)
        header = ("", "first", "second", "difference", "p", *["note"] * has_notes)
        yield Table(header, [_told(row, has_notes=has_notes) for row in self.rows])
        yield from (Text(sentence(note), is_note=True) for note in self.notes)


def _estimate(name: str, value: float | None, interval: Interval | None) -> Estimate:
    if interval is None:
        return Estimate(name, value)
    return Estimate(name, value, interval.low, interval.high)


def _difference(row: Mapping[str, Any]) -> DifferenceRow:
    name = str(next(iter(row.values())))
    between = Estimate(name, row["difference"], row.get("low"), row.get("high"))
    return DifferenceRow(
        name, row["first"], row["second"], between, row.get("p"), row.get("note") or ""
    )


def _told(row: DifferenceRow, *, has_notes: bool) -> list[str]:
    """Return a row of a table; a difference is no share, so its range is told in words alone."""
    numbers = number(row.first), number(row.second), str(row.difference), number(row.p_value)
    return [row.name, *numbers, *[row.note] * has_notes]


def _ends(own: Estimate) -> tuple[float | None, float | None, float | None]:
    return own.value, own.low, own.high


def _class_row(label: str, row: Mapping[str, float | None]) -> ClassRow:
    support = int(row.get("support") or 0)
    names = [n for n in row if n != "support" and not n.endswith(("_low", "_high"))]
    scores = [
        Estimate(name, row[name], row.get(f"{name}_low"), row.get(f"{name}_high"))
        if support
        else Estimate(name, None)
        for name in names
    ]
    return ClassRow(label, support, tuple(_with_wilson(own, row, support) for own in scores))


def _with_wilson(own: Estimate, row: Mapping[str, float | None], support: int) -> Estimate:
    """Give precision and recall of a label the bounds that its counts tell, where it has none."""
    recall, precision = row.get("recall"), row.get("precision")
    if own.bounds or own.value is None or recall is None:
        return own
    hits = round(recall * support)
    counts = {"recall": support, "precision": round(hits / precision) if precision else 0}
    if not counts.get(own.name):
        return own
    found = wilson(hits, counts[own.name])
    return Estimate(own.name, own.value, found.low, found.high)


def _lacks_range(row: ClassRow, name: str) -> bool:
    return any(own.name == name and not own.bounds for own in row.scores)


def _most_confused(
    pairs: Mapping[tuple[str, str], int], names: Sequence[str]
) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Keep the labels that are confused most, in their order, and make one of all others."""
    wrong = Counter[str]()
    for pair, times in pairs.items():
        if pair[0] != pair[1]:
            wrong.update(dict.fromkeys(pair, times))
    kept = {label for label, _ in wrong.most_common(MOST_LABELS - 1)}
    joined = Counter[tuple[str, str]]()
    for (gold, given), times in pairs.items():
        joined[gold if gold in kept else OTHERS, given if given in kept else OTHERS] += times
    return dict(joined), [*(name for name in names if name in kept), OTHERS]


def _named(own: Estimate) -> Estimate:
    return Estimate(_words(own.name), own.value, own.low, own.high)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
