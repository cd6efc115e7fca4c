"""Checks of labels: how many there are of each, in which files, and whether that can be learned."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from bertworks.core.scripts import is_invisible
from bertworks.evaluation.example_views import labels_of
from bertworks.evaluation.findings import Finding, Places, joined, named, rows_of, shown

MOST_LISTED = 200  # labels in a table
LARGEST_SHARE = 0.9  # of the examples with one label, before saying so
WHOLE = re.compile(r"\+?(-?)0*(\d+)(?:\.0*)?")  # 1, 01 and 1.0, but not 1.1 and 1.10
DECIMAL = re.compile(r"\d+,\d+")
# Marks that part several labels elsewhere, and how they are called.
MARKS = {mark: repr(mark) for mark in "、，；;,｜|"} | {" ": "a space"}
MANY_TOGETHER = {  # what is to be done where a label is several
    "label": "if a text has several labels, put | between them and give --task multilabel and "
    "--columns labels=NAME with the name of the column",
    "labels": "put | between labels, or give them as a list",
}
FEWEST_ALL_ALONE = 10  # examples that all have a label of their own, before that is an error


class LabelCheck:
    """Counts labels by what they are labels of and by file; the first file is to train on."""

    def __init__(self, *, rare: int, all_labels: bool = True) -> None:
        self.rare = rare
        self.finders = FINDERS if all_labels else FINDERS_BEFORE_TRAINING
        self.groups: dict[str, LabelCounts] = {}

    def add(self, part: str, example: Any) -> None:
        """Count the labels of an example."""
        for kind, labels in labels_of(example).items():
            if kind not in self.groups:
                self.groups[kind] = LabelCounts(kind, rare=self.rare)
            self.groups[kind].add(part, example.line, labels)

    def findings(self) -> Iterator[Finding]:
        """Yield what every finder says of every group."""
        for group in self.groups.values():
            for find in self.finders:
                yield from find(group)


@dataclass
class LabelCounts:
    """One group of labels: in each file the rows of each label."""

    kind: str  # label, labels, tag, span label, intent
    rare: int
    places: dict[str, dict[str, Places]] = field(default_factory=dict)
    num_examples: Counter[str] = field(default_factory=Counter)

    def add(self, part: str, line: int, labels: tuple[str, ...]) -> None:
        """Count the labels of one row."""
        self.num_examples[part] += 1
        own = self.places.setdefault(part, {})
        for label, times in Counter(labels).items():
            own.setdefault(label, Places()).add(part, line, times=times)

    @property
    def one(self) -> str:
        """What one of them is called."""
        return self.kind.removesuffix("s")

    @property
    def first(self) -> str:
        """The file to train on."""
        return next(iter(self.places))

    @property
    def others(self) -> list[str]:
        """The files to judge by."""
        return list(self.places)[1:]

    @property
    def is_of_texts(self) -> bool:
        """Whether a text has exactly one of the labels."""
        return self.kind in ("label", "intent")

    @property
    def is_of_words(self) -> bool:
        """Whether words have the labels."""
        return self.kind in ("tag", "span label")

    def is_the_same_everywhere(self, part: str) -> bool:
        """Tell whether the labels of all rows of a file are the same."""
        counts = [places.count for places in self.places[part].values()]
        if self.kind == "labels":
            return bool(counts) and all(count == self.num_examples[part] for count in counts)
        return len(counts) == 1 and self.kind != "span label"

    def finding(self, severity: Any, check: str, said: str, remedy: str, **more: Any) -> Finding:
        """Return a finding about these labels."""
        name = check.replace("label", self.one)
        return Finding(severity=severity, check=name, said=said, remedy=remedy, **more)


def _one_label(group: LabelCounts) -> Iterator[Finding]:
    """Find files in which there is nothing to tell apart."""
    for part, labels in group.places.items():
        if group.is_the_same_everywhere(part):
            is_first, shown = part == group.first, named(map(repr, labels))
            few = "one {} only" if len(labels) == 1 else "the same {}s on all rows"
            yield group.finding(
                "error" if is_first else "warning",
                "one label only",
                f"{part} has {few.format(group.one)} ({shown})",
                "add examples of another, or check that the right column is read"
                if is_first
                else "some scores need two; take rows of all labels",
                places=next(iter(labels.values())),
            )


def _no_label(group: LabelCounts) -> Iterator[Finding]:
    for part, labels in group.places.items():
        if not labels:
            yield group.finding(
                "error",
                "no label at all",
                f"no row of {part} has a label",
                "check that the right column is read",
            )


def _too_many_labels(group: LabelCounts) -> Iterator[Finding]:
    """Find labels that are names or numbers of rows, and files too small for their labels."""
    num_labels = len(group.places[group.first])
    if group.is_of_words:
        return
    for part, count in group.num_examples.items():
        is_alone = part == group.first and num_labels == count >= FEWEST_ALL_ALONE
        if is_alone and group.kind != "labels":
            yield group.finding(
                "error",
                "more labels than can be learned",
                f"{part} has {num_labels:,} {group.one}s in {rows_of(count)}, each of them once",
                "check that the right column is read, or add examples of each",
            )
        elif num_labels > count:
            yield group.finding(
                "error" if part == group.first else "warning",
                "more labels than examples",
                f"{part} has {rows_of(count)}, but there are {num_labels:,} {group.one}s",
                "add examples",
            )


def _rare_labels(group: LabelCounts) -> Iterator[Finding]:
    rare = [
        (label, places)
        for label, places in group.places[group.first].items()
        if places.count < group.rare
    ]
    if rare:
        rare.sort(key=lambda item: item[1].count)
        counted = named(f"{shown(label)} ({places.count})" for label, places in rare)
        yield group.finding(
            "warning" if group.is_of_texts else "note",
            "rare labels",
            f"{len(rare):,} of {len(group.places[group.first]):,} {group.one}s stand fewer than "
            f"{group.rare} times in {group.first}: {counted}",
            "add examples, join labels or leave them out",
            places=joined(places for _, places in rare),
        )


def _unknown_labels(group: LabelCounts) -> Iterator[Finding]:
    """Find labels that are not learned, and so never answered."""
    known = group.places[group.first]
    for part in group.others:
        unknown = {label: at for label, at in group.places[part].items() if label not in known}
        if unknown:
            yield group.finding(
                "error" if group.kind in ("label", "labels") else "warning",
                "unknown labels",
                f"{part} has {rows_of(len(unknown), group.one)} that "
                f"{group.first} has not: {named(map(shown, unknown))}",
                f"correct them, or add examples to {group.first}",
                places=joined(unknown.values()),
            )


def _never_answered(group: LabelCounts) -> Iterator[Finding]:
    """Find unknown labels that do not stop a training."""
    if group.is_of_words or group.kind == "intent":
        yield from _unknown_labels(group)


def _labels_not_judged(group: LabelCounts) -> Iterator[Finding]:
    known = group.places[group.first]
    for part in group.others:
        missing = [label for label in known if label not in group.places[part]]
        if missing:
            yield group.finding(
                "note",
                "labels not judged",
                f"{part} has no example of {len(missing):,} of {len(known):,} {group.one}s: "
                f"{named(map(shown, missing))}",
                "their answers are not judged by it",
            )


def _alike_labels(group: LabelCounts) -> Iterator[Finding]:
    """Find names that differ in their spelling alone, which are mostly slips."""
    spellings: dict[str, list[str]] = {}
    for label in dict.fromkeys(label for own in group.places.values() for label in own):
        spellings.setdefault(_folded(label), []).append(label)
    for alike in spellings.values():
        if len(alike) > 1:
            found = [own[label] for own in group.places.values() for label in alike if label in own]
            yield group.finding(
                "warning",
                "alike labels",
                f"{' and '.join(map(repr, alike))} differ in {_difference(alike)} alone",
                "write them alike if they are meant to be one",
                places=min(found, key=lambda places: places.count),
            )


def _folded(label: str) -> str:
    """Return what is left of a label in any spelling: its letters, or the number that it is."""
    normal = unicodedata.normalize("NFKC", label).casefold()
    bare = "".join(char for char in normal if not char.isspace() and not is_invisible(char))
    return WHOLE.sub(r"\1\2", bare) if WHOLE.fullmatch(bare) else bare


def _difference(alike: list[str]) -> str:
    """Say in what labels differ that are one in any spelling."""
    if len({"".join(label.casefold().split()) for label in alike}) == 1:
        return "case or spaces"
    if not all(map(str.isprintable, alike)):
        return "characters that nobody sees"
    return "width, case, spaces or the form of a number"


def _joined_labels(group: LabelCounts) -> Iterator[Finding]:
    """Find labels that are others with a mark between or behind them."""
    names = dict.fromkeys(label for own in group.places.values() for label in own)
    if group.kind not in MANY_TOGETHER:
        return
    for mark, said in MARKS.items():
        found = _several_in_one(names, mark)
        if found:
            files = group.places.values()
            yield group.finding(
                "warning",
                "joined labels",
                f"{rows_of(len(found), group.one)} made of others with {said} between or behind "
                f"them: {named(map(repr, found))}",
                MANY_TOGETHER[group.kind],
                places=joined(own[label] for label in found for own in files if label in own),
            )


def _several_in_one(names: Collection[str], mark: str) -> list[str]:
    """Return the labels of which every part stands by itself too, or in another one of several."""
    names = [label for label in names if not (mark == "," and DECIMAL.fullmatch(label))]
    whole = {label: list(filter(None, map(str.strip, label.split(mark)))) for label in names}
    times = Counter(part for parts in whole.values() for part in set(parts))
    # Names of several words share words, so these must be labels themselves.
    known = names if mark == " " else {part for part, count in times.items() if count > 1}
    return [
        label
        for label, parts in whole.items()
        if parts not in ([], [label]) and all(part in known for part in parts)
    ]


def _imbalance(group: LabelCounts) -> Iterator[Finding]:
    counts = {label: at.count for label, at in group.places[group.first].items()}
    if not group.is_of_texts or len(counts) < 2:
        return
    label = max(counts, key=counts.__getitem__)
    share = counts[label] / sum(counts.values())
    if share >= LARGEST_SHARE:
        yield group.finding(
            "warning",
            "uneven labels",
            f"{share:.1%} of {group.first} have the {group.one} {label!r}, so saying it always "
            "would be right as often",
            "try --class-weights balanced, and judge by macro F1",
        )


def _label_table(group: LabelCounts) -> Iterator[Finding]:
    whole = {part: sum(at.count for at in own.values()) for part, own in group.places.items()}
    names = dict.fromkeys(label for own in group.places.values() for label in own)
    counts = {
        label: [own[label].count if label in own else 0 for own in group.places.values()]
        for label in names
    }
    rows = [
        {group.kind: shown(label)}
        | dict(zip(group.places, map("{:,}".format, own), strict=True))
        | {"share": f"{own[0] / max(whole[group.first], 1):.1%}"}
        for label, own in sorted(counts.items(), key=lambda item: -sum(item[1]))
    ]
    each = " and ".join(f"{count:,} in {part}" for part, count in whole.items())
    yield group.finding(
        "note",
        "label counts",
        f"{rows_of(len(names), f'different {group.one}')}, {each}",
        "",
        details=tuple(rows[:MOST_LISTED]),
    )


FINDERS_OF_ALL: tuple[Callable[[LabelCounts], Iterator[Finding]], ...] = (
    _one_label,
    _too_many_labels,
    _rare_labels,
    _alike_labels,
    _joined_labels,
    _imbalance,
    _label_table,
)
FINDERS = (_no_label, _unknown_labels, _labels_not_judged, *FINDERS_OF_ALL)
# A task judges itself which labels it must know, before it is trained.
FINDERS_BEFORE_TRAINING = (_never_answered, *FINDERS_OF_ALL)
