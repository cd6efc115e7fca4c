"""Checks of what is sought: scores, answers, choices and sequences of tags."""

from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from bertworks.data.examples import ChoiceExample, QuestionExample, TaggedExample, TextExample
from bertworks.data.tag_schemes import (
    Scheme,
    find_misspelt,
    find_scheme,
    find_strays,
    may_follow,
)
from bertworks.evaluation.findings import Finding, Places, joined, named, rows_of

FAR = 10  # times farther from the middle than nearly all others
MOST_LISTED = 30  # rows of a table
LEAST_RIGHT = 20  # rows, of which the first choice should be right in some
LEAST_RIGHT_EACH = 5  # times as many as there are choices


class ScoreCheck:
    """Looks for scores that are all the same, far from the others, or beyond those of training."""

    def __init__(self) -> None:
        self.scores: dict[str, array[float]] = {}
        self.lines: dict[str, array[int]] = {}

    def add(self, part: str, example: Any) -> None:
        """Take the score of an example, if it has one."""
        if isinstance(example, TextExample) and example.score is not None:
            self.scores.setdefault(part, array("d")).append(example.score)
            self.lines.setdefault(part, array("q")).append(example.line)

    def findings(self) -> Iterator[Finding]:
        """Yield what is odd about the scores of each file."""
        if not self.scores:
            return
        first = next(iter(self.scores))
        low, high = min(self.scores[first]), max(self.scores[first])
        for part, own in self.scores.items():
            scores = np.array(own)
            if scores.min() == scores.max():
                yield Finding(
                    severity="error",
                    check="constant score",
                    said=f"every score of {part} is {scores[0]:g}, so nothing agrees with it",
                    remedy="check that the right column is read, or give examples that differ",
                    places=self._places(part, scores == scores[0]),
                )
                continue
            yield from self._odd(part, _is_far(scores), "far from all others", "far scores")
            beyond = (scores < low) | (scores > high)
            said = f"beyond those of {first} ({low:g} to {high:g})"
            yield from self._odd(part, beyond, said, "scores out of range")
        yield self._table()

    def _odd(self, part: str, is_odd: np.ndarray, said: str, check: str) -> Iterator[Finding]:
        if is_odd.any():
            yield Finding(
                severity="warning",
                check=check,
                said=f"{rows_of(int(is_odd.sum()), 'score')} of {part} {said}",
                remedy="correct them, or remove the rows",
                places=self._places(part, is_odd),
            )

    def _places(self, part: str, chosen: np.ndarray) -> Places:
        places = Places()
        for row in np.flatnonzero(chosen).tolist():
            places.add(part, self.lines[part][row])
        return places

    def _table(self) -> Finding:
        rows = []
        for part, scores in self.scores.items():
            numbers = np.percentile(scores, (0, 25, 50, 75, 100), method="lower")
            names = ("least", "25 %", "50 %", "75 %", "greatest")
            told = {name: f"{number:g}" for name, number in zip(names, numbers, strict=True)}
            rows.append({"file": part, "scores": f"{len(scores):,}", **told})
        ranges = " and ".join(f"{r['least']} to {r['greatest']} in {r['file']}" for r in rows)
        return Finding(
            severity="note", check="scores", said=f"scores from {ranges}", details=tuple(rows)
        )


class AnswerCheck:
    """Counts answers that are not where they are said to be, and questions without any."""

    def __init__(self) -> None:
        self.moved, self.lost = Places(), Places()
        self.num_questions: Counter[str] = Counter()
        self.unanswered: dict[str, Places] = {}

    def add(self, part: str, example: Any) -> None:
        """Look at the answers to a question."""
        if not isinstance(example, QuestionExample):
            return
        self.num_questions[part] += 1
        unanswered = self.unanswered.setdefault(part, Places())
        if not example.answers:
            unanswered.add(part, example.line)
        if any(answer.is_moved for answer in example.answers or ()):
            self.moved.add(part, example.line)
        if any(answer.start is None for answer in example.answers or ()):
            self.lost.add(part, example.line)

    def findings(self) -> Iterator[Finding]:
        """Yield misplaced answers and the share of questions without one."""
        if self.moved.count:
            yield Finding(
                severity="warning",
                check="misplaced answers",
                said=f"{rows_of(self.moved.count)} with an answer that is not at its start; the "
                "nearest place with the same words is taken",
                remedy="correct the starts if the place matters",
                places=self.moved,
            )
        if self.lost.count:
            yield Finding(
                severity="warning",
                check="lost answers",
                said=f"{rows_of(self.lost.count)} with an answer that is not in the passage beside "
                "one that is",
                remedy="it counts in scoring but is not learned; correct its words",
                places=self.lost,
            )
        for part, places in self.unanswered.items():
            if places.count:
                is_all = places.count == self.num_questions[part]
                is_first = part == next(iter(self.unanswered))
                yield Finding(
                    severity=("error" if is_first else "warning") if is_all else "note",
                    check="questions without answer",
                    said=f"{rows_of(places.count, 'question')} of {self.num_questions[part]:,} in "
                    f"{part} have no answer",
                    remedy="check that answers are read" if is_all else "",
                    places=places,
                )


class ChoiceCheck:
    """Counts which choice is right, and rows in which two choices are the same."""

    def __init__(self) -> None:
        self.right: dict[str, Counter[int]] = {}
        self.twice = Places()

    def add(self, part: str, example: Any) -> None:
        """Look at the choices of a question."""
        if not isinstance(example, ChoiceExample):
            return
        if example.label is not None:
            self.right.setdefault(part, Counter())[example.label] += 1
        if len(set(example.choices)) < len(example.choices):
            self.twice.add(part, example.line)

    def findings(self) -> Iterator[Finding]:
        """Yield what would let a network choose without reading."""
        if self.twice.count:
            yield Finding(
                severity="warning",
                check="equal choices",
                said=f"{rows_of(self.twice.count)} with the same choice twice",
                remedy="nobody can tell them apart; change one",
                places=self.twice,
            )
        for part, counts in self.right.items():
            shares = ", ".join(f"{n} {counts[n] / counts.total():.0%}" for n in sorted(counts))
            is_one = len(counts) == 1 < counts.total()
            yield Finding(
                severity="warning" if is_one else "note",
                check="place of the right choice",
                said=f"the right choice in {part}, by its number: {shares}",
                remedy="shuffle the choices of each question" if is_one else "",
            )
            if not is_one and _is_never_first(counts):
                yield Finding(
                    severity="warning",
                    check="labels that may count from 1",
                    said=f"the first choice, number 0, is right in none of {counts.total():,} rows "
                    f"of {part}, so labels may count from 1",
                    remedy="if they do, take 1 from each: they count from 0 on",
                )


def _is_never_first(counts: Counter[int]) -> bool:
    """Tell whether the first choice is right in no row, where by chance it would be in some."""
    num_choices = max(counts) + 1
    return not counts[0] and counts.total() >= max(LEAST_RIGHT, LEAST_RIGHT_EACH * num_choices)


class TagCheck:
    """Looks for tags written otherwise than most, or not allowed behind the tag before them."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Places]] = {}  # by file
        self.pairs: dict[tuple[str | None, str | None], Places] = {}

    def add(self, part: str, example: Any) -> None:
        """Take the tags of an example and the pairs of neighbors among them."""
        if not isinstance(example, TaggedExample) or not example.tags:
            return
        own = self.tags.setdefault(part, {})
        for tag, times in Counter(example.tags).items():
            own.setdefault(tag, Places()).add(part, example.line, times=times)
        around = [None, *example.tags, None]
        for pair, times in Counter(pairwise(around)).items():
            self.pairs.setdefault(pair, Places()).add(part, example.line, times=times)

    def findings(self) -> Iterator[Finding]:
        """Yield the scheme of the first file, tags that are strange to it, and misplaced ones."""
        if not self.tags:
            return
        scheme = find_scheme(next(iter(self.tags.values())))
        wrong = self._misplaced(scheme)
        if scheme == "bio" and wrong and not self._misplaced("iob1"):
            scheme, wrong = "iob1", {}
        said = "the tags are of single words" if scheme == "plain" else f"tags in {scheme.upper()}"
        yield Finding(severity="note", check="tag scheme", said=said)
        for part in self.tags:
            yield from self._strays(part, scheme)
        if wrong:
            yield _misplaced_tags(wrong, scheme)

    def _strays(self, part: str, scheme: Scheme) -> Iterator[Finding]:
        """Find tags for whose sake spans are lost, mostly slips of the pen."""
        own = self.tags[part]
        counts = {tag: places.count for tag, places in own.items()}
        meant, strays = find_strays(counts)
        misspelt = find_misspelt(counts) if meant == "plain" else {}
        if misspelt:
            yield _misspelt_tags(part, misspelt, joined(own[tag] for tag in misspelt))
        if misspelt or not strays:
            return
        said, remedy = f"not in {meant.upper()} as the others", "correct them, or write O"
        fate = "they mark no span" if scheme != "plain" else "no tag is read as part of a span"
        if meant == "plain":
            said, remedy = "like part of a span among tags of words", "correct them, or all others"
            fate = "they are read as tags of words"
        yield Finding(
            severity="warning",
            check="stray tags",
            said=f"{rows_of(len(strays), 'tag')} of {part} {said}: {named(strays)}; so {fate}",
            remedy=remedy,
            places=joined(own[tag] for tag in strays),
        )

    def _misplaced(self, scheme: Scheme) -> dict[tuple[str | None, str | None], Places]:
        return {pair: at for pair, at in self.pairs.items() if not may_follow(*pair, scheme)}


def _misspelt_tags(part: str, misspelt: dict[str, str], places: Places) -> Finding:
    return Finding(
        severity="warning",
        check="misspelt tags",
        said=f"the tags of {part} seem to mean spans, but are written as {named(misspelt)}; so no "
        "span is read from them",
        remedy=f"write them as {named(misspelt.values())}, and O for words outside",
        places=places,
    )


def _misplaced_tags(wrong: dict[tuple[str | None, str | None], Places], scheme: Scheme) -> Finding:
    places = joined(wrong.values())
    details = [
        {"before": before or "the start", "tag": tag or "the end", "times": f"{at.count:,}"}
        for (before, tag), at in sorted(wrong.items(), key=lambda item: -item[1].count)
    ]
    return Finding(
        severity="warning",
        check="misplaced tags",
        said=f"{rows_of(places.count, 'tag')} may not stand behind the tag before in "
        f"{scheme.upper()}, as {details[0]['tag']} behind {details[0]['before']}",
        remedy="such a tag is read as the beginning of a span; correct it if that is wrong",
        places=places,
        details=tuple(details[:MOST_LISTED]),
    )


def _is_far(scores: np.ndarray) -> np.ndarray:
    """Tell which scores are many times farther from the middle than nearly all others."""
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.abs(scores - np.median(scores))
        usual = np.percentile(distances, 95)
        return distances > FAR * usual if usual else np.zeros(len(scores), bool)
