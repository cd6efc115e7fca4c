// How answers look: bars, verdicts, marked texts, ranked lists.

import { make, withShare } from "./elements.js";
import { language, say } from "./words.js";

const MOST_BARS = 10;
const NUM_COLORS = 6;

export function percent(share) {
  const style = { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return written(share, style);
}

export function decimal(value, digits = 3) {
  return written(value, { maximumFractionDigits: digits });
}

// With as many digits as others that stand above and below.
function aligned(value) {
  return written(value, { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}

function written(value, style) {
  if (!Number.isFinite(value)) throw new TypeError("no number");
  return new Intl.NumberFormat(language(), style).format(value).replace("-", "−");
}

// What the answer comes to, in large letters.
export function verdict(words, aside) {
  return make("p", { class: "verdict" }, make("strong", {}, words), " ", make("span", { class: "soft" }, aside));
}

// Rows of { name, share, value }; with `choose` each is a button.
export function bars(rows, { chosen, choose } = {}) {
  const list = make("ol", { class: "bars" });
  const show = (most) => list.replaceChildren(...rows.slice(0, most).map(row));
  function row({ name, share, value }, place) {
    const parts = [
      make("span", { class: "name", dir: "auto" }, name),
      make("span", { class: "track", "aria-hidden": "true" }, withShare(make("span", { class: "bar" }), share)),
      make("span", { class: "value" }, value ?? percent(share)),
    ];
    if (!choose) return make("li", { class: "row" }, parts);
    const attributes = { type: "button", class: "row", "aria-pressed": String(place === chosen) };
    return make("li", {}, make("button", { ...attributes, click: () => choose(place) }, parts));
  }
  show(MOST_BARS);
  if (rows.length <= MOST_BARS) return list;
  const more = make("button", {
    type: "button", class: "quiet", click: () => { show(rows.length); more.remove(); },
  }, say("show.all", { count: rows.length }));
  return make("div", {}, list, more);
}

export function likeliest(probabilities) {
  return Object.entries(probabilities)
    .sort((one, other) => other[1] - one[1])
    .map(([name, share]) => ({ name, share }));
}

// Spans of { start, end, label? } in a text; places are counted in characters, not in UTF-16 units.
export function markedText(text, spans, colorOf = () => 0) {
  const characters = Array.from(text);
  const line = make("p", { class: "marked", dir: "auto" });
  let behind = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    if (span.start < behind) continue;
    const label = span.label ? make("small", {}, span.label) : null;
    const words = characters.slice(span.start, span.end).join("");
    line.append(characters.slice(behind, span.start).join(""));
    line.append(make("mark", { class: `c${colorOf(span.label)}` }, words, label));
    behind = span.end;
  }
  line.append(characters.slice(behind).join(""));
  return line;
}

// The same color for the same label, in the order in which they appear.
export function colors(labels) {
  const known = [...new Set(labels)];
  return (label) => Math.max(0, known.indexOf(label)) % NUM_COLORS;
}

export function table(heads, rows) {
  const cell = (tag, scope) => (value) =>
    make(tag, { scope, class: value.number ? "number" : null, dir: "auto" }, value.number ?? value);
  const body = rows.map((row) => make("tr", {}, row.map(cell("td"))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("table") },
    make("table", {}, make("thead", {}, make("tr", {}, heads.map(cell("th", "col")))), make("tbody", {}, body)));
}

// Texts with scores, the best first.
export function ranked(rows) {
  const scores = rows.map((row) => row.score);
  const [least, most] = [Math.min(0, ...scores), Math.max(1, ...scores)];
  const item = ({ text, score }) => {
    const share = (score - least) / (most - least);
    return make("li", {},
      make("span", { class: "text", dir: "auto" }, text),
      make("span", { class: "track", "aria-hidden": "true" }, withShare(make("span", { class: "bar" }), share)),
      make("span", { class: "value" }, aligned(score)));
  };
  return make("ol", { class: "ranked" }, rows.map(item));
}

// A number between -1 and 1 on a scale.
export function gauge(value) {
  const ends = make("div", { class: "ends soft", "aria-hidden": "true" },
    make("span", {}, "−1"), make("span", {}, "0"), make("span", {}, "1"));
  const needle = withShare(make("span", { class: "needle" }), (value + 1) / 2);
  return make("div", { class: "gauge" }, make("div", { class: "scale", "aria-hidden": "true" }, needle), ends);
}

export const note = (text) => make("p", { class: "soft" }, text);
