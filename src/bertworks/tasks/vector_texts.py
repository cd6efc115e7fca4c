"""How texts are read to become vectors: behind a prompt, up to a cut, in windows.

Whatever makes a vector of a text reads it here, so that it is the same one everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from bertworks.data.packing import Features, join_pieces
from bertworks.data.windows import cut_spans
from bertworks.model.embedding import EmbeddingRecipe, VectorPooling
from bertworks.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class ReadText:
    """A text behind its prompt, cut into the windows that the network reads."""

    windows: tuple[Features, ...]
    skipped: tuple[int, ...]  # of each window: first tokens, of the prompt, that are not pooled
    is_cut: bool = False  # it goes on behind what is read of it

    @property
    def num_tokens(self) -> int:
        """What it costs to read, special pieces counted."""
        return sum(len(window.tokens) for window in self.windows)

    @property
    def before(self) -> list[int]:
        """How many tokens stand in the windows before each."""
        return list(accumulate((len(window.tokens) for window in self.windows[:-1]), initial=0))

    def shares(self, pooling: VectorPooling) -> list[float]:
        """Return how much the vector of each window adds to that of the text, but for `max`.

        The sum is what pooling all windows as one text would give, but for `first`, which takes
        the first tokens of all windows evenly.
        """
        lengths = [len(window.tokens) for window in self.windows]
        skips = [min(pair) for pair in zip(self.skipped, (n - 1 for n in lengths), strict=True)]
        counts = [length - own for length, own in zip(lengths, skips, strict=True)]
        match pooling:
            case "last":
                return [0.0] * (len(counts) - 1) + [1.0]
            case "sqrt":
                return [(count / sum(counts)) ** 0.5 for count in counts]
            case "mean":
                return [count / sum(counts) for count in counts]
            case "weighted":  # token n counts n times: by the mean place of those that are pooled
                starts = zip(counts, self.before, skips, strict=True)
                sums = [n * (start + own + (n + 1) / 2) for n, start, own in starts]
                return [own / sum(sums) for own in sums]
        return [1 / len(counts)] * len(counts)


@dataclass(frozen=True)
class VectorReader:
    """What reads texts as a recipe says, up to so many pieces, in windows; special ones counted."""

    tokenizer: Tokenizer
    recipe: EmbeddingRecipe
    cut: int | None  # None: all of a text
    window: int

    def read(self, texts: Sequence[str], prompt: str | None = None) -> list[ReadText]:
        """Read texts behind a prompt, which is given as recipes know it."""
        specials = self.tokenizer.specials
        added, prefix = specials.num_added(pair=False), self.recipe.prompt_text(prompt)
        num_prompt = 0  # pieces that are not pooled
        if prefix and not self.recipe.pools_prompt:
            num_prompt = len(self.tokenizer.ids_of([prefix])[0])
        found = []
        for ids in self.tokenizer.ids_of([prefix + text for text in texts]):
            pieces = np.array(ids, dtype=np.int64)
            kept = pieces if self.cut is None else pieces[: self.cut - added]
            spans = cut_spans(len(kept), room=self.window - added)
            windows = tuple(
                Features(*join_pieces(kept[start:end], None, specials)) for start, end in spans
            )
            # What is left of a prompt in a window has the first special piece before it.
            lefts = [num_prompt - start for start, _ in spans]
            skipped = tuple(left + 1 if left > 0 else 0 for left in lefts)
            found.append(ReadText(windows, skipped, len(kept) < len(pieces)))
        return found
