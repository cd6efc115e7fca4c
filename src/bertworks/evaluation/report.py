"""The page a person looks at: one self-contained HTML file with tables and pictures."""

import math
import re
from collections.abc import Sequence
from html import escape

from bertworks.evaluation.charts import (
    bar_chart,
    cell_chart,
    curve_chart,
    diagonal_chart,
    forest_chart,
    legend,
)
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
    Point,
    Shown,
    Table,
    Text,
    number,
)
from bertworks.evaluation.report_style import STYLE

_DIGITS = r"[-−+]?[\d.,]+(e[-+]\d+)?"
_NUMBER = re.compile(rf"{_DIGITS}( ?%| \[{_DIGITS},? {_DIGITS}\])?|none|nan|inf|–|no number")
MOST_COUNTED = 24  # labels of a matrix whose cells can be read as numbers
TURNED = 6  # labels from which their names stand upright above a matrix


class Page:
    """A page that grows from top to bottom."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts = [f"<h1>{escape(title)}</h1>"]

    def add(self, block: Block) -> None:
        """Add whatever a report is made of."""
        match block:
            case Heading():
                level = block.level
                self.parts.append(f"<h{level}>{escape(block.text)}</h{level}>")
            case Text():
                note = ' class="note"' * block.is_note
                self.parts.append(f"<p{note}>{escape(block.text)}</p>")
            case Code():
                self.parts.append(f"<pre>{escape(block.text)}</pre>")
            case Table():
                self.parts.append(_table(block.header, block.rows))
            case Curves():
                self.parts += _curves(block)
            case _:
                self.parts.append(_picture(block))

    def heading(self, text: str) -> None:
        """Begin a section."""
        self.add(Heading(text))

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self.add(Text(text))

    def code(self, text: str) -> None:
        """Add something to copy."""
        self.add(Code(text))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Add a table; an empty one says so."""
        self.add(Table(header, rows))

    def curves(self, title: str, curves: dict[str, list[Point]]) -> None:
        """Add a chart of one or more curves over the same axis; what is no number is counted."""
        self.add(Curves(title, curves))

    def bars(self, title: str, bars: Sequence[tuple[str, float]]) -> None:
        """Add a chart of named numbers of at least zero, side by side."""
        if bars:
            self.parts.append(_figure(title, bar_chart(bars)))

    def html(self) -> str:
        """Return the whole page."""
        body = "\n".join(self.parts)
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{STYLE}</style></head>"
            f"<body>{body}</body></html>\n"
        )


def _picture(block: Block) -> str:
    match block:
        case Cards():
            return _cards(block)
        case Matrix():
            return _matrix(block)
        case Diagonal():
            points = [point for point in block.points if all(map(math.isfinite, point))]
            chart = diagonal_chart(points, axes=block.axes)
            return _figure(block.title, chart) if points else ""
        case Forest():
            rows = [row for row in block.rows if row.bounds and _is_finite((row.value or 0.0, 0.0))]
            return _figure(block.title, forest_chart(rows)) if rows else ""
        case Examples():
            return "\n".join(map(_example, block.examples))
    raise TypeError(f"a page knows no {type(block).__name__}")


def _figure(title: str, chart: str, *, kind: str = "picture") -> str:
    return f"<figure class={kind}><figcaption>{escape(title)}</figcaption>{chart}</figure>"


def _table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    if not rows:
        return '<p class="note">none</p>'
    is_number = [all(map(_is_number, column)) for column in zip(*rows, strict=True)]
    head = f"<thead>{_row('th', header, is_number)}</thead>"
    body = "".join(_row("td", row, is_number) for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _row(cell: str, values: Sequence[Cell], is_number: Sequence[bool]) -> str:
    """Return a row; columns of numbers end at the right, so that they can be compared."""
    cells = (
        f"<{cell}{' class=number' * right}>{_shown(value)}</{cell}>"
        for value, right in zip(values, is_number, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _shown(value: Cell) -> str:
    if not isinstance(value, Estimate):
        return escape(str(value))
    return escape(number(value.value)) + _range(value)


def _range(estimate: Estimate) -> str:
    """Return the bounds of an estimate, and of a share also as a picture."""
    if estimate.bounds is None:
        return ""
    low, high = estimate.bounds
    told = f"<small>{number(low)} to {number(high)}</small>"
    if not estimate.is_share:
        return told
    ends = f"--from:{100 * low:.1f}%;--to:{max(100 * high, 100 * low + 1):.1f}%"
    return f'{told}<i class="range" style="{ends}"></i>'


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, Estimate) or _NUMBER.fullmatch(str(cell)) is not None


def _cards(block: Cards) -> str:
    cards = (
        f"<div><dt>{escape(card.name)}</dt><dd>{_shown(card)}</dd></div>" for card in block.cards
    )
    return f'<dl class="{"minor " * block.is_minor}cards">{"".join(cards)}</dl>'


def _curves(block: Curves) -> list[str]:
    """Return a chart of what can be drawn, and a sentence about what cannot."""
    finite = {name: [p for p in curve if _is_finite(p)] for name, curve in block.curves.items()}
    shown = {name: points for name, points in finite.items() if len(points) > 1}
    parts = []
    if shown:
        chart = legend(list(shown)) + curve_chart(shown, mark=block.mark)
        parts.append(_figure(block.title, chart, kind="curves"))
    lost = sum(len(block.curves[name]) - len(finite[name]) for name in block.curves)
    if lost:
        parts.append(
            f'<p class="note">{escape(block.title)}: {lost} values that are no finite numbers '
            "are not drawn.</p>"
        )
    return parts


def _is_finite(point: Point) -> bool:
    return all(map(math.isfinite, point))


def _matrix(block: Matrix) -> str:
    """Return a table of counts, or a picture where there are too many of them to read."""
    if len(block.labels) > MOST_COUNTED:
        return f'<figure class="wide">{cell_chart(block.labels, block.counts)}</figure>'
    turned = ' class="turned"' * (len(block.labels) > TURNED)
    head = "".join(f"<th{turned}>{escape(label)}</th>" for label in block.labels)
    rows = []
    for order, (label, counts) in enumerate(zip(block.labels, block.counts, strict=True)):
        total = sum(counts)
        cells = "".join(
            _count(count, total, is_hit=order == column) for column, count in enumerate(counts)
        )
        rows.append(f'<tr><th class="side">{escape(label)}</th>{cells}</tr>')
    return (
        f'<table class="matrix"><thead><tr><th class="side">gold ↓ answer →</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _count(count: int, total: int, *, is_hit: bool) -> str:
    if not count:
        return '<td class="zero">0</td>'
    kind = "hit" if is_hit else "miss"
    return f'<td class="{kind}" style="--share:{10 + 60 * count / total:.0f}%">{count:,}</td>'


def _example(shown: Shown) -> str:
    told = [f"<span>line {shown.line:,}</span>"]
    if shown.confidence is not None:
        told.append(f"<span>confidence {number(shown.confidence)}</span>")
    if shown.chrf is not None:
        told.append(f"<span>chrF {number(shown.chrf)}</span>")
    texts = "".join(_text(name, pieces) for name, pieces in shown.texts.items())
    return (
        f'<article class="example"><header>{"".join(told)}</header>{texts}'
        f"{_verdict('gold', shown.gold)}{_verdict('answer', shown.answer)}</article>"
    )


def _verdict(side: str, words: str) -> str:
    told = f'<span class="name">{side}</span><b class="{side}">{escape(words)}</b>'
    return f'<p class="verdict" dir="auto">{told}</p> '


def _text(name: str, pieces: Sequence[Piece]) -> str:
    label = f'<span class="name">{escape(name)}</span>' if name else ""
    return f'<p dir="auto">{label}{"".join(map(_piece, pieces))}</p>'


def _piece(piece: Piece) -> str:
    text = escape(piece.text)
    if piece.is_gap:
        return f'<span class="gap">{text}</span>'
    sides = {"gold": piece.gold, "answer": piece.answer, "place": piece.place}
    kind = "right" if piece.is_right else " ".join(side for side, label in sides.items() if label)
    return f'<mark class="{kind}">{text}<sub>{escape(piece.marks)}</sub></mark>' if kind else text
