"""Finding sentences in English and Chinese text."""

import re

LONGEST_ABBREVIATION = 8  # characters, with the stop

# A sentence ends at . ! ? (with closing quotes or brackets) before white space and a new beginning,
# or right after a Chinese full stop, which needs no space.
_END = re.compile(
    r"""
    [.!?。！？；…]  # to begin with a set of characters is what makes the search quick
    (?:
        (?<=[。！？；…])[”’」』）】]*  # Chinese: closing quotes stay with their sentence
        (?![。！？；…”’」』）】])
        | (?<=[.!?])["'”’)\]]*\s+(?=["'“‘(\[]*[A-Z0-9`*\u00C0-\u00DE\u3400-\u9FFF])
    )
    """,
    re.VERBOSE,
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|cf|Fig|No|Vol|pp|approx|e\.g|i\.e|U\.S|U\.K)|\b[A-Z])\.$"
)


def split_sentences(paragraph: str) -> list[str]:
    """Cut a paragraph into sentences; joined again they lose nothing but white space."""
    sentences: list[str] = []
    start = 0
    for match in _END.finditer(paragraph):
        end = match.start() + len(match.group().rstrip())
        # Looking at the last few characters only keeps a line of nothing but initials cheap.
        if _ABBREVIATION.search(paragraph, max(start, end - LONGEST_ABBREVIATION), end):
            continue
        sentences.append(paragraph[start : match.end()].strip())
        start = match.end()
    rest = paragraph[start:].strip()
    return [*sentences, rest] if rest else sentences
