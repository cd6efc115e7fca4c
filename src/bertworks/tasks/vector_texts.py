"""How texts are read to become vectors: behind a prompt, up to a cut, in windows.

Whatever makes a vector of a text reads it here, so that it is the same one everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertworks.data.packing import Features, join_pieces
from bertworks.data.windows import cut_text
from bertworks.model.embedding import EmbeddingRecipe
from bertworks.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class ReadText:
    """A text behind its prompt, cut into the windows that the network reads."""

    windows: tuple[Features, ...]
    skipped: int = 0  # tokens of the prompt that are not pooled
    is_cut: bool = False  # it goes on behind what is read of it

    @property
    def num_tokens(self) -> int:
        """What it costs to read, special pieces counted."""
        return sum(len(window.tokens) for window in self.windows)


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
        skipped = 0
        if prefix and not self.recipe.pools_prompt:
            skipped = len(self.tokenizer.ids_of([prefix])[0]) + 1
        found = []
        for ids in self.tokenizer.ids_of([prefix + text for text in texts]):
            pieces = np.array(ids, dtype=np.int64)
            kept = pieces if self.cut is None else pieces[: self.cut - added]
            parts = cut_text(kept, room=self.window - added)
            windows = tuple(Features(*join_pieces(part, None, specials)) for part in parts)
            found.append(ReadText(windows, skipped, len(kept) < len(pieces)))
        return found
