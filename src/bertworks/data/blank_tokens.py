"""Tokens of white space, which have no place in a text: passed over, or refused with their tags."""

from collections.abc import Iterable

from bertworks.core.errors import DataError

_OUTSIDE = "O"
_INSIDE = ("I", "M")  # of a span that is as whole without them


def pass_blanks(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return tokens and tags without blank tokens; where a span begins or ends at one, stop."""
    found = []
    for token, tag in pairs:
        if token.strip():
            found.append((token, tag))
        elif tag != _OUTSIDE and tag.partition("-")[0] not in _INSIDE:
            raise DataError(
                f"a blank token tagged {tag:.60}; tag it {_OUTSIDE}, and let its span begin and "
                "end at tokens that can be seen"
            )
    return found
