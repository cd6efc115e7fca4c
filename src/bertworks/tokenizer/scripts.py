"""Words and their scripts, whatever a tokenizer makes of them."""

from collections.abc import Iterator

from bertworks.core.scripts import HAN, MARK, NUMBER, WITHOUT_SPACES, kind_of


def find_script_runs(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and script of each word: a run of letters, marks and digits.

    Each Han character is a word, whatever stands beside it. This does not depend on a tokenizer, so
    that tokenizers can be compared.
    """
    start, script = 0, ""
    for place, char in enumerate(text):
        kind = kind_of(char)
        if script and (not kind or HAN in (kind, script)):
            yield start, place, script
            script = ""
        if not script and kind != MARK:
            start, script = place, kind
        elif script == NUMBER and kind != MARK:
            script = kind  # as in 3rd: letters tell more
    if script:
        yield start, len(text), script


def needs_no_space(word: str) -> bool:
    """Tell whether a word can stand right beside others, as a Chinese one or an emoji does."""
    kinds = set(map(kind_of, word)) - {MARK, ""}
    return not kinds or bool(kinds & WITHOUT_SPACES)
