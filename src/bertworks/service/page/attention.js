// Which piece looks at which: a map of all attention heads, and one of them in lines.

import { draw, make, withShare } from "./elements.js";
import { note, percent } from "./views.js";
import { say } from "./words.js";

const MEAN = -1; // of all attention heads
const LEAST = 0.02; // weights below are not drawn
const MOST_LINES = 1500;
const CELL = 26;
const MOST_PLACES = CELL; // along a side of a cell
const STEP = CELL + 4;

// `layers` are [layer][head][looks][is seen]; `view` keeps what is chosen when the page is drawn anew.
export function attentionView({ pieces, layers }, view) {
  if (view.layer === undefined) Object.assign(view, { isOfWords: true, piece: null }, mostTelling(pieces, layers));
  const map = make("canvas", {
    class: "map", role: "application", tabindex: "0", "aria-label": say("attention.map"), "aria-describedby": "map-about",
    click: (event) => choose(cellAt(map, event, layers)),
    keydown: (event) => { if (stepOf(event.key, view, layers, choose)) event.preventDefault(); },
  });
  const told = make("p", { class: "told", "aria-live": "polite" });
  const lines = make("div", { class: "lines" });
  const selects = selectsOf(layers, (changes) => choose(changes));
  function choose(changes) {
    Object.assign(view, changes);
    drawMap(map, layers, view);
    drawLines({ lines, told }, seenBy(view, pieces, layers), view, choose);
    selects.forEach(([name, select]) => { select.value = String(view[name]); });
  }
  choose({});
  return make("div", { class: "attention" },
    make("div", {},
      make("div", { class: "controls" }, selects.map(labelled)),
      wordsBox(view, choose),
      make("figure", {}, map, make("figcaption", { class: "soft", id: "map-about" }, say("attention.map.about")))),
    make("div", {}, note(say("attention.lines.about")), told, lines));
}

// The attention head in which the most words are looked at from afar: neighbors and one mark that all look at tell little.
function mostTelling(pieces, layers) {
  const words = [...pieces.keys()].filter((place) => pieces[place].text !== null);
  const isFar = (from, to) => Math.abs(from - to) > 1;
  const mostOn = (weights, to) => Math.max(0, ...words.map((from) => (isFar(from, to) ? weights[from][to] : 0)));
  const found = layers.flatMap((heads, layer) => heads.map((weights, head) => (
    { layer, head, score: words.reduce((sum, to) => sum + mostOn(weights, to), 0) })));
  const { layer, head } = found.reduce((best, one) => (one.score > best.score ? one : best));
  return { layer, head };
}

// Arrow keys go from attention head to attention head; left of the first is the mean of all.
function stepOf(key, { layer, head }, layers, choose) {
  const within = (place, least, count) => Math.min(count - 1, Math.max(least, place));
  const [numLayers, numHeads] = [layers.length, layers[0].length];
  const changes = {
    ArrowLeft: { head: within(head - 1, MEAN, numHeads) },
    ArrowRight: { head: within(head + 1, MEAN, numHeads) },
    ArrowUp: { layer: within(layer - 1, 0, numLayers) },
    ArrowDown: { layer: within(layer + 1, 0, numLayers) },
    Home: { head: MEAN },
    End: { head: numHeads - 1 },
  }[key];
  if (changes) choose(changes);
  return Boolean(changes);
}

function selectsOf(layers, choose) {
  const numbers = (list) => list.map((_, place) => [place, String(place + 1)]);
  const options = {
    layer: numbers(layers),
    head: [[MEAN, say("attention.mean")], ...numbers(layers[0])],
  };
  return Object.entries(options).map(([name, pairs]) => [name, make("select", {
    id: `attention-${name}`,
    change: (event) => choose({ [name]: Number(event.target.value) }),
  }, pairs.map(([value, words]) => make("option", { value }, words)))]);
}

function labelled([name, select]) {
  return make("div", { class: "field" }, make("label", { for: select.id }, say(`attention.${name}`)), select);
}

function wordsBox(view, choose) {
  const box = make("input", {
    type: "checkbox",
    id: "attention-words",
    checked: view.isOfWords,
    change: (event) => choose({ isOfWords: event.target.checked, piece: null }),
  });
  return make("label", { class: "check" }, box, say("attention.words"));
}

// The names of the pieces that are shown, and the weights among them; special pieces belong to no text.
function seenBy({ layer, head, isOfWords }, pieces, layers) {
  const weights = head === MEAN ? meanOf(layers[layer]) : layers[layer][head];
  const places = [...pieces.keys()].filter((place) => !isOfWords || pieces[place].text !== null);
  return {
    names: places.map((place) => pieces[place].piece),
    weights: places.map((from) => places.map((to) => weights[from][to])),
  };
}

function meanOf(heads) {
  const mean = (from, to) => heads.reduce((sum, head) => sum + head[from][to], 0) / heads.length;
  return heads[0].map((row, from) => row.map((_, to) => mean(from, to)));
}

// The map

function cellAt(map, event, layers) {
  const box = map.getBoundingClientRect();
  const place = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
  return {
    head: place((event.clientX - box.left) / box.width, layers[0].length),
    layer: place((event.clientY - box.top) / box.height, layers.length),
  };
}

function drawMap(map, layers, view) {
  const [columns, rows, scale] = [layers[0].length, layers.length, window.devicePixelRatio || 1];
  map.width = columns * STEP * scale;
  map.height = rows * STEP * scale;
  map.style.width = `${columns * STEP}px`;
  const style = getComputedStyle(document.documentElement);
  const colorOf = (name) => style.getPropertyValue(name);
  const canvas = map.getContext("2d");
  canvas.scale(scale, scale);
  layers.forEach((heads, layer) => heads.forEach((weights, head) => {
    const corner = [head * STEP + 2, layer * STEP + 2];
    canvas.globalAlpha = 1;
    canvas.fillStyle = colorOf("--ground");
    canvas.fillRect(...corner, CELL, CELL);
    canvas.fillStyle = colorOf("--c0");
    drawCell(canvas, weights, corner);
  }));
  const [first, count] = view.head === MEAN ? [0, columns] : [view.head, 1];
  canvas.globalAlpha = 1;
  canvas.strokeStyle = colorOf("--ink");
  canvas.lineWidth = 2;
  canvas.strokeRect(first * STEP + 1, view.layer * STEP + 1, count * STEP - 2, STEP - 2);
}

// Where pieces are more than there is room for, neighbors share a place, and the strongest of them is drawn.
function drawCell(canvas, weights, [left, top]) {
  const count = Math.min(weights.length, MOST_PLACES);
  const places = Array.from({ length: count }, () => new Float64Array(count));
  const placeOf = (piece) => Math.floor((piece * count) / weights.length);
  weights.forEach((row, from) => row.forEach((weight, to) => {
    const line = places[placeOf(from)];
    line[placeOf(to)] = Math.max(line[placeOf(to)], weight);
  }));
  const size = CELL / count;
  places.forEach((row, from) => row.forEach((weight, to) => {
    if (weight < LEAST) return;
    canvas.globalAlpha = Math.min(1, weight) ** 0.7; // weak ones are seen too
    canvas.fillRect(left + to * size, top + from * size, size, size);
  }));
}

// The lines

function drawLines({ lines, told }, seen, view, choose) {
  const { names, weights } = seen;
  const box = { viewBox: `0 0 100 ${names.length}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const svg = draw("svg", box);
  const right = names.map((name) => make("li", { class: "piece", dir: "auto" }, name));
  const show = (from) => {
    svg.replaceChildren(...linesOf(weights, from));
    right.forEach((item, to) => withShare(item, from === null ? 0 : weights[from][to]));
    told.textContent = sentence(seen, from, view);
  };
  const press = (from) => {
    choose({ piece: view.piece === from ? null : from });
    lines.querySelectorAll("button")[from].focus();
  };
  const left = names.map((name, from) => looker(name, view.piece === from, {
    tabindex: from === (view.piece ?? 0) ? "0" : "-1",
    click: () => press(from),
    pointerenter: () => show(from),
    pointerleave: () => show(view.piece),
    focus: () => show(from),
    blur: () => show(view.piece),
    keydown: (event) => { if (moveFocus(left, from, event.key)) event.preventDefault(); },
  }));
  show(view.piece);
  lines.replaceChildren(make("div", { class: "sides" },
    make("ol", { class: "from", "aria-label": say("attention.from") }, left.map((button) => make("li", {}, button))),
    svg,
    make("ol", { class: "to", "aria-label": say("attention.to") }, right)));
}

function moveFocus(buttons, from, key) {
  const to = { ArrowUp: from - 1, ArrowDown: from + 1, Home: 0, End: buttons.length - 1 }[key];
  if (!buttons[to]) return false;
  buttons[from].tabIndex = -1;
  buttons[to].tabIndex = 0;
  buttons[to].focus();
  return true;
}

function looker(name, isChosen, events) {
  const attributes = { type: "button", class: "piece", dir: "auto", "aria-pressed": String(isChosen) };
  return make("button", { ...attributes, ...events }, name);
}

// The strongest lines of one piece, or of all.
function linesOf(weights, only) {
  const found = weights.flatMap((row, from) => row.map((weight, to) => ({ weight, from, to })))
    .filter(({ weight, from }) => weight >= LEAST && (only === null || only === from))
    .sort((one, other) => other.weight - one.weight);
  return found.slice(0, MOST_LINES).map(({ weight, from, to }) => draw("path", {
    d: `M0 ${from + 0.5}C50 ${from + 0.5} 50 ${to + 0.5} 100 ${to + 0.5}`,
    "stroke-opacity": (weight / found[0].weight).toFixed(3),
    "stroke-width": (1 + 3 * weight).toFixed(2),
  }));
}

function sentence({ names, weights }, from, { layer, head }) {
  const others = weights.map((row, one) => Math.max(0, ...row.filter((_, to) => to !== one)));
  const strongest = others.indexOf(Math.max(...others));
  const told = from !== null
    ? looks(names, weights, from, 3)
    : say("attention.most", { sentence: looks(names, weights, strongest, 1) });
  return say(head === MEAN ? "attention.where.mean" : "attention.where", { layer: layer + 1, head: head + 1, told });
}

function looks(names, weights, from, count) {
  const pairs = weights[from].map((weight, to) => ({ weight, to })).filter(({ to }) => count > 1 || to !== from);
  const best = pairs.sort((one, other) => other.weight - one.weight).slice(0, count);
  const list = best.map(({ weight, to }) => say("attention.looked", { piece: names[to], share: percent(weight) }));
  return say("attention.sentence", { piece: names[from], list: list.join(say("comma")) });
}
