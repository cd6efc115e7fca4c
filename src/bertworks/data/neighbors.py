"""How often pieces stand near each other in a corpus: what their vectors can begin with.

Legend: V pieces of the vocabulary, F of them frequent, T tokens.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from bertworks.core.progress import progress
from bertworks.data.shards import Shards

REACH = 5  # pieces to each side
MOST_CELLS = 1 << 26  # of the table; what is left of them beside all pieces, frequent ones get
FEWEST_COLUMNS = 1024  # however many pieces there are, as many as vectors are wide
MOST_TOKENS = 100_000_000  # counted, in stretches all over the corpus
AT_ONCE = 1 << 22  # tokens of a stretch, unless a document is longer


def count_neighbors(shards: Shards, *, device: torch.device) -> Tensor:
    """Return how often each piece stands near each of the most frequent ones, [V, F].

    Documents that are held out are not counted, and no piece is near one of another document.
    """
    stretches, num_pieces = _stretches(shards), shards.vocab_size
    totals = _totals(shards, stretches)
    frequent = _frequent(totals)
    counts = torch.zeros(num_pieces, len(frequent) + 1, dtype=torch.int32, device=device)
    columns = np.full(num_pieces, len(frequent))  # the last one, which nobody reads
    columns[frequent] = np.arange(len(frequent))
    column_of = torch.from_numpy(columns).to(device)
    with progress("counting neighbors", total=int(totals.sum()), unit="tokens") as meter:
        for stretch in stretches:
            pieces, documents = (
                torch.from_numpy(found).to(device) for found in _learned(shards, stretch)
            )
            cells = _cells(pieces, documents, column_of, width=counts.shape[1])
            counts += cells.bincount(minlength=counts.numel()).view_as(counts)
            meter.advance(len(pieces))
    return counts[:, :-1]


def _cells(pieces: Tensor, documents: Tensor, column_of: Tensor, *, width: int) -> Tensor:
    """Return for every two places within reach the cell of the table that counts them.

    Places of two documents, and those beyond the end, are counted where nobody reads.
    """
    cells = pieces.new_full((REACH, 2, len(pieces)), width - 1)
    for distance in range(1, min(REACH, len(pieces) - 1) + 1):
        left, right = pieces[:-distance], pieces[distance:]
        is_apart = documents[:-distance] != documents[distance:]
        for own, (piece, near) in zip(
            cells[distance - 1, :, distance:], ((left, right), (right, left)), strict=True
        ):
            torch.add(piece * width, column_of[near], out=own).masked_fill_(is_apart, width - 1)
    return cells.flatten()


def _totals(shards: Shards, stretches: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return how often each piece comes, [V]."""
    totals = np.zeros(shards.vocab_size, dtype=np.int64)
    for stretch in stretches:
        totals += np.bincount(_learned(shards, stretch)[0], minlength=len(totals))
    return totals


def _frequent(totals: np.ndarray) -> np.ndarray:
    """Return the pieces that come most often, as many as the table has room for."""
    room = max(MOST_CELLS // len(totals), FEWEST_COLUMNS)
    by_count = np.argsort(-totals, kind="stable")[:room]
    return by_count[totals[by_count] > 0]


def _learned(shards: Shards, stretch: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the pieces of a stretch of documents, and whose they are, but for held-out ones."""
    first, last = stretch
    bounds = shards.sentence_starts[shards.document_starts[first : last + 1]]
    numbers = np.repeat(np.arange(first, last), np.diff(bounds))
    is_learned = ~shards.is_held_out[numbers]
    pieces = shards.tokens(bounds[0], bounds[-1])[is_learned]
    return pieces.astype(np.int64), numbers[is_learned]


def _stretches(shards: Shards) -> list[tuple[int, int]]:
    """Return where stretches of documents begin and end; of a large corpus, some of them."""
    bounds = shards.sentence_starts[shards.document_starts]
    found = []
    for part in pairwise(np.searchsorted(bounds, shards.part_starts)):
        first, end = map(int, part)
        while first < end:
            reached = int(np.searchsorted(bounds, bounds[first] + AT_ONCE, side="right")) - 1
            last = min(max(reached, first + 1), end)
            found.append((first, last))
            first = last
    return found[:: max(1, -(-shards.num_tokens // MOST_TOKENS))]
