"""How often pieces stand near each other in a corpus: what their vectors can begin with."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from bertworks.core.progress import progress
from bertworks.data.shards import Shards

REACH = 5  # pieces to each side
MOST_CELLS = 1 << 26  # of the table; what is left of them beside all pieces, frequent ones get
MOST_TOKENS = 100_000_000  # counted, spread over the corpus
AT_ONCE = 1 << 23  # tokens
NOTHING = -1


def count_neighbors(shards: Shards, *, device: torch.device) -> Tensor:
    """Return how often each piece stands near each of the most frequent ones, [V, F].

    Documents that are held out are not counted, and no piece is near one of another document.
    """
    num_pieces, frequent = shards.vocab_size, _frequent(shards)
    counts = torch.zeros(num_pieces + 1, len(frequent) + 1, dtype=torch.int32, device=device)
    columns = np.full(num_pieces + 1, len(frequent))  # the last of all, where nothing is counted
    columns[frequent] = np.arange(len(frequent))
    column_of = torch.from_numpy(columns).to(device)
    with progress("counting neighbors", total=_num_counted(shards), unit="tokens") as meter:
        for stretch in _stretches(shards):
            pieces = torch.from_numpy(stretch).to(device)
            pairs = [
                (piece, near)
                for distance in range(1, REACH + 1)
                for left, right in [(pieces[:-distance], pieces[distance:])]
                for piece, near in ((left, right), (right, left))
            ]
            cells = torch.cat([piece * counts.shape[1] + column_of[near] for piece, near in pairs])
            counts += cells.bincount(minlength=counts.numel()).view_as(counts)
            meter.advance(int((stretch != num_pieces).sum()))
    return counts[:-1, :-1]


def _frequent(shards: Shards) -> np.ndarray:
    """Return the pieces that come most often, as many as the table has room for."""
    num_pieces = shards.vocab_size
    totals = np.zeros(num_pieces + 1, dtype=np.int64)
    for stretch in _stretches(shards):
        totals += np.bincount(stretch, minlength=num_pieces + 1)
    by_count = np.argsort(-totals[:-1], kind="stable")[: MOST_CELLS // num_pieces]
    return by_count[totals[by_count] > 0]


def _stretches(shards: Shards) -> Iterator[np.ndarray]:
    """Yield documents end to end, with a gap behind each that no neighbors reach over."""
    gap = np.full(REACH, shards.vocab_size)
    found: list[np.ndarray] = []
    size = 0
    for start, end in _spans(shards):
        for first in range(start, end, AT_ONCE):
            found += [shards.tokens(first, min(first + AT_ONCE, end)).astype(np.int64), gap]
            size += len(found[-2])
            if size >= AT_ONCE:
                yield np.concatenate(found)
                found, size = [], 0
    if found:
        yield np.concatenate(found)


def _spans(shards: Shards) -> np.ndarray:
    """Return where the documents lie that are learned from, or of many the first of each few."""
    bounds = shards.sentence_starts[shards.document_starts]
    spans = np.stack([bounds[:-1], bounds[1:]], axis=1)[~shards.is_held_out]
    num_tokens = int((spans[:, 1] - spans[:, 0]).sum())
    return spans[:: max(1, -(-num_tokens // MOST_TOKENS))]


def _num_counted(shards: Shards) -> int:
    spans = _spans(shards)
    return int((spans[:, 1] - spans[:, 0]).sum())
