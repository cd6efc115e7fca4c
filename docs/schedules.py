"""Draw the learning-rate schedules of docs/training.md from the code itself.

python docs/schedules.py            rewrite docs/schedules.svg
python docs/schedules.py --check    change nothing; exit 1 when the picture is stale
"""

import argparse
import sys
from pathlib import Path
from typing import get_args

from bertworks.training.schedule import Schedule, ScheduleName

PICTURE = Path(__file__).resolve().with_suffix(".svg")
WARMUP, DECAY, POINTS = 0.1, 0.2, 200
WIDTH, HEIGHT, GAP, LEFT, TOP = 190, 110, 30, 16, 40
STYLE = """
    .frame { fill: #f6f8fa; stroke: #57606a; }
    .name { fill: #1f2328; font: 600 15px system-ui, sans-serif; text-anchor: middle; }
    .note { fill: #57606a; font: 12px system-ui, sans-serif; text-anchor: middle; }
    .rate { fill: none; stroke: #0a58ca; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
      .frame { fill: #161b22; stroke: #8b949e; }
      .name { fill: #e6edf3; }
      .note { fill: #8b949e; }
      .rate { stroke: #79b8ff; }
    }"""


def main() -> None:
    """Write the picture, or tell that it is stale."""
    parser = argparse.ArgumentParser(description="Draw the learning-rate schedules.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    drawn = picture()
    is_stale = not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != drawn
    if parser.parse_args().check:
        sys.exit(f"{PICTURE.name} is stale; run python docs/schedules.py" if is_stale else 0)
    PICTURE.write_text(drawn, encoding="utf-8")


def picture() -> str:
    """Return the picture of all schedules, side by side."""
    names = get_args(ScheduleName)
    width = 2 * LEFT + len(names) * (WIDTH + GAP) - GAP
    panels = "\n".join(panel(name, LEFT + i * (WIDTH + GAP)) for i, name in enumerate(names))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + 34}" \
role="img" aria-labelledby="title text">
  <title id="title">The learning rate over a run</title>
  <desc id="text">Each schedule rises in a line over the first tenth of the run. Linear then
    falls in a line, cosine along half a wave, stable stays and falls in the last fifth, fast at
    first; all three end at nothing. Root falls ever more slowly, constant stays.</desc>
  <style>{STYLE}
  </style>
{panels}
</svg>
"""


def panel(name: ScheduleName, left: int) -> str:
    """Draw one schedule."""
    places = [number / POINTS for number in range(POINTS + 1)]
    points = " ".join(
        f"{left + place * WIDTH:.1f},{TOP + HEIGHT * (1 - rate(name, place)):.1f}"
        for place in places
    )
    middle = left + WIDTH // 2
    return f"""  <g>
    <text class="name" x="{middle}" y="{TOP - 14}">{name}</text>
    <rect class="frame" x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>
    <polyline class="rate" points="{points}"/>
    <text class="note" x="{middle}" y="{TOP + HEIGHT + 20}">share of the run</text>
  </g>"""


def rate(name: ScheduleName, place: float) -> float:
    """Return the share of the highest rate at a place of the run."""
    return Schedule(name=name, warmup=WARMUP, decay=DECAY).at(place, end=1.0)


if __name__ == "__main__":
    main()
