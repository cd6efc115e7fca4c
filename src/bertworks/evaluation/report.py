"""The page a person looks at: one self-contained HTML file with tables, curves and bars."""

import math
import re
from collections.abc import Sequence
from html import escape

Point = tuple[float, float]

STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; border-radius: .3rem; white-space: pre-wrap; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.note { opacity: .75; } figure { margin: 1rem 0; } figcaption { font-weight: 600; }
"""
_NUMBER = re.compile(r"[-−]?[\d.,]+ ?%?|none|nan|inf")
COLORS = ("#2f6fde", "#d9662b", "#2e9e5b", "#a24bc4")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 260, 56, 30, 12, 12


class Page:
    """A page that grows from top to bottom."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts = [f"<h1>{escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        """Begin a section."""
        self.parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(f"<p>{escape(text)}</p>")

    def code(self, text: str) -> None:
        """Add something to copy."""
        self.parts.append(f"<pre>{escape(text)}</pre>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table; an empty one says so."""
        if not rows:
            self.parts.append('<p class="note">none</p>')
            return
        is_number = [all(map(_is_number, column)) for column in zip(*rows, strict=True)]
        lines = [_row("th", header, is_number), *(_row("td", row, is_number) for row in rows)]
        self.parts.append(f"<table>{''.join(lines)}</table>")

    def curves(self, title: str, curves: dict[str, list[Point]]) -> None:
        """Add a chart of one or more curves over the same axis; what is no number is counted."""
        finite = {name: [p for p in curve if _is_finite(p)] for name, curve in curves.items()}
        shown = {name: points for name, points in finite.items() if len(points) > 1}
        if shown:
            chart = _legend(list(shown)) + _chart(shown)
            self.parts.append(f"<figure><figcaption>{escape(title)}</figcaption>{chart}</figure>")
        lost = sum(len(curves[name]) - len(finite[name]) for name in curves)
        if lost:
            self.parts.append(
                f'<p class="note">{escape(title)}: {lost} values that are no finite numbers '
                "are not drawn.</p>"
            )

    def bars(self, title: str, bars: Sequence[tuple[str, float]]) -> None:
        """Add a chart of named numbers of at least zero, side by side."""
        if bars:
            chart = f"<figcaption>{escape(title)}</figcaption>{_bars(bars)}"
            self.parts.append(f"<figure>{chart}</figure>")

    def html(self) -> str:
        """Return the whole page."""
        body = "\n".join(self.parts)
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{STYLE}</style></head>"
            f"<body>{body}</body></html>\n"
        )


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(str(cell)) is not None


def _is_finite(point: Point) -> bool:
    return all(map(math.isfinite, point))


def _row(cell: str, values: Sequence[str], is_number: Sequence[bool]) -> str:
    """Return a row; columns of numbers end at the right, so that they can be compared."""
    cells = (
        f"<{cell}{' class=number' * right}>{escape(str(value))}</{cell}>"
        for value, right in zip(values, is_number, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _chart(curves: dict[str, list[Point]]) -> str:
    xs = [x for points in curves.values() for x, _ in points]
    ys = [y for points in curves.values() for _, y in points]
    low, high = min(ys), max(ys)
    margin = (high - low or abs(high) or 1.0) * 0.05
    box = (min(xs), max(xs), low - margin, high + margin)
    parts = [_axes(box)]
    for number, points in enumerate(curves.values()):
        color = COLORS[number % len(COLORS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_place(point, box) for point in points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8"/>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _bars(bars: Sequence[tuple[str, float]]) -> str:
    width = (WIDTH - LEFT - RIGHT) / len(bars)
    highest = max(number for _, number in bars) or 1
    parts = []
    for place, (name, number) in enumerate(bars):
        x, height = LEFT + place * width, number / highest * (HEIGHT - BOTTOM - 2 * TOP)
        y, middle = HEIGHT - BOTTOM - height, x + width / 2
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{max(width - 2, 1):.1f}" '
            f'height="{height:.1f}" fill="{COLORS[0]}"/>'
            f'<text x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">{_brief(number)}</text>'
            f'<text x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(name)}</text>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _brief(number: float) -> str:
    """Write a count so that it fits above a bar."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 10 * size:
            return f"{number / size:,.0f}{letter}"
    return f"{number:,.0f}"


def _legend(names: Sequence[str]) -> str:
    """Name the curves above the chart, where no curve can run over them."""
    colored = (
        f'<span style="color:{COLORS[number % len(COLORS)]}">{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f"<div>{' · '.join(colored)}</div>"


def _axes(box: tuple[float, float, float, float]) -> str:
    x_low, x_high, y_low, y_high = box
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = y_low + share * (y_high - y_low)
        _, y = _place((x_low, value), box)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
        step = x_low + share * (x_high - x_low)
        x, _ = _place((step, y_low), box)
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{step:,.0f}</text>'
        )
    return "".join(parts)


def _place(point: Point, box: tuple[float, float, float, float]) -> Point:
    x_low, x_high, y_low, y_high = box
    x = LEFT + (point[0] - x_low) / ((x_high - x_low) or 1) * (WIDTH - LEFT - RIGHT)
    y = HEIGHT - BOTTOM - (point[1] - y_low) / ((y_high - y_low) or 1) * (HEIGHT - BOTTOM - TOP)
    return x, y
