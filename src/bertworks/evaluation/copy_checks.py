"""Checks of copies: texts that stand twice, in several files, or with different labels.

Of an example a few hashes are kept and, to find near copies, a short signature; never its text.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from bertworks.corpus.dedupe import folded_hash
from bertworks.corpus.minhash import MinHash, mix
from bertworks.evaluation.example_views import compared_of, gold_of, identity_of
from bertworks.evaluation.findings import MOST_NAMED, Finding, Places, Severity, rows_are, rows_of

NUM_PERMUTATIONS = 64
SHINGLE_WORDS = 2  # labelled texts are short: longer runs would see no likeness in them
NUM_BANDS, ROWS_OF_BAND = 16, 4
BLOCK = 4096  # signatures that are made and stored together
MOST_WAITING = 10_000_000  # characters of texts that wait for their signature
MOST_LISTED = 10_000  # pairs that are kept to be written down


class CopyCheck:
    """Finds copies within files and between them, and copies with different labels."""

    def __init__(self, *, similarity: float = 1.0) -> None:
        self.similarity = similarity  # 1: near copies are not looked for
        self.parts: dict[str, int] = {}
        self.columns = {name: array("Q") for name in ("part", "line", "text", "gold", "same")}
        self.signatures = _Signatures() if similarity < 1 else None
        self.listed: list[dict[str, Any]] = []

    def add(self, part: str, example: Any) -> None:
        """Take the hashes of an example."""
        near, same = compared_of(example)
        values = {
            "part": self.parts.setdefault(part, len(self.parts)),
            "line": example.line,
            "text": folded_hash(identity_of(example)),
            "gold": folded_hash(gold_of(example)),
            "same": folded_hash(same) if same else 0,
        }
        for name, column in self.columns.items():
            column.append(values[name])
        if self.signatures is not None:
            self.signatures.add(near)

    def findings(self) -> Iterator[Finding]:
        """Yield conflicts, leaks and repetitions, first exact ones and then near ones."""
        rows = _Rows(list(self.parts), **{n: np.array(c) for n, c in self.columns.items()})
        self.listed = []
        yield from self._conflicts(rows)
        exact = _exact_pairs(rows)
        yield from self._copies(rows, exact, "copies")
        if self.signatures is not None:
            near = _near_pairs(rows, self.signatures.all(), self.similarity)
            near = near[~np.isin(rows.meetings(near), rows.meetings(exact))]
            yield from self._copies(rows, near, "near copies")

    def _conflicts(self, rows: "_Rows") -> Iterator[Finding]:
        order = np.lexsort((rows.gold, rows.text))
        text, gold = rows.text[order], rows.gold[order]
        conflicting = np.unique(text[1:][(text[1:] == text[:-1]) & (gold[1:] != gold[:-1])])
        at = np.flatnonzero(np.isin(rows.text, conflicting))
        if len(at):
            at = at[np.argsort(rows.text[at], kind="stable")]
            self._list("conflicting labels", rows, at)
            yield Finding(
                severity="warning",
                check="conflicting labels",
                said=f"{rows_of(len(conflicting), 'text')} with different labels in "
                f"{rows_of(len(at))}",
                remedy="decide which label is right and remove the others",
                places=rows.places(at),
            )

    def _copies(
        self, rows: "_Rows", pairs: np.ndarray, check: Literal["copies", "near copies"]
    ) -> Iterator[Finding]:
        """Yield what pairs (earlier, later) mean: leaks between files, repetitions in one."""
        alike = "the same as" if check == "copies" else "nearly the same as"
        before, after = rows.part[pairs[:, 0]], rows.part[pairs[:, 1]]
        for first, second in combinations(range(len(rows.parts)), 2):
            own = pairs[(before == first) & (after == second)]
            said = f"{alike} one of {rows.parts[first]}"
            remedy = f"scores on {rows.parts[second]} flatter; remove these rows from one of them"
            yield from self._found(rows, own, ("warning", f"leak: {check}", said, remedy))
        for number in range(len(rows.parts)):
            own = pairs[(before == number) & (after == number)]
            said = f"{alike} an earlier one"
            yield from self._found(rows, own, ("note", check, said, "remove them if not meant"))

    def _found(
        self, rows: "_Rows", pairs: np.ndarray, told: tuple[Severity, str, str, str]
    ) -> Iterator[Finding]:
        severity, check, said, remedy = told
        later, chosen = np.unique(pairs[:, 1], return_index=True)
        if len(later):
            self._list(check, rows, later, pairs[chosen, 0])
            part = rows.parts[int(rows.part[later[0]])]
            yield Finding(
                severity=severity,
                check=check,
                said=f"{rows_are(len(later), part)} {said}",
                remedy=remedy,
                places=rows.places(later),
                like=tuple(rows.places(pairs[chosen[:MOST_NAMED], 0]).first),
            )

    def _list(
        self, kind: str, rows: "_Rows", at: np.ndarray, others: np.ndarray | None = None
    ) -> None:
        for place, row in enumerate(at[: MOST_LISTED - len(self.listed)].tolist()):
            entry = {"kind": kind, **rows.place(row)}
            if others is not None:
                entry["like"] = rows.place(int(others[place]))
            self.listed.append(entry)


class PassageCheck:
    """Finds passages that stand in several files, whatever is asked about them."""

    def __init__(self) -> None:
        self.parts: dict[str, set[int]] = {}
        self.found: dict[tuple[str, str], Places] = {}

    def add(self, part: str, example: Any) -> None:
        """Look for the passage of an example in the files before."""
        passage = getattr(example, "passage", None)
        if passage is None:
            return
        own = folded_hash(passage)
        self.parts.setdefault(part, set()).add(own)
        for other, seen in self.parts.items():
            if other != part and own in seen:
                self.found.setdefault((other, part), Places()).add(part, example.line)

    def findings(self) -> Iterator[Finding]:
        """Yield the rows whose passage was read in training."""
        for (first, second), places in self.found.items():
            yield Finding(
                severity="warning",
                check="leak: passages",
                said=f"{rows_are(places.count, second)} about a passage of {first}",
                remedy=f"scores on {second} flatter; keep all about a passage in one file",
                places=places,
            )


@dataclass(frozen=True)
class _Rows:
    """What is known of all examples, in their order."""

    parts: list[str]
    part: np.ndarray
    line: np.ndarray
    text: np.ndarray  # hash of all that is read
    gold: np.ndarray  # hash of what is sought
    same: np.ndarray  # hash of what near copies must have in common

    def place(self, row: int) -> dict[str, Any]:
        return {"file": self.parts[int(self.part[row])], "line": int(self.line[row])}

    def meetings(self, pairs: np.ndarray) -> np.ndarray:
        """Return a number for each pair, by its later row and the file of its earlier one."""
        return pairs[:, 1] * len(self.parts) + self.part[pairs[:, 0]].astype(np.int64)

    def places(self, rows: np.ndarray) -> Places:
        found = Places()
        for row in rows.tolist():
            found.add(self.parts[int(self.part[row])], int(self.line[row]))
        return found


class _Signatures:
    """The signatures of texts, in blocks."""

    def __init__(self) -> None:
        self.minhash = MinHash(NUM_PERMUTATIONS, shingle_words=SHINGLE_WORDS)
        self.blocks: list[np.ndarray] = []
        self.waiting: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        """Take the signature of the next text, soon."""
        self.waiting.append(text)
        self.size += len(text)
        if len(self.waiting) == BLOCK or self.size > MOST_WAITING:
            self._sign()

    def all(self) -> np.ndarray:
        """Return all signatures, [N, P]."""
        self._sign()
        return np.concatenate([np.empty((0, NUM_PERMUTATIONS), np.uint16), *self.blocks])

    def _sign(self) -> None:
        self.blocks.append(self.minhash.signatures(self.waiting))
        self.waiting, self.size = [], 0


def _exact_pairs(rows: _Rows) -> np.ndarray:
    """Return every row with the first row of the same text, in its file and in each before it."""
    return _unique_pairs([_neighbors(rows.text, rows.part)])


def _near_pairs(rows: _Rows, signatures: np.ndarray, similarity: float) -> np.ndarray:
    """Return rows with earlier ones that are like them but not the same, [M, 2]."""
    found = []
    for band in range(NUM_BANDS):
        keys = mix(rows.same + np.uint64(band))
        for place in range(band * ROWS_OF_BAND, (band + 1) * ROWS_OF_BAND):
            keys = mix(keys + signatures[:, place])
        pairs = _neighbors(keys, rows.part)
        pairs = pairs[rows.text[pairs[:, 0]] != rows.text[pairs[:, 1]]]
        found.append(pairs[_likeness(signatures, pairs) >= similarity])
    return _unique_pairs(found)


def _likeness(signatures: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    chunks = np.split(pairs, range(BLOCK, len(pairs), BLOCK))
    return np.concatenate(
        [(signatures[own[:, 0]] == signatures[own[:, 1]]).mean(axis=1) for own in chunks]
    )


def _neighbors(keys: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return each row with others of the same key: the one before it, and the first of each file.

    Rows lie file after file, so the rows of a key do so too.
    """
    order = np.argsort(keys, kind="stable")
    begins = np.ones(len(order), bool)
    begins[1:] = keys[order][1:] != keys[order][:-1]
    group = np.cumsum(begins) - 1
    enters = begins.copy()  # where the first row of a file in its group is
    enters[1:] |= part[order][1:] != part[order][:-1]
    places = np.flatnonzero(enters)
    firsts = np.searchsorted(places, np.arange(len(order)), side="right") - 1
    pairs = [np.column_stack((order[:-1], order[1:]))[~begins[1:]]]
    for back in range(int(part.max(initial=0)) + 1):
        other = places[np.maximum(firsts - back, 0)]
        is_same = (group[other] == group) & (other < np.arange(len(order)))
        pairs.append(np.column_stack((order[other], order))[is_same])
    return np.concatenate(pairs)


def _unique_pairs(found: list[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate([np.empty((0, 2), np.int64), *found]), axis=0)
