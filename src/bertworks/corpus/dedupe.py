"""Duplicates: exact copies by a hash of the text, near ones by MinHash and banding.

Of documents that are alike the first is kept, and only kept ones are compared with. A signature is
cut into bands; who shares a band with kept documents is compared with the first few of them by the
whole signature.

On disk a kept document takes 8 bytes for its hash and 2 for each permutation. Memory holds the
table of hashes and bands only: at most 310 bytes a kept document with near duplicates, 35 without.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from bertworks.corpus.minhash import MinHash, likeness, mix

Verdict = Literal["kept", "exact duplicate", "near duplicate"]

NUM_BANDS = 8
MOST_MISSED = 0.05  # of the pairs right at the threshold, by chance that no band agrees
FULLEST = 0.7  # share of the table's places in use before it grows
LEAST_PLACES = 2**12
MOST_OWNERS = 8  # of a key, that are compared with: those who came first
BLOCK = 65_536  # documents whose keys are put into a new table at once


@dataclass(frozen=True)
class Fingerprints:
    """What is known of some documents to find their duplicates."""

    hashes: np.ndarray  # [N] uint64, of the folded text
    signatures: np.ndarray  # [N, P] uint16; no permutations where near duplicates may stay


class Fingerprinter:
    """Takes the fingerprints of texts, in whatever process."""

    def __init__(self, num_permutations: int) -> None:
        self.num_permutations = num_permutations
        self.minhash = MinHash(num_permutations)

    def take(self, texts: list[str]) -> Fingerprints:
        """Return the fingerprints of texts."""
        hashes = np.array([folded_hash(text) for text in texts], np.uint64)
        signatures = np.zeros((len(texts), self.num_permutations), np.uint16)
        if self.num_permutations:
            for row, text in enumerate(texts):
                signatures[row] = self.minhash.signature(text)
        return Fingerprints(hashes, signatures)


class Duplicates:
    """The documents that were kept so far, in a folder of files that only grow."""

    def __init__(self, folder: Path, *, similarity: float, num_permutations: int) -> None:
        self.similarity = similarity
        self.num_rows = _rows(similarity, num_permutations)
        self.num_permutations = num_permutations
        self.hashes = folder / "hashes.bin"
        self.signatures = folder / "signatures.bin"
        for file in (self.hashes, self.signatures):
            file.touch()
        self.num_kept = self.hashes.stat().st_size // 8
        self._build_table()

    def judge(self, prints: Fingerprints) -> list[Verdict]:
        """Tell which of some documents are kept, in order; those that are join the others."""
        keys = self._keys(prints)
        known = self.table.find(keys.ravel())
        batch = _Batch(prints.signatures, self.num_kept, known, {}, [])
        verdicts: list[Verdict] = []
        for row, its_keys in enumerate(keys.tolist()):
            first = row * self.num_keys
            owners = [batch.owners_of(key, first + place) for place, key in enumerate(its_keys)]
            verdicts.append(self._verdict(owners, row, batch))
            if verdicts[-1] == "kept":
                batch.keep(row, its_keys)
        self._append(prints, batch.rows)
        return verdicts

    def _verdict(self, owners: list[list[int]], row: int, batch: "_Batch") -> Verdict:
        if owners[0]:
            return "exact duplicate"
        alike = sorted(set(chain.from_iterable(owners)))
        if not alike:
            return "kept"
        is_near = likeness(batch.signatures[row], self._signatures(alike, batch)) >= self.similarity
        return "near duplicate" if is_near.any() else "kept"

    def _signatures(self, numbers: list[int], batch: "_Batch") -> np.ndarray:
        """Return the signatures of kept documents, [N, P]."""
        size = 2 * self.num_permutations
        with self.signatures.open("rb") as file:
            stored = [os.pread(file.fileno(), size, n * size) for n in numbers if n < batch.first]
        rows = [batch.rows[number - batch.first] for number in numbers if number >= batch.first]
        known = np.frombuffer(b"".join(stored), np.uint16).reshape(-1, self.num_permutations)
        return np.concatenate([known, batch.signatures[rows]])

    def _append(self, prints: Fingerprints, rows: list[int]) -> None:
        kept = Fingerprints(prints.hashes[rows], prints.signatures[rows])
        with self.hashes.open("ab") as hashes, self.signatures.open("ab") as signatures:
            hashes.write(kept.hashes.tobytes())
            signatures.write(kept.signatures.tobytes())
        first, self.num_kept = self.num_kept, self.num_kept + len(rows)
        if self.num_kept * self.num_keys > FULLEST * len(self.table.keys):
            self._build_table()
        else:
            self._own(kept, first)

    @property
    def num_keys(self) -> int:
        """How many keys a document has in the table."""
        return 1 + (NUM_BANDS if self.num_permutations else 0)

    def _build_table(self) -> None:
        """Make a table with room to grow from what lies on the disk; the old one goes first."""
        self.table = _Table(0)
        self.table = _Table(self.num_kept * self.num_keys)
        for first, prints in self._stored():
            self._own(prints, first)

    def _stored(self) -> Iterator[tuple[int, Fingerprints]]:
        with self.hashes.open("rb") as hashes, self.signatures.open("rb") as signatures:
            for first in range(0, self.num_kept, BLOCK):
                rows = np.frombuffer(hashes.read(8 * BLOCK), np.uint64)
                places = signatures.read(2 * self.num_permutations * len(rows))
                shape = (len(rows), self.num_permutations)
                yield first, Fingerprints(rows, np.frombuffer(places, np.uint16).reshape(shape))

    def _own(self, prints: Fingerprints, first: int) -> None:
        keys = self._keys(prints)
        owners = np.arange(first, first + len(keys), dtype=np.uint32)
        self.table.insert(keys.ravel(), np.repeat(owners, keys.shape[1]))

    def _keys(self, prints: Fingerprints) -> np.ndarray:
        """Return the keys of documents: the hash of each and those of its bands, [N, 1 + bands]."""
        columns = [mix(prints.hashes)]
        if self.num_permutations:
            used = prints.signatures[:, : NUM_BANDS * self.num_rows].astype(np.uint64)
            for number in range(NUM_BANDS):
                key = np.full(len(used), number + 1, np.uint64)
                for place in range(number * self.num_rows, (number + 1) * self.num_rows):
                    key = mix(key + used[:, place])
                columns.append(key)
        return np.column_stack(columns)


@dataclass
class _Batch:
    """The documents that are judged together, and which of them were kept."""

    signatures: np.ndarray
    first: int  # number of the first that is kept
    known: dict[int, list[int]]  # owners from before, by the place of the key among all
    owners: dict[int, list[int]]  # by key
    rows: list[int]

    def owners_of(self, key: int, place: int) -> list[int]:
        known = self.known.get(place, [])
        return (known + self.owners.get(key, []))[:MOST_OWNERS]

    def keep(self, row: int, keys: list[int]) -> None:
        for key in keys:
            self.owners.setdefault(key, []).append(self.first + len(self.rows))
        self.rows.append(row)


class _Table:
    """A hash table in two arrays: whose keys these are, the first owners of each in their order."""

    def __init__(self, num_keys: int) -> None:
        places = LEAST_PLACES
        while num_keys > FULLEST * places:
            places *= 2
        self.keys = np.zeros(places, np.uint64)
        self.owners = np.zeros(places, np.uint32)  # counted from one; zero: free
        self.last = np.uint64(places - 1)

    def find(self, keys: np.ndarray) -> dict[int, list[int]]:
        """Return the owners of those keys that have some, by the places of the keys."""
        found: dict[int, list[int]] = {}
        open_keys, places = np.arange(len(keys)), keys & self.last
        while len(open_keys):
            at = places[open_keys]
            is_same = self._has(at, keys[open_keys])
            owners = self.owners[at[is_same]].astype(np.int64) - 1
            for key, owner in zip(open_keys[is_same].tolist(), owners.tolist(), strict=True):
                found.setdefault(key, []).append(owner)
            open_keys = open_keys[self.owners[at] > 0]
            places[open_keys] = (places[open_keys] + np.uint64(1)) & self.last
        return found

    def insert(self, keys: np.ndarray, owners: np.ndarray) -> None:
        """Give keys to owners, first come, first served, and no key to too many."""
        order = np.argsort(keys, kind="stable")
        starts = np.searchsorted(keys[order], keys[order])
        nth = np.arange(len(order)) - starts  # owner of the key among those at hand
        for number in range(MOST_OWNERS):
            self._insert_unlike(keys[order[nth == number]], owners[order[nth == number]])

    def _insert_unlike(self, keys: np.ndarray, owners: np.ndarray) -> None:
        """Give keys to one more owner each, where there are not too many."""
        waiting, places = np.arange(len(keys)), keys & self.last
        num_before = np.zeros(len(keys), np.int64)
        while len(waiting):
            at = places[waiting]
            num_before[waiting] += self._has(at, keys[waiting])
            free = waiting[self.owners[at] == 0]
            _, chosen = np.unique(places[free], return_index=True)
            winners = free[chosen]
            self.keys[places[winners]] = keys[winners]
            self.owners[places[winners]] = owners[winners] + np.uint32(1)
            waiting = np.setdiff1d(waiting, winners, assume_unique=True)
            waiting = waiting[num_before[waiting] < MOST_OWNERS]
            places[waiting] = (places[waiting] + np.uint64(1)) & self.last

    def _has(self, places: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Tell which places hold these keys."""
        return (self.keys[places] == keys) & (self.owners[places] > 0)


def folded_hash(text: str) -> int:
    """Return a 64-bit hash of a text in which case and white space do not count."""
    folded = " ".join(text.casefold().split())
    return int.from_bytes(hashlib.blake2b(folded.encode(), digest_size=8).digest(), "little")


def _rows(similarity: float, num_permutations: int) -> int:
    """Return the most rows of a band with which pairs at the threshold are rarely missed."""
    if not num_permutations:
        return 0
    least = 1 - MOST_MISSED ** (1 / NUM_BANDS)  # share of pairs that must agree in a given band
    wanted = math.log(least) / math.log(similarity) if similarity < 1 else math.inf
    return int(max(1, min(wanted, num_permutations // NUM_BANDS)))
