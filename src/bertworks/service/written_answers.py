"""Texts that a model writes; what each may cost is bounded before the first piece."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertworks.core.errors import DataError, TrainingError
from bertworks.data.examples import SourceExample
from bertworks.data.packing import Features
from bertworks.service.asked import MOST_WRITTEN, OF_WRITING, Asked
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item
from bertworks.service.lengths import Lengths
from bertworks.service.numbers import if_finite, not_finite
from bertworks.serving.predictor import Predictor
from bertworks.tasks.answering import Answerer
from bertworks.tasks.generate import Generate

MOST_BEGUN = 64  # pieces with which a reply may have to begin
MOST_ROWS = 256  # replies that are written at once: each step gives every one a whole vocabulary
MOST_PIECES = 1024  # of one reply in all of its beams
COMPANY = 8  # replies whose steps take hardly longer than those of one


@dataclass(frozen=True, eq=False)
class SourceInput:
    """A source as it is read, and the task that writes in the way that was asked for."""

    task: Generate
    example: SourceExample
    windows: list[Features]


class WrittenAnswers:
    """What the tasks of a model that write can do."""

    def __init__(self, predictor: Predictor, lengths: Lengths) -> None:
        self._predictor = predictor
        self._lengths = lengths

    def ask(self, task: Generate, examples: Sequence[Any], asked: Asked) -> list[Item]:
        """Make sources ready; those that are answered in one way are computed together."""
        writer = as_asked(task, asked)
        num_begun = self._num_begun(writer)
        room = self._room(writer)
        most = num_begun + writer.width * self._most(writer, num_begun)
        key, company = ("task", task.name, *_way(writer)), max(COMPANY // writer.width, 1)
        items, total = list[Item](), 0
        for whole in examples:
            example = self._shortened(whole, room)
            content = SourceInput(writer, example, self._windows(writer, example))
            num_tokens = len(content.windows[0].tokens) + most
            total += num_tokens
            self._lengths.require_few(total)
            is_cut = len(example.source) < len(whole.source)
            item = Item(key, content, num_tokens, is_cut, num_written=most, company=company)
            items.append(item)
        return items

    def compute(self, contents: Sequence[SourceInput]) -> list[Any]:
        """Write the replies to sources that are asked for in one way."""
        most = max(MOST_ROWS // contents[0].task.width, 1)
        parts = [contents[at : at + most] for at in range(0, len(contents), most)]
        return [answer for part in parts for answer in self._write(part)]

    def _write(self, contents: Sequence[SourceInput]) -> list[Any]:
        """Answer sources together; where one breaks the numbers, it fails alone."""
        opened, half = self._predictor, len(contents) // 2
        answerer = Answerer(opened.model, contents[0].task, opened.tokenizer, opened.machine)
        examples, windows = zip(*((own.example, own.windows) for own in contents), strict=True)
        try:
            return list(map(if_finite, answerer.answer(examples, windows)))
        except TrainingError:
            if half == 0:
                return [not_finite()]
        return self._write(contents[:half]) + self._write(contents[half:])

    def _num_begun(self, writer: Generate) -> int:
        begin = writer.begun(self._predictor.tokenizer)
        most = min(MOST_BEGUN, self._predictor.model.config.max_positions - 1)
        if len(begin) > most:
            raise Failure(
                "bad_value", f"begin has {len(begin)} pieces, but {most} are the most; shorten it"
            )
        return len(begin)

    def _most(self, writer: Generate, num_begun: int) -> int:
        """Return how many pieces a reply may get behind what it begins with."""
        most = min(writer.most, self._predictor.model.config.max_positions - num_begun)
        if (least := writer.options["writing"]["least"]) > most:
            raise Failure(
                "bad_value",
                f"replies of at least {least} pieces are asked for, but the network has places "
                f"for {most}; give a smaller shortest_reply",
            )
        return most

    def _room(self, writer: Generate) -> int:
        """Return how many pieces of a source are read, so that no reply runs out of places."""
        tokenizer, longest = self._predictor.tokenizer, self._predictor.window
        room = writer.room(tokenizer, longest=longest)
        if room < 1:
            raise Failure(
                "bad_value",
                f"a reply of {writer.most} pieces leaves no place for the source, for the network "
                f"reads {longest} together; give a smaller longest_reply",
            )
        return room

    def _shortened(self, whole: SourceExample, room: int) -> SourceExample:
        """Return a source of which no more is left than is read."""
        source = self._lengths.shorten(whole.source)
        for most in range(room, 0, -1):  # a word that was cut may have more pieces than before
            offsets = self._predictor.tokenizer.encode(source).offsets
            if len(offsets) <= room:
                break
            source = source[: offsets[most - 1][1]]
        return replace(whole, source=source)

    def _windows(self, writer: Generate, example: SourceExample) -> list[Features]:
        tokenizer, longest = self._predictor.tokenizer, self._predictor.window
        try:
            return writer.features(example, tokenizer, longest=longest)
        except DataError as error:
            raise DataError(f"input {example.line}: {error}") from error


def as_asked(task: Generate, asked: Asked) -> Generate:
    """Return the task that writes as a client asks, and never more than the service lets it."""
    how = {name: getattr(asked, name) for name in OF_WRITING}
    is_drawn = any(how[name] is not None for name in ("temperature", "top_k", "top_p", "draw_seed"))
    if how["beams"] is None:
        how["beams"] = 1 if is_drawn else task.width
    most = max(min(MOST_WRITTEN, MOST_PIECES // how["beams"]), 1)
    if how["longest_reply"] is None:
        how["longest_reply"] = min(task.most, most)
    if how["longest_reply"] > most:
        raise Failure(
            "bad_value",
            f"{how['beams']} beams of {how['longest_reply']} pieces are asked for, but "
            f"{MOST_PIECES} are the most together; give a longest_reply of at most {most}",
        )
    asked_for = task.asked(**how)
    asked_for.counts_pieces = True
    return asked_for


def _way(writer: Generate) -> tuple[Any, ...]:
    """Return what tells replies apart that are not written alike."""
    return tuple(sorted(writer.options["writing"].items())), writer.begin, writer.chance
