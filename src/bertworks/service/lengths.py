"""How much of an input is read: whatever is sent, it costs no more than that."""

from dataclasses import dataclass, replace
from typing import Any

from bertworks.data.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    SourceExample,
    TaggedExample,
    TextExample,
)
from bertworks.service.failures import Failure
from bertworks.tokenizer.tokenizer import Tokenizer

MOST_PIECES = 32768  # of one text in all of its windows, which are computed at once
CHARACTERS = 64  # of a piece, at the most and on average; those behind are not even looked at
FEWER = 12  # the same where more than ENOUGH are looked at: no language has pieces that long
ENOUGH = 96 << 10  # characters, which are cut in less than a tenth of a second, whatever they are
BYTES = 4  # of a character, each perhaps a piece of its own; few ligatures fall apart into more
USUAL = 4  # characters of a piece: as many are looked at first
MARGIN = 256  # characters; what stands so far before the end is cut as if there were no end
LONG_PARTS: dict[type, tuple[str, ...]] = {  # of an example, that may be cut
    TextExample: ("text", "text_b"),
    TaggedExample: ("text",),
    QuestionExample: ("passage",),
    ChoiceExample: ("passage",),
    SourceExample: ("source",),
}


def num_looked_at(most: int) -> int:
    """Return how many characters of a text may be looked at where so many pieces are read."""
    return min(CHARACTERS * most, max(ENOUGH, FEWER * most))


@dataclass(frozen=True)
class Lengths:
    """The most pieces that are read of one text in all of its windows, and of a whole request."""

    tokenizer: Tokenizer
    most: int
    most_together: int = 1 << 16

    def require_few(self, num_tokens: int) -> None:
        """Refuse a request as soon as it has more tokens than may wait: the rest is not read."""
        if num_tokens > self.most_together:
            raise Failure(
                "too_large",
                f"the request has more than {self.most_together} tokens, which is the most; send "
                "fewer at once",
            )

    def shorten(self, text: str) -> str:
        """Return as much of a text as is read."""
        if len(text) * (1 if text.isascii() else BYTES) < self.most:  # a space may come before it
            return text
        begin = text[: USUAL * self.most + MARGIN]
        end = self._end(begin)
        if len(begin) < len(text) and (end is None or end > len(begin) - MARGIN):
            begin = text[: num_looked_at(self.most)]
            end = self._end(begin)
        return begin[:end]

    def require_few_readings(self, example: Example, times: int) -> None:
        """Refuse an example that would be read too often: once with each of many labels, say."""
        most = CHARACTERS * self.most
        if times > 1 and times * example.num_characters > most:
            raise Failure(
                "too_large",
                f"input {example.line} has {example.num_characters} characters to be read {times} "
                f"times, and {most} are the most together; shorten it, or give fewer choices",
            )

    def shorten_example(self, example: Example) -> Example:
        """Return an example with as much of its long parts as is read."""
        names = LONG_PARTS.get(type(example), ())
        if isinstance(example, TaggedExample) and example.words is not None:
            names = ()
        parts = {name: getattr(example, name) for name in names}
        short: dict[str, Any] = {
            name: self.shorten(text) for name, text in parts.items() if text is not None
        }
        shortened = replace(example, **short)
        most = CHARACTERS * self.most
        if shortened.num_characters - sum(map(len, short.values())) > most:
            raise Failure(
                "too_large",
                f"input {example.line} has {example.num_characters} characters, and what may not "
                f"be cut of it has more than {most}; shorten it",
            )
        return shortened

    def _end(self, text: str) -> int | None:
        """Return where the last character ends that is read whole; None: with the text."""
        offsets = self.tokenizer.encode(text).offsets
        if len(offsets) <= self.most:
            return None
        last = self.most - 1
        while last >= 0 and offsets[last + 1][0] < offsets[last][1]:  # the two share a character
            last -= 1
        return offsets[last][1] if last >= 0 else 0
