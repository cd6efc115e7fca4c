"""Pictures for pages: curves, bars, ranges, points beside a diagonal, and matrices of cells.

Each is an SVG that is complete by itself; its colors are the page's.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from bertworks.evaluation.report_blocks import Estimate, Point, number
from bertworks.evaluation.report_style import COLORS

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 300, 92, 40, 16, 20
SQUARE = 360  # the side of a picture whose axes are alike
CELLS = 680  # the side of a matrix
SHADES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)  # shares from which a cell is darker
ROW = 26  # the height of a range
MOST_TICKS = 6
TINIEST = 1e-300  # what still can be divided
Box = tuple[float, float, float, float]


def curve_chart(
    curves: Mapping[str, Sequence[Point]], *, mark: tuple[float, str] | None = None
) -> str:
    """Draw curves, all points of which are numbers, and a line across at a marked place."""
    xs = [x for points in curves.values() for x, _ in points]
    ys = [y for points in curves.values() for _, y in points]
    low, high = min(ys), max(ys)
    margin = (high - low or abs(high) or 1.0) * 0.05
    box = (min(xs), max(xs), low - margin, high + margin)
    parts = [_axes(box)]
    if mark is not None and box[0] <= mark[0] <= box[1]:
        parts.append(_mark(mark, box))
    for order, points in enumerate(curves.values()):
        color = order % len(COLORS)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_place(point, box) for point in points))
        parts.append(
            f'<polyline points="{path}" class="c{color}" fill="none" stroke="{COLORS[color]}" '
            'stroke-width="2" stroke-linejoin="round"/>'
        )
    return _svg(WIDTH, HEIGHT, parts)


def legend(names: Sequence[str]) -> str:
    """Name the curves above the chart, where no curve can run over them."""
    colored = (
        f'<span class="key c{order % len(COLORS)}">{escape(name)}</span>'
        for order, name in enumerate(names)
    )
    return f"<div>{' · '.join(colored)}</div>"


def bar_chart(bars: Sequence[tuple[str, float]]) -> str:
    """Draw named numbers of at least zero side by side."""
    width = (WIDTH - 2 * RIGHT) / len(bars)
    highest = max(value for _, value in bars) or 1
    parts = []
    for place, (name, value) in enumerate(bars):
        x, height = RIGHT + place * width, value / highest * (HEIGHT - BOTTOM - 2 * TOP)
        y, middle = HEIGHT - BOTTOM - height, x + width / 2
        parts.append(
            f'<rect class="bar" x="{x + 1:.1f}" y="{y:.1f}" width="{max(width - 2, 1):.1f}" '
            f'height="{height:.1f}"/>'
            f'<text x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">{_brief(value)}</text>'
            f'<text x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(name)}</text>'
        )
    return _svg(WIDTH, HEIGHT, parts, kind="bars")


def diagonal_chart(points: Sequence[tuple[float, float, int]], *, axes: tuple[str, str]) -> str:
    """Draw points between 0 and 1 by their weights beside the diagonal on which they should lie."""
    left = 52
    side = SQUARE - left - 12

    def place(x: float, y: float) -> Point:
        return left + x * side, 12 + (1 - y) * side

    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = place(share, share)
        parts.append(
            f'<line class="grid" x1="{left}" x2="{left + side}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{share:g}</text>'
            f'<text x="{x:.1f}" y="{side + 28}" text-anchor="middle">{share:g}</text>'
        )
    (x1, y1), (x2, y2) = place(0, 0), place(1, 1)
    parts.append(f'<line class="mark" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    most = max((count for *_, count in points), default=1) or 1
    drawn = [(place(x, y), 3 + 7 * math.sqrt(count / most)) for x, y, count in points]
    for ((ax, ay), _), ((bx, by), _) in pairwise(drawn):
        parts.append(f'<line class="c0" x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{by:.1f}"/>')
    parts += [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>' for (x, y), r in drawn]
    middle = left + side / 2
    parts.append(
        f'<text x="{middle:.0f}" y="{side + 46}" text-anchor="middle">{escape(axes[0])}</text>'
        f'<text transform="translate(13 {12 + side / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(axes[1])}</text>"
    )
    return _svg(SQUARE, side + 54, parts, kind="square")


def forest_chart(rows: Sequence[Estimate]) -> str:
    """Draw ranges below each other around the line of zero; all of them have bounds."""
    ends = [0.0, *(end for row in rows for end in row.bounds or ())]
    ends += [row.value for row in rows if row.value is not None and math.isfinite(row.value)]
    low, high = min(ends), max(ends)
    margin = (high - low or 1.0) * 0.06
    left, height = 250, ROW * len(rows) + 30

    def x_of(value: float) -> float:
        share = (value - low + margin) / (high - low + 2 * margin)
        return left + share * (WIDTH - left - RIGHT)

    zero = x_of(0.0)
    parts = [f'<line class="mark" x1="{zero:.1f}" x2="{zero:.1f}" y1="4" y2="{height - 22}"/>']
    for order, row in enumerate(rows):
        y = ROW * order + ROW / 2 + 4
        begin, end = row.bounds or (0.0, 0.0)
        name = row.name if len(row.name) <= 24 else row.name[:23] + "…"
        parts.append(
            f'<text x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<line class="c0" stroke-width="3" x1="{x_of(begin):.1f}" x2="{x_of(end):.1f}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle class="dot" cx="{x_of(row.value or 0.0):.1f}" cy="{y:.1f}" r="5"/>'
        )
    for value in sorted({low, 0.0, high}):
        parts.append(
            f'<text x="{x_of(value):.1f}" y="{height - 6}" text-anchor="middle">'
            f"{number(value)}</text>"
        )
    return _svg(WIDTH, height, parts, kind="ranges")


def cell_chart(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Draw a matrix of many labels: each cell as dark as its share of its row.

    Cells of one shade are one path, so that many labels stay a small picture.
    """
    names = [label if len(label) <= 18 else label[:17] + "…" for label in labels]
    margin = 10 + 4 * max(map(len, names))
    size = (CELLS - margin) / len(labels)
    paths: dict[tuple[bool, int], list[str]] = {}
    for row, own in enumerate(counts):
        total = sum(own)
        for column, count in enumerate(own):
            if count:
                shade = sum(count / total >= least for least in SHADES)
                x, y = margin + column * size, margin + row * size
                cell = f"M{x:.1f} {y:.1f}h{size:.1f}v{size:.1f}h-{size:.1f}z"
                paths.setdefault((row == column, shade), []).append(cell)
    side = CELLS - margin
    parts = [
        f'<rect class="grid" x="{margin}" y="{margin}" width="{side}" height="{side}" fill="none"/>'
    ]
    for (is_right, shade), cells in sorted(paths.items()):
        opacity = 0.2 + 0.8 * shade / len(SHADES)
        kind = "right" if is_right else "wrong"
        parts.append(f'<path class="{kind}" fill-opacity="{opacity:.2f}" d="{"".join(cells)}"/>')
    for order, name in enumerate(map(escape, names)):
        at = margin + (order + 0.5) * size + 2
        parts.append(
            f'<text x="{margin - 4}" y="{at:.1f}" text-anchor="end">{name}</text>'
            f'<text transform="translate({at:.1f} {margin - 4}) rotate(-90)">{name}</text>'
        )
    return _svg(CELLS, CELLS, parts, kind="cells")


def _svg(width: float, height: float, parts: Sequence[str], *, kind: str = "plot") -> str:
    style = "" if kind == "cells" or width == WIDTH else f' style="max-width:{width}px"'
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" role="img"{style}>'
        f"{''.join(parts)}</svg>"
    )


def _brief(value: float) -> str:
    """Write a count so that it fits above a bar."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size:
            return f"{value / size:,.0f}{letter}"
    return f"{value:,.0f}"


def _mark(mark: tuple[float, str], box: Box) -> str:
    x, _ = _place((mark[0], box[2]), box)
    anchor, shift = ("end", -5) if x > WIDTH / 2 else ("start", 5)
    return (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        f'<text x="{x + shift:.1f}" y="{TOP + 10}" text-anchor="{anchor}">{escape(mark[1])}</text>'
    )


def _axes(box: Box) -> str:
    x_low, x_high, y_low, y_high = box
    parts = []
    for value in _ticks(y_low, y_high):
        _, y = _place((x_low, value), box)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{_tick(value)}</text>'
        )
    for value in _ticks(x_low, x_high):
        x, _ = _place((value, y_low), box)
        anchor = "end" if x > WIDTH - 2 * RIGHT else "middle"  # what is centered there is cut off
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="{anchor}">{_tick(value)}</text>'
        )
    return "".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two, a few of them."""
    span = high - low
    if span < TINIEST:
        return [low]
    step = 10.0 ** math.floor(math.log10(span / MOST_TICKS))
    step *= next(times for times in (1, 2, 5, 10) if span / (step * times) <= MOST_TICKS)
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [own * step for own in numbers] or [low]


def _tick(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def _place(point: Point, box: Box) -> Point:
    x_low, x_high, y_low, y_high = box
    x = LEFT + (point[0] - x_low) / ((x_high - x_low) or 1) * (WIDTH - LEFT - RIGHT)
    y = HEIGHT - BOTTOM - (point[1] - y_low) / ((y_high - y_low) or 1) * (HEIGHT - BOTTOM - TOP)
    return x, y
