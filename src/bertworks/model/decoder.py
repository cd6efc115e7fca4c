"""The decoder: texts written in answer to others, from the parts of the encoder.

Legend: T tokens that are written, S tokens that are read, N texts that are read, R answers that are
being written, D hidden, H attention heads, K head size, V pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor, nn

from bertworks.core.batch import Batch, Layout
from bertworks.core.errors import UsageError
from bertworks.model.attention import Across, Sight
from bertworks.model.config import EncoderConfig, Learned, Rotary, Waves
from bertworks.model.encoder import Block, Embeddings, Encoder, make_norm, norm_after
from bertworks.model.fused import Norm, pack
from bertworks.model.heads import PieceHead
from bertworks.model.positions import Turn, turn_at
from bertworks.model.recall import Memory, Page, Recall
from bertworks.model.replay import Replayed, replayed, still_place

Shares = Literal["nothing", "embeddings", "all"]


class Decoder(nn.Module):
    """Says what follows each token of an answer, from what was read and what was written before.

    For what it shares with the encoder it has no weights.
    """

    def __init__(
        self,
        config: EncoderConfig,
        *,
        target: str,
        num_layers: int | None = None,
        shares: Shares = "nothing",
    ) -> None:
        super().__init__()
        refuse_odd(config)
        _refuse_other_layers(config, num_layers, shares)
        self.config = config = replace(config, num_layers=num_layers or config.num_layers)
        self.embeddings = Embeddings(config) if shares == "nothing" else None
        is_own = shares != "all"
        self.blocks = nn.ModuleList(Block(config, n) for n in config.layers) if is_own else None
        self.readings = nn.ModuleList(Reading(config) for _ in config.layers)
        self.norm = make_norm(config) if config.norm_place == "before" else nn.Identity()
        self.output = PieceHead(config, target=target)

    def forward(self, read: Tensor, batch: Batch, encoder: Encoder) -> Tensor:
        """Return logits over the vocabulary behind each token of the replies, [S, D] -> [T, V]."""
        replies = batch.replies
        assert replies is not None  # the task writes them
        turn = turn_at(self.config, replies.positions, replies.layout.longest)
        sight = Sight(replies.layout, turn=turn, is_causal=True)
        memories = [
            Across(reading.keys_and_values(read), replies.layout, batch.layout)
            for reading in self.layers
        ]
        embeddings = self.embeddings_of(encoder)
        hidden = self.write(embeddings(replies), [sight] * len(memories), memories, encoder)
        return self.output.logits(hidden, embeddings.pieces.weight)

    def write(
        self,
        residual: Tensor,
        sights: Sequence[Sight | Recall],
        memories: Sequence[Across | Memory],
        encoder: Encoder,
    ) -> Tensor:
        """Return the last layer's vectors of tokens that enter the first block, [T, D]."""
        blocks = cast(list[Block], list(encoder.blocks if self.blocks is None else self.blocks))
        hidden = blocks[0].entrance(residual)
        for layer, block in enumerate(blocks):
            reader = Reader(self.layers[layer], memories[layer])
            last = norm_after(blocks, layer, last=self.norm)
            residual, hidden = block(residual, hidden, sights[layer], last=last, reader=reader)
        return hidden

    def begin(
        self, read: Tensor, layout: Layout, encoder: Encoder, *, room: int
    ) -> "Draft | Replayed[Draft]":
        """Begin to write answers of up to so many tokens to texts that were read, [S, D]."""
        most = self.config.max_positions
        if isinstance(self.config.positions, Learned) and room > most:
            raise UsageError(
                f"answers of {room} pieces are asked for, but the network knows {most} places; "
                "lower --longest-reply"
            )
        still_on = still_place(read.device)
        return replayed(Draft(self, encoder, read, layout, room=room, still_on=still_on))

    def embeddings_of(self, encoder: Encoder) -> Embeddings:
        """Return the embeddings of what is written: its own, or those it shares."""
        return encoder.embeddings if self.embeddings is None else self.embeddings

    @property
    def layers(self) -> list["Reading"]:
        """The readings of the layers, in order."""
        return [cast(Reading, reading) for reading in self.readings]


class Reading(nn.Module):
    """Multi-head attention of what is written to what was read, and the norm that goes with it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.num_heads = config.num_heads
        self.dropout = config.attention_dropout
        self.query = nn.Linear(size, size, bias=config.biases)
        self.kv = nn.Linear(size, 2 * size, bias=config.biases)
        self.output = nn.Linear(size, size, bias=config.biases)
        self.norm = make_norm(config)

    def keys_and_values(self, read: Tensor) -> Tensor:
        """Return what can be looked at, [S, D] -> [S, 2, H, K]."""
        return self.kv(read).unflatten(-1, (2, self.num_heads, -1))

    def forward(self, hidden: Tensor, memory: Across | Memory) -> Tensor:
        """Return what each token gathered from the text that was read, [T, D] -> [T, D]."""
        q = self.query(hidden).unflatten(-1, (self.num_heads, -1))
        gathered = memory.attend(q, dropout=self.dropout if self.training else 0.0)
        return self.output(gathered.flatten(1))


@dataclass(frozen=True)
class Reader:
    """The reading of one layer with what it reads."""

    reading: Reading
    memory: Across | Memory

    @property
    def norm(self) -> Norm:
        """The norm that goes with it."""
        return self.reading.norm

    def read(self, hidden: Tensor) -> Tensor:
        """Return what each token gathered from the text that was read, [T, D] -> [T, D]."""
        return self.reading(hidden, self.memory)


class Writing:
    """Answers that are being written, a token of each at a time; nothing is computed twice."""

    def __init__(self, num_layers: int, *, room: int, still_on: torch.device | None) -> None:
        self.page = Page(room=room, still_on=still_on)
        self.recalls = [Recall(self.page) for _ in range(num_layers)]
        self._spare: Tensor | None = None  # memory of answers that were left behind

    @property
    def num_answers(self) -> int:
        """How many there are."""
        return self.recalls[0].num_texts

    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        """Go on with these answers; and where some texts are done, with those of others only."""
        del texts  # of which this remembers nothing
        if not _is_everything(answers, self.num_answers):
            self.page.keep(answers)
            for recall in self.recalls:
                self._spare = recall.keep(answers, spare=self._spare)

    def reorder(self, answers: Tensor) -> None:
        """Go on with as many answers to the same texts, in the memory of the others."""
        for recall in self.recalls:
            recall.reorder(answers)

    def widen(self) -> None:
        """Have memory for more tokens."""
        self.page.widen()
        self._spare = None
        for recall in self.recalls:
            recall.widen()


class Draft(Writing):
    """Answers that a decoder writes."""

    def __init__(
        self,
        decoder: Decoder,
        encoder: Encoder,
        read: Tensor,
        layout: Layout,
        *,
        room: int,
        still_on: torch.device | None = None,
    ) -> None:
        super().__init__(decoder.config.num_layers, room=room, still_on=still_on)
        self._decoder, self._encoder = decoder, encoder
        self._memories = [Memory(one.keys_and_values(read), layout) for one in decoder.layers]
        first = torch.zeros(1, dtype=torch.long, device=read.device)
        self._turn = turn_at(decoder.config, first, room)
        self._embeddings = decoder.embeddings_of(encoder)
        self._pieces = pack(self._embeddings.pieces.weight)

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:
        """Write one more token of each answer; return the logits of the next ones, [R, V]."""
        places = self.page.open(tokens)
        self.page.turn = _turned(self._turn, places)
        entering = self._embeddings.look_up(tokens, places, torch.zeros_like(tokens))
        hidden = self._decoder.write(entering, self.recalls, self._memories, self._encoder)
        self.page.close()
        return self._decoder.output.logits(hidden, self._pieces)

    @torch.no_grad()
    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        """Go on with these answers; and where some texts are done, with those of others only."""
        super().keep(answers)
        if texts is not None:
            for memory in self._memories:
                memory.keep(texts)


class Continuation(Writing):
    """Texts that one network reads whole and then goes on writing."""

    def __init__(
        self,
        encoder: Encoder,
        output: PieceHead,
        batch: Batch,
        *,
        room: int,
        still_on: torch.device | None = None,
    ) -> None:
        sights = encoder.sights(batch)
        super().__init__(len(sights), room=room, still_on=still_on)
        self._encoder, self._output = encoder, output
        kept = [replace(one, kept=recall) for one, recall in zip(sights, self.recalls, strict=True)]
        for _ in encoder.walk(encoder.embeddings(batch), kept):
            pass
        longest = batch.layout.longest
        lengths = torch.tensor(batch.layout.lengths, device=batch.tokens.device)
        self._missing = (
            longest - lengths
        )  # columns before the text that an answer goes on with, [R]
        self._turn = turn_at(encoder.config, lengths, longest + room)

    def step(self, tokens: Tensor) -> Tensor:
        """Write one more token of each answer; return the logits of the next ones, [R, V]."""
        places = self.page.open(tokens) - self._missing
        self.page.turn = _turned(self._turn, places)
        embeddings = self._encoder.embeddings
        entering = embeddings.look_up(tokens, places, torch.ones_like(tokens))
        *_, last = self._encoder.walk(entering, self.recalls)
        self.page.close()
        return self._output.logits(last.hidden, embeddings.pieces.weight)

    def keep(self, answers: Tensor, texts: Tensor | None = None) -> None:
        """Go on with these answers."""
        super().keep(answers)
        self._missing = self._missing[answers]


def _turned(turn: Turn | None, places: Tensor) -> Turn | None:
    """Return the angles at other places."""
    return None if turn is None else replace(turn, positions=places)


def _is_everything(places: Tensor, count: int) -> bool:
    """Tell whether these are all of so many places, in order."""
    return len(places) == count and bool((places == torch.arange(count).to(places)).all())


def refuse_odd(config: EncoderConfig) -> None:
    """Fail where a network's parts cannot write."""
    if config.mixer != "attention" or config.local is not None:
        kind = config.mixer if config.mixer != "attention" else "local attention"
        raise UsageError(
            f"a decoder needs attention to all that was written, but this network has {kind}; "
            "choose another --model or --size"
        )
    if not isinstance(config.positions, Learned | Rotary | Waves):
        raise UsageError(
            "a decoder needs learned or rotary positions, or waves; choose another --model or "
            "--size"
        )
    if config.sharing is not None or config.embedding_size is not None:
        raise UsageError(
            "a decoder has blocks of its own and vectors as wide as they are, which this family "
            "has not; choose another --model or --size"
        )


def _refuse_other_layers(config: EncoderConfig, num_layers: int | None, shares: Shares) -> None:
    if shares == "all" and num_layers not in (None, config.num_layers):
        raise UsageError(
            f"a decoder that shares the encoder's {config.num_layers} blocks has as many; "
            "leave out --decoder-layers"
        )
