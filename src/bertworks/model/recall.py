"""What layers remember of texts while more of them, or answers to them, are written.

Legend: N texts, R answers that are being written, H attention heads, K head size.
"""

import torch
from torch import Tensor
from torch.nn import functional

from bertworks.core.batch import Layout
from bertworks.model.positions import Turn, rotate

FIRST_COLUMNS = 32  # that a still page has; when they are full it has twice as many
ALIGNED = 8  # to how many columns kernels of masked attention want a page rounded


class Page:
    """How far texts have come of which a token each is written at a time, for all layers alike.

    Texts end in the same column, so that their next tokens stand in one; short ones begin later.
    A page that is still counts on the device, and has columns to spare: what a step computes then
    hangs on nothing that the host knows, so that it can be recorded (see replay.py).
    """

    def __init__(self, *, room: int, still_on: torch.device | None = None) -> None:
        self.room = room  # how many tokens may be written
        self.length = 0  # columns that are written
        self.turn: Turn | None = None  # of the tokens that are written next
        self.seen: Tensor | None = None  # [N, 1, 1, columns] what those may look at; None: all
        # [1] the column that is written next, if the page is still
        self.column = (
            None if still_on is None else torch.zeros(1, dtype=torch.long, device=still_on)
        )
        self.num_columns = self._with_memory(0)
        self._is_text: Tensor | None = None  # [N, 1, 1, length + room]; None: every column is

    @property
    def is_full(self) -> bool:
        """Whether the next token needs memory that there is not."""
        return self.length == self.num_columns

    def begin(self, layout: Layout) -> None:
        """Let texts that were read at once fill the first columns."""
        if self.length:
            return  # as another layer said
        self.length = layout.longest
        self.num_columns = self._with_memory(self.length)
        if self.column is not None:
            self.column.fill_(self.length)
        if len(set(layout.lengths)) > 1:
            lengths = torch.tensor(layout.lengths, device=layout.starts.device)
            columns = torch.arange(self.length + 2 * self.room + ALIGNED, device=lengths.device)
            self._is_text = (columns >= self.length - lengths[:, None])[:, None, None]

    def open(self, tokens: Tensor) -> Tensor:
        """Return the column in which each token is written next, [R]; say what it may look at."""
        if self.column is None:
            if self._is_text is not None:
                self.seen = self._is_text[..., : self.length + 1]
            return torch.full_like(tokens, self.length)
        columns = torch.arange(self.num_columns, device=tokens.device)
        self.seen = (columns <= self.column)[None, None, None]
        if self._is_text is not None:
            self.seen = self.seen & self._is_text[..., : self.num_columns]
        return self.column.expand(len(tokens))

    def close(self) -> None:
        """Go on with the next column."""
        self.length += 1
        if self.column is not None:
            self.column += 1

    def widen(self) -> None:
        """Have more columns to write in."""
        self.num_columns = self._with_memory(self.num_columns)

    def keep(self, texts: Tensor) -> None:
        """Go on with these texts, of which one may be there several times."""
        if self._is_text is not None:
            self._is_text = self._is_text[texts]

    def _with_memory(self, used: int) -> int:
        """Return for how many columns there is memory where some are used."""
        if self.column is None:
            return used + self.room
        wanted = used + min(max(used, FIRST_COLUMNS), self.room)
        return -(-wanted // ALIGNED) * ALIGNED


class Recall:
    """The keys and values of one layer, of all columns of a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.kv = torch.empty(0)  # [2, N, H, columns, K]

    @property
    def num_texts(self) -> int:
        """The number of texts."""
        return self.kv.shape[1]

    def begin(self, k: Tensor, v: Tensor, layout: Layout) -> None:
        """Remember texts that were read at once, [T, H, K]."""
        self.page.begin(layout)
        lengths = torch.tensor(layout.lengths, device=k.device)
        columns = torch.arange(self.page.num_columns, device=k.device)
        first, end = self.page.length - lengths[:, None], self.page.length
        is_read = (columns >= first) & (columns < end)  # [N, columns]
        whole = k.new_zeros(2, *is_read.shape, *k.shape[1:])
        whole[:, is_read] = torch.stack([k, v])
        self.kv = whole.transpose(2, 3)

    def attend(self, qkv: Tensor) -> Tensor:
        """Remember one more token of each text and let it look back, [N, 3, H, K] -> [N, H, K]."""
        page, (q, k, v) = self.page, qkv.unbind(1)
        if page.turn is not None:
            q, k = rotate(q, page.turn.by_token), rotate(k, page.turn.by_token)
        if not page.length:
            # Not empty: what is hidden counts nothing only if it is a number.
            self.kv = k.new_zeros(2, len(k), k.shape[1], page.num_columns, k.shape[2])
        if page.column is not None:
            keys, values = self.kv.index_copy_(3, page.column, torch.stack([k, v]).unsqueeze(3))
        else:
            self.kv[0, :, :, page.length], self.kv[1, :, :, page.length] = k, v
            keys, values = self.kv[..., : page.length + 1, :]
        seen = functional.scaled_dot_product_attention(
            q.unsqueeze(2), keys, values, attn_mask=page.seen
        )
        return seen.squeeze(2)

    def keep(self, texts: Tensor, *, spare: Tensor | None = None) -> Tensor:
        """Go on with these texts, of which one may be there several times.

        They are put into spare memory where it fits; what held them is returned, to be spare next.
        """
        kept = self.kv
        fits = spare is not None and spare.shape == (2, len(texts), *kept.shape[2:])
        self.kv = torch.index_select(kept, 1, texts, out=spare if fits else None)
        return kept

    def reorder(self, texts: Tensor) -> None:
        """Put as many texts where the memory of the others lies."""
        self.kv.copy_(self.kv.index_select(1, texts))

    def widen(self) -> None:
        """Have memory for all columns of the page."""
        new = self.page.num_columns - self.kv.shape[3]
        self.kv = functional.pad(self.kv, (0, 0, 0, new))


class Memory:
    """What a layer knows of texts that were read while answers to them are written.

    Of each text the same number of answers is being written; they stand together.
    """

    def __init__(self, kv: Tensor, layout: Layout) -> None:
        lengths = torch.tensor(layout.lengths, device=kv.device)
        is_text = torch.arange(layout.longest, device=kv.device) < lengths[:, None]  # [N, longest]
        whole = kv.new_zeros(*is_text.shape, *kv.shape[1:])
        whole[is_text] = kv
        self.kv = whole.permute(2, 0, 3, 1, 4)  # [2, N, H, longest, K] keys and values
        self.is_text = is_text[:, None, None] if len(set(layout.lengths)) > 1 else None

    def attend(self, q: Tensor, *, dropout: float = 0.0) -> Tensor:
        """Let the newest token of every answer look at its text, [R, H, K] -> [R, H, K]."""
        queries = q.unflatten(0, (self.kv.shape[1], -1)).transpose(1, 2)  # [N, H, answers, K]
        keys, values = self.kv
        seen = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=self.is_text, dropout_p=dropout
        )
        return seen.transpose(1, 2).flatten(0, 1)

    def keep(self, texts: Tensor) -> None:
        """Go on with these texts only."""
        self.kv = self.kv.index_select(1, texts)
        self.is_text = None if self.is_text is None else self.is_text[texts]
