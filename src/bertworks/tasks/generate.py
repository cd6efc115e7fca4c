"""Generate: a text -> another one, such as its translation, summary or title."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import fields
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.core.batch import Batch, Target
from bertworks.core.errors import DataError, TrainingError, UsageError
from bertworks.core.lines import is_unicode
from bertworks.core.pieces import IGNORE
from bertworks.data.examples import SourceExample
from bertworks.data.packing import Features, Goal, join_pieces
from bertworks.data.windows import View
from bertworks.model.config import EncoderConfig
from bertworks.model.decoder import Continuation, Decoder, Shares, refuse_odd
from bertworks.model.fused import cross_entropy
from bertworks.model.heads import PieceHead
from bertworks.model.replay import replayed, still_place
from bertworks.model.sampling import Chance, write_sampled
from bertworks.model.search import Draft, Search, Written, write_best
from bertworks.tasks.task import Answer, Options, Rows, Scorer, TaskModel
from bertworks.tasks.text_scores import TextScorer
from bertworks.tokenizer.tokenizer import Tokenizer

LONG_TARGET = "the target has more pieces than are written; raise --longest-reply"
Start = Literal["copied", "shared", "fresh", "prefix"]
# What a decoder has in common with the encoder, by how it begins; prefix: there is none.
SHARES: dict[Start, Shares] = {"copied": "nothing", "shared": "all", "fresh": "embeddings"}
# How replies are searched for, where nothing else is said.
SEARCH: Options = {"most": 128, "least": 0, "beams": 1, "length_penalty": 1.0, "no_repeat": 0}
# How the flags of a command name the same.
FLAGS = {"longest_reply": "most", "shortest_reply": "least", "draw_seed": "seed"}
# The flags that are whole numbers, and the least that each may be; and those that are any numbers.
WHOLE: dict[str, int | None] = {
    "beams": 1,
    "no_repeat": 0,
    "shortest_reply": 0,
    "longest_reply": 1,
    "top_k": 0,
    "draw_seed": None,
}
REAL = ("length_penalty", "temperature", "top_p")
OF_CHANCE = {field.name for field in fields(Chance)}


class Generate:
    """Source -> target, written piece by piece by what has read the source.

    That is a decoder of its own, or (prefix) the network itself, which sees all of the source and
    of the target what stands before.
    """

    kind = "generate"
    labels: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        name: str = kind,
        decoder: Start = "copied",
        decoder_layers: int | None = None,
        writing: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.begin = ""  # what every reply begins with
        self.counts_pieces = False  # whether an answer tells how many pieces it has
        self.chance: Chance | None = None  # None: the best reply is looked for, none is drawn
        self.options: Options = {
            "decoder": decoder,
            "decoder_layers": decoder_layers,  # None: as many as the encoder has
            "writing": SEARCH | dict(writing or {}),
        }
        Search(end=0, **self.options["writing"])  # which refuses what cannot be
        if self.is_prefix and decoder_layers is not None:
            raise UsageError(
                "with --decoder prefix the network itself writes; leave out --decoder-layers"
            )

    def features(
        self, example: SourceExample, tokenizer: Tokenizer, *, longest: int
    ) -> list[Features]:
        """Lay the source beside its first target; each piece of that asks for the next."""
        specials, most = tokenizer.specials, min(self.most, longest)
        gold, note = self._gold(example, tokenizer, most=most)
        if self.is_prefix:
            source = self._source(example, tokenizer, room=self._room_beside(tokenizer, longest))
            read, written = [specials.first, *source], [specials.separator, *gold[:-1]]
            tokens = np.array([*read, *written], dtype=np.int32)
            segments = np.repeat((0, specials.second_segment), (len(read), len(written)))
            goals = {self.name: Goal(gold, np.arange(len(read), len(tokens)))}
            parts = (tokens, segments, goals, example.line, note)
            return [Features(*parts, prefix=len(read))]
        source = self._source(example, tokenizer, room=self.room(tokenizer, longest=longest))
        reply = np.array([specials.first, *gold[:-1]], dtype=np.int32)
        goals = {self.name: Goal(gold)}
        parts = (*join_pieces(source, None, specials), goals, example.line, note)
        return [Features(*parts, reply=reply)]

    def room(self, tokenizer: Tokenizer, *, longest: int) -> int:
        """Return how many pieces of a source are read; less than one where the reply takes all."""
        if not self.is_prefix:
            return longest - tokenizer.specials.num_added(pair=False)
        begun = len(self.begun(tokenizer)) if self.begin else 0
        return longest - 1 - min(self.most, longest) - begun

    def begun(self, tokenizer: Tokenizer) -> list[int]:
        """Return the pieces that every reply begins with, which must be known ones."""
        (pieces,) = tokenizer.written_ids_of([self.begin])
        if tokenizer.specials.unknown in pieces:
            raise UsageError(
                f"answers cannot begin with {self.begin!r}, for the tokenizer does not know all of "
                "it; change what they begin with"
            )
        return pieces

    @property
    def is_prefix(self) -> bool:
        """Whether the network itself goes on writing, without a decoder."""
        return self.options["decoder"] == "prefix"

    @property
    def most(self) -> int:
        """How many pieces are written, with the last."""
        return self.options["writing"]["most"]

    @property
    def width(self) -> int:
        """How many answers to a text are written at once."""
        return self.options["writing"]["beams"]

    def _room_beside(self, tokenizer: Tokenizer, longest: int) -> int:
        """Return how many pieces of a source are read where the answer stands in the same text."""
        room = self.room(tokenizer, longest=longest)
        if room < 1:
            raise UsageError(
                f"answers of {longest - 1 - room} pieces leave no room for a source, for the "
                f"network reads both in {longest}; lower --longest-reply"
                f"{' or shorten --begin' if self.begin else ''}"
            )
        return room

    def _source(self, example: SourceExample, tokenizer: Tokenizer, *, room: int) -> np.ndarray:
        (pieces,) = tokenizer.ids_of([example.source])
        if not pieces:
            raise DataError("the source holds nothing that the tokenizer knows; mend it")
        if len(pieces) > room:
            lower = "lower --longest-reply, which shares its room, " if self.is_prefix else ""
            raise DataError(
                f"the source has {len(pieces)} pieces, but {room} are read; shorten it, {lower}or "
                "fine-tune with a larger --longest if the network reads more"
            )
        return np.array(pieces, dtype=np.int64)

    def _gold(
        self, example: SourceExample, tokenizer: Tokenizer, *, most: int
    ) -> tuple[np.ndarray, View]:
        """Return the pieces that are to be written, with the end, and what of them is lost."""
        if not example.targets:
            return np.array([IGNORE]), View()
        (pieces,) = tokenizer.written_ids_of(example.targets[:1])
        if not pieces:
            raise DataError("the target holds nothing that the tokenizer knows; mend it")
        gold = np.array([*pieces, tokenizer.specials.separator])
        return gold[:most], View(losses=(LONG_TARGET,) if len(gold) > most else ())

    def head(self, config: EncoderConfig) -> nn.Module:
        """Make the decoder, or what names the pieces where the network itself writes."""
        refuse_odd(config)
        if self.is_prefix:
            return PieceHead(config, target=self.name)
        layers, shares = self.options["decoder_layers"], SHARES[self.options["decoder"]]
        return Decoder(config, target=self.name, num_layers=layers, shares=shares)

    def source_of(self, parameter: str) -> str | None:
        """Return the weight of a pre-trained model with which one of the head begins."""
        start = self.options["decoder"]
        if start == "fresh":
            return None
        if self.is_prefix:
            return f"heads.fill_mask.{parameter}"
        if parameter.startswith("output."):
            return parameter.replace("output.", "heads.fill_mask.", 1)
        return f"encoder.{parameter}"

    def loss(self, logits: Tensor, target: Target) -> Tensor:
        """Return the summed cross-entropy over the pieces of the targets.

        The fused one writes over the logits, of which R-Drop wants slopes of slopes; there they
        have the full precision.
        """
        if not target.smoothing and logits.dtype != torch.float32:
            return cross_entropy(logits, target.values)
        return functional.cross_entropy(
            logits.float(),
            target.values,
            ignore_index=IGNORE,
            reduction="sum",
            label_smoothing=target.smoothing,
        )

    def asked(self, *, begin: str | None = None, **how: Any) -> "Generate":
        """Return the task that writes in another way: by other beams, or drawn by chance."""
        _refuse_odd(how)
        if begin is not None and not (isinstance(begin, str) and is_unicode(begin)):
            raise UsageError(f"begin is {begin!r}; give the text that answers begin with")
        changed = copy(self)
        named = {FLAGS.get(name, name): value for name, value in how.items() if value is not None}
        drawn = {name: named.pop(name) for name in OF_CHANCE & named.keys()}
        changed.begin = self.begin if begin is None else begin
        changed.chance = Chance(**drawn) if drawn else None
        writing = self.options["writing"] | ({"beams": 1} if drawn else {}) | named
        if drawn and writing["beams"] > 1:
            raise UsageError(
                f"replies are drawn by chance or found by {writing['beams']} beams, not both; "
                "choose one"
            )
        Search(end=0, **writing)  # which refuses what cannot be
        changed.options = self.options | {"writing": writing}
        return changed

    def write(self, model: TaskModel, batch: Batch, tokenizer: Tokenizer) -> list[Answer]:
        """Answer each text of a batch."""
        specials, tokens = tokenizer.specials, batch.tokens
        begin = [specials.separator if self.is_prefix else specials.first, *self.begun(tokenizer)]
        places = model.config.max_positions - max(batch.prefixes or (0,))
        if len(begin) > places:
            raise UsageError(
                f"answers begin with {len(begin)} pieces, but the network knows {places} places "
                "for them; shorten --begin"
            )
        writing = self.options["writing"]
        most = min(writing["most"], places - len(begin) + 1)
        search = Search(end=specials.separator, **{**writing, "most": most})
        draft = self._draft(model, batch, room=len(begin) - 1 + most)
        prompt = torch.tensor(begin, device=tokens.device).expand(batch.num_texts, -1)
        if self.chance is None:
            found = write_best(draft, prompt, search)
        else:
            read = batch.beginnings() if self.is_prefix else batch
            texts = read.tokens.cpu().split(list(read.layout.lengths))
            names = [str(text.tolist()) for text in texts]
            found = write_sampled(draft, prompt, search, self.chance, names=names)
        if not all(found):
            raise TrainingError(_no_answer(search))
        answers = [_answer(begin[1:], own, tokenizer) for own in found]
        if not self.counts_pieces:
            return answers
        counts = [len(begin) - 1 + len(own[0].tokens) for own in found]
        return [told | {"num_pieces": n} for told, n in zip(answers, counts, strict=True)]

    def _draft(self, model: TaskModel, batch: Batch, *, room: int) -> Draft:
        head, encoder = model.heads[self.name], model.encoder
        if isinstance(head, Decoder):
            return head.begin(encoder(batch), batch.layout, encoder, room=room)
        assert isinstance(head, PieceHead)
        still_on = still_place(batch.tokens.device)
        read = batch.beginnings()
        return replayed(Continuation(encoder, head, read, room=room, still_on=still_on))

    def decode(
        self,
        example: SourceExample,
        windows: Sequence[Features],
        logits: Sequence[Rows],
        tokenizer: Tokenizer,
    ) -> Answer:
        """Put the likeliest pieces together, as far as the end."""
        pieces = np.concatenate(logits).argmax(axis=1).tolist()
        end = tokenizer.specials.separator
        written = pieces[: pieces.index(end)] if end in pieces else pieces
        return {"text": tokenizer.text_of(written).strip()}

    def scorer(self) -> Scorer:
        """Return what compares texts with the targets."""
        return TextScorer()


def learn_texts(
    examples: Sequence[SourceExample],
    *,
    decoder: Start = "copied",
    decoder_layers: int | None = None,
    **writing: Any,
) -> Options:
    """Return how targets are written, as far as the flags say."""
    task = Generate(decoder=decoder, decoder_layers=decoder_layers)
    task.scorer()  # which says before training what it needs
    task.asked(**writing)  # which refuses what cannot be
    said = {FLAGS.get(name, name): value for name, value in writing.items() if value is not None}
    return task.options | {"writing": said}


def _refuse_odd(how: Mapping[str, Any]) -> None:
    """Fail where something is asked for that nobody knows, is no number, or is too small."""
    for name in how.keys() - {*WHOLE, *REAL}:
        known = ", ".join([*WHOLE, *REAL, "begin"])
        raise UsageError(f"texts are not written by {name!r}; what is known: {known}")
    for name, value in how.items():
        kind, called = (int, "a whole number") if name in WHOLE else (int | float, "a number")
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, kind):
            raise UsageError(f"{name} is {value!r}; give {called}")
        if (least := WHOLE.get(name)) is not None and value < least:
            raise UsageError(f"{name} is {value}; the least is {least}")


def _no_answer(search: Search) -> str:
    """Say why nothing could be written, as far as that can be told."""
    broken = "the network's weights are broken; train it again with a lower --lr"
    if not search.no_repeat:
        return f"no answer has a finite chance, so {broken}"
    return (
        "no answer has a finite chance: all that may follow would repeat itself, so lower "
        f"--shortest-reply or --longest-reply, or raise --no-repeat; or {broken}"
    )


def _answer(begin: list[int], found: list[Written], tokenizer: Tokenizer) -> Answer:
    best = found[0]
    return {"text": tokenizer.text_of([*begin, *best.tokens]).strip(), "score": best.score}
