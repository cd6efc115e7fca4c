"""What a tokenizer makes of text: pieces per word, unknown pieces, and both by script."""

from collections import Counter
from typing import Any

from bertworks.tokenizer.scripts import find_script_runs
from bertworks.tokenizer.tokenizer import Tokenizer

MOST_SHOWN = 20  # unknown words in a summary
LONGEST_SHOWN = 50  # characters of an unknown word


class Inspection:
    """Counts over texts that are given one after the other and not kept."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.scripts: dict[str, Counter[str]] = {}
        self.uses: Counter[int] = Counter()
        self.unknown_words: Counter[str] = Counter()
        self.num_characters = 0  # white space is not counted
        self.num_unknown_characters = 0

    def add(self, text: str) -> None:
        """Count the pieces of one text."""
        encoding = self.tokenizer.encode(text)
        self.uses.update(encoding.ids)
        self.num_characters += sum(map(len, text.split()))
        unknown = self.tokenizer.specials.unknown
        spans = encoding.offsets
        is_unknown = [index == unknown for index in encoding.ids]
        for (start, end), hit in zip(spans, is_unknown, strict=True):
            if hit:
                self.unknown_words[text[start : min(end, start + LONGEST_SHOWN)].strip()] += 1
                self.num_unknown_characters += end - start
        self._add_words(text, spans, is_unknown)

    def unused(self) -> list[str]:
        """Return the pieces of the vocabulary that no text used, in the order of their ids."""
        pieces = sorted(self.tokenizer.engine.get_vocab().items(), key=lambda item: item[1])
        return [piece for piece, index in pieces if index not in self.uses]

    def summary(self) -> dict[str, Any]:
        """Return all that was counted as JSON data; shares lie from 0 to 1."""
        total = sum(self.scripts.values(), Counter[str]())
        num_pieces = self.uses.total()
        unknown = self.uses[self.tokenizer.specials.unknown]
        return {
            "words": total["words"],
            "pieces": num_pieces,
            "fertility": _share(total["pieces"], total["words"]),
            "whole_words": _share(total["whole_words"], total["words"]),
            "characters_per_piece": _share(self.num_characters, num_pieces),
            "unknown_pieces": _share(unknown, num_pieces),
            "unknown_characters": _share(self.num_unknown_characters, self.num_characters),
            "vocabulary": self.tokenizer.vocab_size,
            "unused_pieces": len(self.unused()),
            "scripts": self._script_rows(total["words"]),
            "unknown_words": [
                {"text": text, "count": count}
                for text, count in self.unknown_words.most_common(MOST_SHOWN)
            ],
        }

    def _add_words(self, text: str, spans: list[tuple[int, int]], is_unknown: list[bool]) -> None:
        """Give each piece to the first word that it touches."""
        first = given = 0
        for start, end, script in find_script_runs(text):
            while first < len(spans) and spans[first][1] <= start:
                first += 1
            last = first
            while last < len(spans) and spans[last][0] < end:
                last += 1
            count = self.scripts.setdefault(script, Counter())
            count["words"] += 1
            count["pieces"] += max(last - max(first, given), 0)
            count["whole_words"] += last - first == 1 and not is_unknown[first]
            count["characters"] += end - start
            count["unknown_characters"] += sum(
                min(end, spans[i][1]) - max(start, spans[i][0])
                for i in range(first, last)
                if is_unknown[i]
            )
            given = last

    def _script_rows(self, num_words: int) -> list[dict[str, Any]]:
        return [
            {
                "script": script,
                "words": count["words"],
                "share_of_words": _share(count["words"], num_words),
                "covered": 1.0 - _share(count["unknown_characters"], count["characters"]),
                "fertility": _share(count["pieces"], count["words"]),
                "whole_words": _share(count["whole_words"], count["words"]),
            }
            for script, count in sorted(self.scripts.items(), key=lambda item: -item[1]["words"])
        ]


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
