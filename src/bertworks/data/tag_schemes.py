"""Tags of words: the ways of writing spans as tags, and the spans that tags stand for.

The tag of a word is a letter and the label of its span, as B-PER, or a letter alone; O is outside.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from bertworks.data.examples import Place, Span

Scheme = Literal["plain", "bio", "iob1", "bioes", "bmes", "bilou"]

OUTSIDE = "O"
# The letters of the first word of a span, of those inside, of the last, and of an only one. In iob1
# the first word has a letter of its own only where a span of the same label ends before it.
LETTERS: dict[Scheme, tuple[str, str, str, str]] = {
    "bio": ("B", "I", "I", "B"),
    "iob1": ("B", "I", "I", "B"),
    "bioes": ("B", "I", "E", "S"),
    "bmes": ("B", "M", "E", "S"),
    "bilou": ("B", "I", "L", "U"),
}
LEAST_LABELLED, LEAST_BARE = 0.5, 0.9  # shares of the words in spans, for the others to be strays
LEAST_MISSPELT = 0.95  # share of the words in spans whose tags have one of these other forms
OTHER_FORMS = [  # B_PER or b-per, and PER-B
    re.compile(r"(?P<letter>[BIMESLU])[-_:./](?P<label>.+)", re.IGNORECASE),
    re.compile(r"(?P<label>.+)[-_:./](?P<letter>[BIMESLU])", re.IGNORECASE),
]
_ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}


class WordSpan(NamedTuple):
    """A run of words that has a label."""

    first: int
    end: int
    label: str


def find_scheme(tags: Iterable[str], sequences: Iterable[Sequence[str]] = ()) -> Scheme:
    """Return how tags are written; only whole sequences can tell the two ways of B and I apart."""
    found = set(tags)
    letters = {_split(tag)[0] for tag in found} - {OUTSIDE}
    scheme = next((name for name, known in LETTERS.items() if letters <= set(known)), None)
    if scheme is None or not letters or _is_by_chance(found, letters):
        return "plain"
    if scheme != "bio":
        return scheme
    return "iob1" if "B" not in letters or _is_first_kind(sequences) else "bio"


def find_strays(counts: Mapping[str, int]) -> tuple[Scheme, list[str]]:
    """Return how most words are tagged, by how many have each tag, and the tags written otherwise.

    Among the tags of single words these are such as B-PER, and among those of spans all others.
    """
    inside = {tag: count for tag, count in counts.items() if tag != OUTSIDE}
    for is_bare, least in ((False, LEAST_LABELLED), (True, LEAST_BARE)):
        fitting = {
            scheme: {tag for tag in inside if _fits(tag, scheme, is_bare=is_bare)}
            for scheme in LETTERS
        }
        sizes = {scheme: sum(inside[tag] for tag in own) for scheme, own in fitting.items()}
        scheme = max(sizes, key=sizes.__getitem__)
        is_meant = "B" in fitting[scheme] if is_bare else bool(fitting[scheme])
        if is_meant and sizes[scheme] >= least * sum(inside.values()):
            return scheme, [tag for tag in inside if tag not in fitting[scheme]]
    return "plain", [tag for tag in inside if _split(tag)[1] and _role(tag)[0] != OUTSIDE]


def find_misspelt(counts: Mapping[str, int]) -> dict[str, str]:
    """Return tags that mean spans in another form than B-PER, each as it should be written.

    There are none unless nearly all words but those outside of spans have such a tag.
    """
    inside = {tag: count for tag, count in counts.items() if tag.upper() != OUTSIDE}
    for form in OTHER_FORMS:
        matched = {tag: found for tag in inside if (found := form.fullmatch(tag))}
        letters = {found["letter"].upper() for found in matched.values()}
        is_scheme = "B" in letters and any(letters <= set(known) for known in LETTERS.values())
        size = sum(inside[tag] for tag in matched)
        if is_scheme and size >= LEAST_MISSPELT * sum(inside.values()):
            return {
                tag: _join(found["letter"].upper(), found["label"])
                for tag, found in matched.items()
            }
    return {}


def find_spans(tags: Sequence[str]) -> list[WordSpan]:
    """Return the spans that tags stand for, as the CoNLL evaluation finds them.

    Where no span may go on, a tag begins a new one, whatever its letter; so every sequence of tags
    has a meaning, and all schemes are read alike.
    """
    spans: list[WordSpan] = []
    before, label, first = OUTSIDE, "", 0
    for place, tag in enumerate([*tags, OUTSIDE]):
        role, own = _role(tag)
        goes_on = role in "IE" and before in "BI" and own == label
        if before != OUTSIDE and not goes_on:
            spans.append(WordSpan(first, place, label))
        if not goes_on:
            first = place
        before, label = role, own
    return spans


def find_runs(tags: Sequence[str]) -> list[WordSpan]:
    """Return the runs of equal tags as spans of that label, where tags do not speak of spans."""
    edges = [place for place, (a, b) in enumerate(pairwise([None, *tags, None])) if a != b]
    runs = (WordSpan(first, end, tags[first]) for first, end in pairwise(edges))
    return [run for run in runs if run.label != OUTSIDE]


def write_tags(spans: Iterable[WordSpan], num_words: int, scheme: Scheme) -> list[str]:
    """Return the tags of words of which some are in spans; spans are in order and apart."""
    tags = [OUTSIDE] * num_words
    previous = WordSpan(-1, -1, "")
    for span in spans:
        begin, inside, end, single = LETTERS[scheme]
        if scheme == "iob1" and (previous.end, previous.label) != (span.first, span.label):
            begin = single = inside
        length = span.end - span.first
        chosen = [single] if length == 1 else [begin, *[inside] * (length - 2), end]
        tags[span.first : span.end] = [_join(letter, span.label) for letter in chosen]
        previous = span
    return tags


def find_misplaced(tags: Sequence[str], scheme: Scheme) -> list[int]:
    """Return the places of tags that a scheme does not allow behind the tag before them.

    The place behind the last tag is among them where a span is left open.
    """
    around = [None, *tags, None]
    return [
        place
        for place, (before, tag) in enumerate(pairwise(around))
        if not may_follow(before, tag, scheme)
    ]


def may_follow(before: str | None, tag: str | None, scheme: Scheme) -> bool:
    """Tell whether a tag may stand behind another; None stands for the edge of the text."""
    if scheme == "plain":
        return True
    old, old_label = _role(OUTSIDE if before is None else before)
    new, new_label = _role(OUTSIDE if tag is None else tag)
    is_open = old in "BI"
    if scheme == "iob1":
        return new != "B" or (is_open and old_label == new_label)
    if new in "IE":
        return is_open and old_label == new_label
    return scheme == "bio" or not is_open


def tags_for(labels: Iterable[str], scheme: Scheme) -> list[str]:
    """Return all tags that spans of these labels may need."""
    return [_join(letter, label) for label in labels for letter in dict.fromkeys(LETTERS[scheme])]


def covered(spans: Iterable[Span], words: Sequence[Place]) -> list[WordSpan]:
    """Return labelled parts of a text as the runs of words that lie in them."""
    starts, ends = zip(*words, strict=True) if words else ((), ())
    return [
        WordSpan(bisect_left(starts, span.start), bisect_right(ends, span.end), span.label)
        for span in spans
    ]


def of_whole_words(spans: Iterable[Span], words: Sequence[Place]) -> list[Span]:
    """Return those parts of a text that have a word and cut none."""
    given = list(spans)
    within = {at for start, end in words for at in range(start + 1, end)}
    return [
        span
        for span, (first, after, _) in zip(given, covered(given, words), strict=True)
        if first < after and not within & {span.start, span.end}
    ]


def cut_at_spans(words: Sequence[Place], spans: Sequence[Span]) -> tuple[Place, ...]:
    """Return words cut where spans begin or end; a span without any word in it becomes one."""
    edges = sorted({edge for span in spans for edge in (span.start, span.end)})
    cut: list[Place] = []
    for start, end in words:
        inner = edges[bisect_right(edges, start) : bisect_left(edges, end)]
        cut.extend(pairwise([start, *inner, end]))
    empty = [
        (span.start, span.end)
        for span, (first, after, _) in zip(spans, covered(spans, cut), strict=True)
        if first >= after
    ]
    return tuple(sorted([*cut, *empty]))


def _split(tag: str) -> tuple[str, str]:
    letter, _, label = tag.partition("-")
    return letter, label


def _fits(tag: str, scheme: Scheme, *, is_bare: bool) -> bool:
    letter, label = _split(tag)
    return letter in LETTERS[scheme] and bool(label) != is_bare


def _role(tag: str) -> tuple[str, str]:
    letter, label = _split(tag)
    return _ROLES.get(letter, OUTSIDE), label


def _join(letter: str, label: str) -> str:
    return f"{letter}-{label}" if label else letter


def _is_by_chance(tags: set[str], letters: set[str]) -> bool:
    """Tell whether tags are only named like letters: without labels, a B must be among them."""
    return tags <= {*letters, OUTSIDE} and "B" not in letters


def _is_first_kind(sequences: Iterable[Sequence[str]]) -> bool:
    """Tell whether B stands only where it must, and I elsewhere too where a span begins."""
    begins_with_inside = False
    for tags in sequences:
        for before, tag in zip([OUTSIDE, *tags], tags, strict=False):
            if not may_follow(before, tag, "iob1"):
                return False
            begins_with_inside |= not may_follow(before, tag, "bio")
    return begins_with_inside
