"""Tagged text as plain lines: CoNLL, CoNLL-U, and words with two spaces between them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from bertworks.core.errors import DataError, UsageError
from bertworks.core.lines import read_every_line, read_lines
from bertworks.core.quarantine import Quarantine
from bertworks.data.blank_tokens import pass_blanks
from bertworks.data.columns import num_columns
from bertworks.data.first_lines import read_head

Rows = Iterator[tuple[int, dict[str, Any]]]
MOST = 0.95  # of the lines of a layout are as it says; the others are bad
LONG_WORD, LONG_TAGGED = 6, 9  # characters that words, alone or with their tags, have in the mean
LONGEST_SENTENCE = 10_000  # lines; more without a blank one are no sentence
CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_OUTSIDE, _DOCUMENT = "O", "-DOCSTART-"
_TAGGED_WORD = re.compile(r"\[?(.+)/([A-Za-z]\w*)(?:\]/?\w+)?")
_OTHER_SCHEMES = {"M": "I", "L": "E", "U": "S"}  # of BMES and BILOU, as BIOES has them


def read_conll(file: Path, quarantine: Quarantine, columns: Mapping[str, str]) -> Rows:
    """Yield the sentences of a CoNLL file: its first column is the token, its last the tag."""
    at = {ours: _place(file, ours, columns[ours]) for ours in ("tokens", "tags") if ours in columns}
    head = read_head(file)
    width, indent = _width(head), _indent(head)
    for number, lines in _sentences(file, quarantine):
        width = width or _width(lines)
        table = _conll_table(lines, width, indent=indent)
        if not table:
            continue
        _require_places(file, at, width)
        try:
            row = _conll_row(table, width, at)
        except DataError as error:
            quarantine.add(file, number, str(error))
            continue
        if row["tokens"]:
            yield number, row


def read_conllu(file: Path, quarantine: Quarantine, columns: Mapping[str, str]) -> Rows:
    """Yield the sentences of a CoNLL-U file as words with the tags of one column."""
    wanted = columns.get("tags", "upos").lower()
    if wanted not in CONLLU_COLUMNS:
        known = ", ".join(CONLLU_COLUMNS)
        raise UsageError(f"{file} has no column {wanted!r}; give --columns tags= one of {known}")
    at = CONLLU_COLUMNS.index(wanted)
    for number, lines in _sentences(file, quarantine):
        nodes = [line.split("\t") for line in lines if not line.startswith("#")]
        if any(len(cells) != len(CONLLU_COLUMNS) for cells in nodes):
            quarantine.add(file, number, f"a word has not {len(CONLLU_COLUMNS)} columns")
            continue
        # Ranges (1-2) only say how the words after them were spelled; 1.1 is not in the text.
        words = [cells for cells in nodes if cells[0].isdecimal()]
        tags = [cells[at] for cells in words]
        row: dict[str, Any] = {"tokens": [cells[1] for cells in words]}
        if any(tag != "_" for tag in tags):
            row["tags"] = tags
        if words:
            yield number, row


def read_segmented(file: Path, quarantine: Quarantine, columns: Mapping[str, str]) -> Rows:
    """Yield lines of words as characters, with tags that say where words begin and end."""
    is_tagged = has_word_tags(read_head(file))
    with_kind = columns.get("tags") == "pos"
    if columns.get("tags", "pos") != "pos" or (with_kind and not is_tagged):
        raise UsageError(f"{file} holds words{'/tags' * is_tagged} only; leave --columns out")
    for number, line in read_lines(file, quarantine):
        words: list[tuple[str, str]] = [(word, "") for word in line.split()]
        if is_tagged:
            found = [_TAGGED_WORD.fullmatch(word) for word, _ in words]
            if None in found:
                quarantine.add(file, number, f"{words[found.index(None)][0]!r:.60} has no /tag")
                continue
            words = [(match[1], match[2]) for match in found if match]
        if words:
            tags = [tag for word in words for tag in _character_tags(*word, with_kind=with_kind)]
            yield number, {"tokens": [char for word, _ in words for char in word], "tags": tags}


def is_conllu(head: Sequence[str]) -> bool:
    """Tell whether lines are CoNLL-U, whatever the file is called."""
    words = [line for line in head if line.strip() and not line.startswith("#")]
    wide = (line.split("\t") for line in words)
    return bool(words) and all(
        len(cells) == len(CONLLU_COLUMNS) and re.fullmatch(r"\d+([-.]\d+)?", cells[0])
        for cells in wide
    )


def is_conll(head: Sequence[str], *, any_tags: bool) -> bool:
    """Tell whether lines are CoNLL; unless any tags will do, they must be those of spans."""
    width = _width(head)
    lines = _conll_table(head, width, indent=_indent(head))
    is_even = [len(line) == width and " " not in line[0] for line in lines]
    if not lines or sum(is_even) < MOST * len(lines):
        return False
    has_blanks = not all(line.strip() for line in head)
    tags = [line[-1] for line in lines]
    is_span = [bool(re.fullmatch(r"O|[BIMESLU]-\S+", tag)) for tag in tags]
    has_spans = width > 1 and sum(is_span) >= MOST * len(lines) and {*tags} != {_OUTSIDE}
    return (has_blanks or has_spans) if any_tags else (has_blanks and has_spans)


def has_short_lines(head: Sequence[str]) -> bool:
    """Tell whether lines are as long as words, and not as sentences."""
    lines = [line.split() for line in head if line.strip()]
    room = sum(LONG_WORD if len(cells) == 1 else LONG_TAGGED for cells in lines)
    return sum(len(cell) for cells in lines for cell in cells) <= room


def is_segmented(head: Sequence[str]) -> bool:
    """Tell whether the words of lines have two spaces between them, nearly everywhere."""
    gaps = [gap for line in head for gap in re.findall(r"(?<=\S)\s+(?=\S)", line)]
    return bool(gaps) and sum(gap in ("  ", "\u3000\u3000") for gap in gaps) >= MOST * len(gaps)


def has_word_tags(head: Sequence[str]) -> bool:
    """Tell whether the words of lines are word/tag, nearly everywhere."""
    words = [word for line in head for word in line.split()]
    return sum(bool(_TAGGED_WORD.fullmatch(word)) for word in words) >= MOST * len(words)


def _sentences(file: Path, quarantine: Quarantine) -> Iterator[tuple[int, list[str]]]:
    """Yield what stands between blank lines; a sentence that lost a line is set aside."""
    for is_blank, group in groupby(read_every_line(file, quarantine), key=_is_blank):
        if is_blank:
            continue
        numbered = list(islice(group, LONGEST_SENTENCE + 1))
        begin = numbered[0][0]
        lines = [line.rstrip("\r\n") for _, line in numbered if line is not None]
        if len(lines) < len(numbered):
            quarantine.add(file, begin, "a line of this sentence cannot be read")
        elif len(lines) > LONGEST_SENTENCE:
            reason = f"more than {LONGEST_SENTENCE:,} lines without a blank one between sentences"
            quarantine.add(file, begin, reason)
        else:
            yield begin, lines


def _is_blank(numbered: tuple[int, str | None]) -> bool:
    return numbered[1] is not None and not numbered[1].strip()


def _width(lines: Sequence[str]) -> int:
    """Return how many columns most lines have, not counting those with a space for a token."""
    flush = [line for line in lines if not _begins_blank(line, _indent(lines))]
    counts = Counter(map(len, _conll_table(flush) or _conll_table(lines)))
    return counts.most_common(1)[0][0] if counts else 0


def _conll_table(lines: Sequence[str], width: int = 0, *, indent: int = 0) -> list[list[str]]:
    """Return the cells of lines; a space where the token of a line should be is a blank token."""
    cells = ((line, _conll_cells(line)) for line in lines if line.strip())
    return [
        ["", *found] if _begins_blank(line, indent) and len(found) == width - 1 else found
        for line, found in cells
        if found[0] != _DOCUMENT
    ]


def _indent(lines: Sequence[str]) -> int:
    """Return how many spaces all lines begin with, which mean nothing."""
    return min((_num_spaces(line) for line in lines if line.strip()), default=0)


def _begins_blank(line: str, indent: int) -> bool:
    return _num_spaces(line) > indent and "\t" not in line


def _num_spaces(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _conll_cells(line: str) -> list[str]:
    if "\t" in line:
        return [cell.strip() for cell in line.rstrip().split("\t")]
    return [cell.strip() for cell in line.split(" ") if cell]


def _conll_row(cells: Sequence[list[str]], width: int, at: Mapping[str, int]) -> dict[str, Any]:
    """Return a sentence as a row; its lines must be as wide as those of the whole file."""
    for number, line in enumerate(cells, start=1):
        if len(line) != width:
            raise DataError(
                f"line {number} of the sentence has {num_columns(line)}, but the file {width}"
            )
    place = at.get("tokens", 1) - 1
    if width == 1:
        return {"tokens": [line[place] for line in cells if line[place]]}
    last = at.get("tags", width) - 1
    pairs = pass_blanks((line[place], line[last]) for line in cells)
    return {"tokens": [token for token, _ in pairs], "tags": as_bioes([tag for _, tag in pairs])}


def as_bioes(tags: Sequence[str]) -> list[str]:
    """Return tags with the letters of BIOES where they have those of BMES or BILOU."""
    is_bare = set(tags) <= set("BMES")  # the words of a sentence, no kinds of words
    return [
        _OTHER_SCHEMES[tag[0]] + tag[1:]
        if tag[:1] in _OTHER_SCHEMES and (tag[1:2] == "-" or is_bare)
        else tag
        for tag in tags
    ]


def _character_tags(word: str, kind: str, *, with_kind: bool) -> list[str]:
    ending = f"-{kind}" if with_kind else ""
    if len(word) == 1:
        return ["S" + ending]
    return ["B" + ending, *["I" + ending] * (len(word) - 2), "E" + ending]


def _require_places(file: Path, at: Mapping[str, int], width: int) -> None:
    for ours, place in at.items():
        if place > width:
            raise UsageError(
                f"{file} has {num_columns(range(width))}; --columns {ours}={place} is none of them"
            )


def _place(file: Path, ours: str, theirs: str) -> int:
    if not theirs.isdecimal() or theirs == "0":
        raise UsageError(f"{file} has no header; give --columns {ours}= its number, from 1 on")
    return int(theirs)
