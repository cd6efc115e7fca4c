"""How pages look: on a screen by day and by night, on a telephone, and on paper."""

LIGHT = {
    "ink": "#1c2330",
    "soft": "#5c6675",
    "line": "#d9dee6",
    "ground": "#ffffff",
    "panel": "#f5f7fa",
    "good": "#1f8a54",
    "bad": "#c8501b",
    "place": "#7a5bd0",
    "c0": "#2560c8",
    "c1": "#c8501b",
    "c2": "#1f8a54",
    "c3": "#8a3fb0",
    "c4": "#a8780a",
    "c5": "#0f7f8c",
}
DARK = {
    "ink": "#e6e9ef",
    "soft": "#9aa5b5",
    "line": "#37404d",
    "ground": "#14181f",
    "panel": "#1d232c",
    "good": "#4cc38a",
    "bad": "#ff8f57",
    "place": "#b39dfb",
    "c0": "#7fb0ff",
    "c1": "#ff8f57",
    "c2": "#4cc38a",
    "c3": "#d08cf0",
    "c4": "#e0b64a",
    "c5": "#4cc9d6",
}
COLORS = tuple(LIGHT[f"c{number}"] for number in range(6))  # of curves


def _variables(colors: dict[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in colors.items())


def _strokes() -> str:
    names = (f"c{number}" for number in range(len(COLORS)))
    return " ".join(
        f"svg .{name} {{ stroke: var(--{name}); }} .key.{name} {{ color: var(--{name}); }}"
        for name in names
    )


STYLE = f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
* {{ box-sizing: border-box; }}
html {{ -webkit-text-size-adjust: 100%; }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 4rem; overflow-wrap: break-word; }}
h1 {{ font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; text-wrap: balance; }}
h2 {{ font-size: 1.25rem; margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }}
h3 {{ font-size: 1.05rem; margin: 1.6rem 0 .4rem; }}
p {{ margin: .5rem 0; }} .note {{ color: var(--soft); font-size: .92rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; max-width: 100%;
  font-variant-numeric: tabular-nums; margin: .6rem 0; background-repeat: no-repeat; background-image:
  linear-gradient(to right, var(--ground) 40%, transparent), linear-gradient(to left, var(--ground) 40%, transparent),
  linear-gradient(to right, var(--line), transparent), linear-gradient(to left, var(--line), transparent);
  background-position: left, right, left, right; background-size: 3rem 100%, 3rem 100%, 1.2rem 100%, 1.2rem 100%;
  background-attachment: local, local, scroll, scroll; }} /* shaded where more lies beside */
th, td {{ text-align: left; padding: .35rem 1.1rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }}
th {{ color: var(--soft); font-weight: 600; font-size: .88rem; white-space: nowrap; }}
td, th {{ unicode-bidi: plaintext; }} td {{ min-width: 7rem; max-width: 34rem; overflow-wrap: anywhere; }}
td:first-child {{ overflow-wrap: break-word; }}
.number {{ text-align: right; min-width: 0; white-space: nowrap; overflow-wrap: normal; }}
small {{ display: block; font-weight: 400; color: var(--soft); font-size: .78rem; white-space: nowrap; }}
.range {{ display: block; height: 4px; min-width: 5rem; margin-top: 3px; border-radius: 2px;
  background: linear-gradient(to right, var(--line) var(--from), var(--c0) 0 var(--to), var(--line) 0); }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(8.4rem, 1fr)); gap: .7rem;
  margin: 1.2rem 0; padding: 0; }}
.cards div {{ background: var(--panel); border: 1px solid var(--line); border-radius: .5rem;
  padding: .6rem .9rem; margin: 0; }}
.cards dt {{ color: var(--soft); font-size: .85rem; }}
.cards dd {{ margin: 0; font-size: 1.25rem; font-weight: 650; font-variant-numeric: tabular-nums; }}
.cards:not(.minor) div:first-child {{ border-color: var(--c0); }}
.cards:not(.minor) div:first-child dd {{ font-size: 1.9rem; line-height: 1.2; color: var(--c0); }}
.minor div {{ background: none; padding: .3rem .9rem .5rem; }} .minor dd {{ font-size: 1rem; }}
pre {{ background: var(--panel); border: 1px solid var(--line); padding: .8rem 1rem; overflow-x: auto;
  border-radius: .4rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .88rem; }}
figure {{ margin: 1.2rem 0; }} figcaption {{ font-weight: 600; }}
.wide {{ overflow-x: auto; }}
svg {{ width: 100%; height: auto; display: block; }}
svg text {{ font: 12px system-ui, sans-serif; fill: var(--soft); }} svg.plot text {{ font-size: 17px; }}
svg.ranges text {{ font-size: 15px; }}
.curves {{ display: inline-block; width: 49%; vertical-align: top; margin: .8rem 0; }} svg.cells text {{ font-size: 7px; }}
svg .grid {{ stroke: var(--line); }} svg .mark {{ stroke: var(--soft); stroke-dasharray: 4 4; }}
svg .bar {{ fill: var(--c0); }} svg .dot {{ fill: var(--c0); fill-opacity: .75; }}
svg .right {{ fill: var(--c0); }} svg .wrong {{ fill: var(--bad); }}
{_strokes()}
.matrix td, .matrix th {{ padding: .25rem .4rem; text-align: right; white-space: nowrap; font-size: .85rem; border: 1px solid var(--line);
  min-width: 2rem; overflow-wrap: normal; }}
.matrix th {{ font-weight: 500; max-width: 11rem; overflow: hidden; text-overflow: ellipsis; }}
.matrix thead th {{ vertical-align: bottom; }}
.matrix thead th.turned {{ writing-mode: vertical-rl; rotate: 180deg; text-align: left; max-height: 9rem;
  padding: .45rem .25rem; border-color: transparent; }}
.matrix th.side {{ position: sticky; left: 0; background: var(--ground); }}
.matrix .hit {{ background: color-mix(in srgb, var(--c0) var(--share), transparent); }}
.matrix .miss {{ background: color-mix(in srgb, var(--bad) var(--share), transparent); }}
.matrix .zero {{ color: var(--line); }}
.example {{ border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem; margin: .8rem 0;
  overflow-wrap: anywhere; }}
.example header {{ color: var(--soft); font-size: .85rem; display: flex; flex-wrap: wrap; gap: .1rem .9rem; }}
.example p {{ margin: .35rem 0; white-space: pre-line; }} .example b {{ font-weight: 600; }}
.example b.gold {{ color: var(--good); }} .example b.answer {{ color: var(--bad); }}
.verdict {{ display: inline-block; padding-inline-end: 1.6rem; }}
.name {{ color: var(--soft); font-size: .8rem; margin-inline-end: .5rem; }}
mark {{ color: inherit; background: none; border-radius: .2rem; padding: .05rem .15rem; }}
mark.gold {{ background: color-mix(in srgb, var(--good) 16%, transparent); border-bottom: 2px solid var(--good); }}
mark.answer {{ background: color-mix(in srgb, var(--bad) 18%, transparent); border-bottom: 2px dashed var(--bad); }}
mark.right {{ border-bottom: 2px solid var(--line); }}
mark.gold.answer {{ border-bottom: 2px dashed var(--bad);
  background: linear-gradient(color-mix(in srgb, var(--good) 26%, transparent), color-mix(in srgb, var(--bad) 26%, transparent)); }}
mark.place {{ background: color-mix(in srgb, var(--place) 18%, transparent); border-bottom: 2px solid var(--place); }}
mark sub {{ font-size: .7rem; margin-inline-start: .25rem; color: var(--soft); vertical-align: baseline; }}
.gap {{ color: var(--soft); }}
@media (max-width: 40rem) {{
  body {{ padding: 1.2rem .8rem 3rem; font-size: 15px; }} h1 {{ font-size: 1.35rem; }}
  th, td {{ padding-right: .5rem; font-size: .85rem; }} td {{ min-width: 5rem; }} td:first-child {{ min-width: 3.4rem; }}
  th {{ font-size: .78rem; }} table:not(.matrix) td:last-child:not(.number) {{ min-width: 10rem; }}
  td small {{ font-size: .72rem; white-space: normal; }} td .range {{ min-width: 0; }} .cards {{ grid-template-columns: repeat(2, 1fr); gap: .5rem; }}
  .cards:not(.minor) div:first-child {{ grid-column: 1 / -1; }} .wide svg {{ min-width: 40rem; }}
  .curves {{ display: block; width: auto; }} svg.plot text {{ font-size: 22px; }} svg.ranges text {{ font-size: 20px; }}
}}
@media print {{
  :root {{ color-scheme: light; {_variables(LIGHT)} }}
  * {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
  @page {{ margin: 15mm; }}
  body {{ font-size: 10pt; max-width: none; padding: 0; }}
  h2 {{ margin-top: 1.4rem; }} h2, h3, figcaption {{ break-after: avoid; }}
  figure, tr, .example, .cards div, pre {{ break-inside: avoid; }} figure svg {{ max-height: 11cm; }}
  table {{ display: table; font-size: 9pt; background: none; }} thead {{ display: table-header-group; }}
  .matrix td, .matrix th {{ font-size: 7pt; padding: .1rem .2rem; min-width: 0; }}
  .example {{ border-color: var(--soft); }} td {{ min-width: 0; }}
}}
"""
