"""The same report as Markdown: to paste where HTML does not go."""

import re
from collections.abc import Iterator, Sequence

from bertworks.evaluation.report_blocks import (
    Block,
    Cards,
    Cell,
    Code,
    Curves,
    Diagonal,
    Estimate,
    Examples,
    Forest,
    Heading,
    Matrix,
    Piece,
    Shown,
    Table,
    Text,
    number,
)

MOST_COLUMNS = 24  # labels of a matrix that is a table
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
_BEGINNING = re.compile(r"^(\d*)([-+.)])")  # of a list or a line across
_LINE_BREAKS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


def markdown_page(title: str, blocks: Sequence[Block]) -> str:
    """Return a page; nothing in it that came from data is read as Markdown or HTML."""
    parts = [f"# {plain(title)}", *(part for block in blocks for part in _parts(block))]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Return a text so that it stands in one line as it is."""
    return _LINE_BREAKS.sub(" ", _SPECIAL.sub(r"\\\1", text)).strip()


def _parts(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield f"{'#' * block.level} {plain(block.text)}"
        case Text():
            yield plain(block.text)
        case Code():
            yield _fenced(block.text)
        case Table():
            yield _table(block.header, block.rows)
        case Cards():
            yield "\n".join(f"- {plain(card.name)}: **{card}**" for card in block.cards)
        case Curves():
            yield from _curves(block)
        case _:
            yield from _of_pictures(block)


def _of_pictures(block: Block) -> Iterator[str]:
    match block:
        case Matrix() if len(block.labels) <= MOST_COLUMNS:
            rows = [
                (label, *(number(count) for count in counts))
                for label, counts in zip(block.labels, block.counts, strict=True)
            ]
            yield _table(("gold, answer", *block.labels), rows)
        case Diagonal():
            rows = [(number(x), number(y), number(count)) for x, y, count in block.points]
            yield _table((*block.axes, "answers"), rows)
        case Forest():
            return  # the table beside it has the same numbers
        case Examples():
            yield from map(_example, block.examples)


def _fenced(text: str) -> str:
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}\n{text}\n{fence}"


def _table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    if not rows:
        return "none"
    lines = [map(plain, header), ["---"] * len(header), *(map(_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Cell) -> str:
    return str(value) if isinstance(value, Estimate) else plain(str(value))


def _curves(block: Curves) -> Iterator[str]:
    """Tell where each curve begins and ends, and its lowest and highest value."""
    rows = []
    for name, points in block.curves.items():
        values = [y for _, y in points]
        if values:
            ends = values[0], values[-1], min(values), max(values)
            rows.append((name, *map(number, ends)))
    if rows:
        yield f"{plain(block.title)}:"
        yield _table(("curve", "first", "last", "lowest", "highest"), rows)


def _example(shown: Shown) -> str:
    sure = "" if shown.confidence is None else f", confidence {number(shown.confidence)}"
    near = "" if shown.chrf is None else f", chrF {number(shown.chrf)}"
    lines = [f"- line {shown.line:,}{sure}{near}: gold **{plain(shown.gold)}**"]
    lines[0] += f", answer **{plain(shown.answer)}**"
    for name, pieces in shown.texts.items():
        text = _BEGINNING.sub(r"\1\\\2", "".join(map(_piece, pieces)).lstrip())
        lines.append(f"  - {plain(name)}: {text}" if name else f"  - {text}")
    return "\n".join(lines)


def _piece(piece: Piece) -> str:
    """Return a piece; spaces at its ends stay, for they part it from its neighbours."""
    text = _LINE_BREAKS.sub(" ", _SPECIAL.sub(r"\\\1", piece.text))
    return f"**{text}** ({plain(piece.marks)})" if piece.marks else text
