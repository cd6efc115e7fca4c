// What can be asked: for each panel its fields, the request they become and how the answer looks.

import { attentionView } from "./attention.js";
import { make } from "./elements.js";
import { bars, colors, decimal, gauge, likeliest, markedText, note, percent, ranked, table, verdict } from "./views.js";
import { say } from "./words.js";

const KINDS = { classify: ["classify", "multilabel"] }; // of tasks, where they are not called like the ability
const GENERAL = ["embed", "match", "score", "fill_mask"]; // tasks that help with what every encoder can do
const MASK = /\[MASK\]|<mask>/;

const text = (name = "text", rows = 3) => ({ name, kind: "text", rows });
const lines = (name, rows = 5) => ({ name, kind: "lines", rows });
const choice = (name, initial, values, when) => ({ name, kind: "choice", initial, values, when });
const seed = { name: "seed", kind: "number", initial: "0", when: { way: "chance" }, isOptional: true };
const optional = (field) => ({ ...field, isOptional: true });

// `when`: the values of others with which a field is shown. `needs`: abilities of which one is enough; none: every model can. `show` and `tell` read the answer.
export const PANELS = [
  {
    id: "fill",
    needs: ["fill_mask"],
    icon: "M2 15h3M15 15h3M6.5 5h7v10h-7z",
    fields: [{ ...text(), insert: "[MASK]" }],
    request: ({ text }) => ({ path: "fill-mask", body: { inputs: [text], num_candidates: 8 } }),
    show: ({ answers: [answer] }, { text }, view) => filled(answer.masks, text, view),
    tell: ({ answers: [{ masks }] }) => masks.map(([best]) => told(best.token, best.probability)).join(say("comma")),
  },
  {
    id: "classify",
    needs: ["classify", "score"],
    icon: "M3 5h14M3 10h9M3 15h5",
    fields: [text()],
    request: ({ text }) => ({ path: "classify", body: { inputs: [text] } }),
    show: ({ answers: [answer] }) => labelled(answer),
    tell: ({ answers: [answer] }) => labelSentence(answer),
  },
  {
    id: "aspect",
    needs: ["aspect"],
    icon: "M10 3a7 7 0 1 0 0 14a7 7 0 1 0 0-14M10 8a2 2 0 1 0 0 4a2 2 0 1 0 0-4",
    fields: [text(), { name: "aspect", kind: "line" }],
    request: ({ text, aspect }) => ({ path: "classify", body: { inputs: [{ text, aspect }] } }),
    show: ({ answers: [answer] }) => labelled(answer),
    tell: ({ answers: [answer] }) => labelSentence(answer),
  },
  {
    id: "tag",
    needs: ["tag", "intent_slots"],
    icon: "M3 3h7l7 7l-7 7l-7-7zM7 7h.1",
    fields: [text()],
    request: ({ text }) => ({ path: "tag", body: { inputs: [text] } }),
    show: ({ answers: [answer] }, { text }) => tagged(answer, text),
    tell: ({ answers: [answer] }) => say("tag.found", { count: (answer.spans ?? answer.slots ?? answer.tags).length }),
  },
  {
    id: "answer",
    needs: ["answer"],
    icon: "M2.5 4h15v10H9l-4 3v-3H2.5z",
    fields: [{ name: "question", kind: "line" }, text("passage", 6)],
    request: ({ question, passage }) => ({ path: "answer", body: { inputs: [{ question, passage }] } }),
    show: ({ answers: [answer] }, { passage }) => answered(answer, passage),
    tell: ({ answers: [answer] }) => told(answer.answer || say("answer.none"), answer.probability),
  },
  {
    id: "compare",
    needs: ["match", "score", "embed"],
    icon: "M7.5 5a5 5 0 1 0 0 10a5 5 0 1 0 0-10M12.5 5a5 5 0 1 0 0 10a5 5 0 1 0 0-10",
    fields: [text("first"), text("second")],
    request: compareRequest,
    show: (reply) => (Array.isArray(reply) ? similar(reply[0]) : labelled(reply.answers[0])),
    tell: (reply) => (Array.isArray(reply) ? decimal(reply[0]) : labelSentence(reply.answers[0])),
  },
  {
    id: "search",
    needs: ["rerank", "embed"],
    icon: "M9 3a6 6 0 1 0 0 12a6 6 0 1 0 0-12M13.5 13.5L17 17",
    fields: [{ name: "query", kind: "line" }, lines("texts", 7)],
    request: searchRequest,
    show: (reply, { texts }) => [ranked(ranking(reply, texts))],
    tell: (reply, { texts }) => ranking(reply, texts)[0]?.text ?? "",
  },
  {
    id: "zero",
    needs: ["zero_shot"],
    icon: "M10 3v3M10 14v3M3 10h3M14 10h3M5.5 5.5l2 2M12.5 12.5l2 2M14.5 5.5l-2 2M7.5 12.5l-2 2",
    fields: [text(), lines("labels"), optional({ name: "template", kind: "line" })],
    request: ({ text, labels, template }) => ({
      path: "zero-shot",
      body: { inputs: [text], labels, ...(template ? { template } : {}) },
    }),
    show: ({ answers: [answer] }) => labelled(answer),
    tell: ({ answers: [answer] }) => labelSentence(answer),
  },
  {
    id: "choose",
    needs: ["choose"],
    icon: "M3 5h2v2H3zM8 6h9M3 13h2v2H3zM8 14h9",
    fields: [text("question", 2), lines("choices", 4), optional(text("passage"))],
    request: ({ question, choices, passage }) => ({
      path: "choose",
      body: { inputs: [{ question, choices, ...(passage ? { passage } : {}) }] },
    }),
    show: ({ answers: [answer] }, { choices }) => chosen(answer, choices),
    tell: ({ answers: [answer] }) => told(answer.text, answer.probability),
  },
  {
    id: "write",
    needs: ["generate"],
    icon: "M3 17l1-4L14 3l3 3L7 16zM12 5l3 3",
    fields: [
      text(),
      choice("way", "own", ["own", "beams", "chance"]),
      choice("beams", "4", ["1", "2", "4", "8", "16"], { way: "beams" }),
      choice("temperature", "0.8", ["0.5", "0.8", "1", "1.3"], { way: "chance" }),
      seed,
    ],
    request: writeRequest,
    show: ({ answers: [{ text: words }] }) =>
      [words ? make("p", { class: "marked large", dir: "auto" }, words) : note(say("write.nothing"))],
    tell: ({ answers: [answer] }) => answer.text || say("write.nothing"),
  },
  {
    id: "attention",
    needs: ["attention"],
    icon: "M3 4c7 0 7 6 14 6M3 10c7 0 7 6 14 6M3 16C10 16 10 4 17 4",
    fields: [text("text", 2)],
    request: ({ text }) => ({ path: "attention", body: { text } }),
    show: (reply, values, view) => [attentionView(reply, view)],
    tell: (reply) => say("attention.found", { layers: reply.layers.length, heads: reply.layers[0].length }),
    isWide: true,
  },
  {
    id: "pieces",
    needs: [],
    icon: "M2 6h5v8H2zM9 6h3v8H9zM14 6h4v8h-4z",
    fields: [text()],
    request: ({ text }) => ({ path: "tokenize", body: { inputs: [text] } }),
    show: ([pieces], { text }, view, model) => cut(pieces, text, model),
    tell: ([pieces]) => say("pieces.count", { count: pieces.length }),
  },
];

export const canDo = (model, panel) => !panel.needs.length || abilityFor(panel, model) !== undefined;

const abilityFor = (panel, { abilities }) => panel.needs.find((ability) => abilities.includes(ability));
const kindsFor = (panel) => panel.needs.flatMap((ability) => KINDS[ability] ?? [ability]);

// The models that can do it, those first that were made for it rather than for another task.
export function modelsFor(panel, models) {
  const fitting = [...GENERAL, ...kindsFor(panel)];
  const isOther = ({ tasks }) => Object.values(tasks ?? {}).some((kind) => !fitting.includes(kind));
  const rank = (model) => 2 * panel.needs.indexOf(abilityFor(panel, model)) + isOther(model);
  return models.filter((model) => canDo(model, panel)).sort((one, other) => rank(one) - rank(other));
}

// The names of a model's tasks that can answer in a panel, the fittest first.
export function tasksFor(panel, { tasks = {} }) {
  const kinds = kindsFor(panel);
  const names = Object.keys(tasks).filter((name) => kinds.includes(tasks[name]));
  return names.sort((one, other) => kinds.indexOf(tasks[one]) - kinds.indexOf(tasks[other]));
}

// What a task can say, without the letters that tell where a span begins.
export function labelsOf({ labels = {} }, task) {
  const said = (labels[task] ?? []).filter((label) => label !== "O");
  return [...new Set(said.map((label) => label.replace(/^[BIMESLU]-/, "")))];
}

function compareRequest({ first, second }, { tasks = {} }, task) {
  if (["match", "score"].includes(tasks[task])) return { path: "classify", body: { inputs: [[first, second]] } };
  return { path: "similarity", body: { inputs: { source_sentence: first, sentences: [second] } } };
}

function searchRequest({ query, texts }, model) {
  if (model.abilities.includes("rerank")) return { path: "rerank", body: { query, texts } };
  return { path: "similarity", body: { inputs: { source_sentence: query, sentences: texts } } };
}

const WAYS = {
  own: () => ({}),
  beams: ({ beams }) => ({ beams: Number(beams) }),
  chance: ({ temperature, seed }) => ({ temperature: Number(temperature), draw_seed: Number(seed) }),
};

function writeRequest({ text, way, ...values }) {
  return { path: "generate", body: { inputs: [text], ...WAYS[way](values) } };
}

// Places with scores, or a score for each text.
function ranking(reply, texts) {
  const rows = reply.map((one, place) => (typeof one === "number" ? { index: place, score: one } : one));
  rows.sort((one, other) => other.score - one.score);
  return rows.map(({ index, score }) => ({ text: texts[index], score }));
}

const told = (words, probability) => `${words} (${percent(probability)})`;

function labelSentence(answer) {
  if (answer.labels) return answer.labels.join(say("comma")) || say("classify.none");
  if (answer.probability === undefined) return decimal(answer.score);
  return told(answer.label, answer.probability);
}

function labelled(answer) {
  if (answer.labels) {
    return [verdict(labelSentence(answer), ""), bars(likeliest(answer.probabilities))];
  }
  if (answer.probability === undefined) return [verdict(decimal(answer.score), answer.label ?? "")];
  return [verdict(answer.label, percent(answer.probability)), bars(likeliest(answer.probabilities))];
}

function similar(score) {
  return [verdict(decimal(score), say("compare.cosine")), gauge(score)];
}

function filled(masks, text, view) {
  view.chosen ??= masks.map(() => 0);
  const place = make("div", {});
  const redraw = () => {
    const words = masks.map((mask, nth) => mask[view.chosen[nth]].token);
    place.replaceChildren(...sentenceOf(text, words), ...masks.map((mask, nth) => candidates(mask, nth)));
  };
  const candidates = (mask, nth) => {
    const choose = (at) => {
      view.chosen[nth] = at;
      redraw();
      place.querySelectorAll("ol")[nth].querySelectorAll("button")[at].focus();
    };
    const rows = mask.map(({ token, probability }) => ({ name: token, share: probability }));
    const list = bars(rows, { chosen: view.chosen[nth], choose });
    list.setAttribute("aria-label", say("fill.mask", { number: nth + 1 }));
    return masks.length > 1 ? make("section", {}, make("h4", {}, say("fill.mask", { number: nth + 1 })), list) : list;
  };
  redraw();
  return [place];
}

function sentenceOf(text, words) {
  const parts = text.split(MASK);
  if (parts.length !== words.length + 1) return [];
  const marks = words.map((word) => make("mark", { class: "c0" }, word.replace(/^##/, "")));
  return [make("p", { class: "marked large", dir: "auto" }, parts.map((part, nth) => [part, marks[nth]]))];
}

function tagged(answer, text) {
  const spans = answer.spans ?? answer.slots;
  const head = answer.intent ? [verdict(answer.intent, percent(answer.probability))] : [];
  if (!spans) return [...head, tokens(answer)];
  if (!spans.length) return [...head, markedText(text, []), note(say("tag.none"))];
  const colorOf = colors(spans.map((span) => span.label));
  const heads = ["text", "label", "characters", "probability"].map((name) => say(`tag.${name}`));
  const rows = spans.map(({ text: words, label, start, end, probability }) => [
    words, label, { number: `${start}–${end}` }, { number: percent(probability) },
  ]);
  return [...head, markedText(text, spans, colorOf), table(heads, rows)];
}

function tokens({ tokens: words, tags }) {
  const colorOf = colors(tags);
  return make("ol", { class: "pieces" }, words.map((word, nth) => chip(word, tags[nth], `c${colorOf(tags[nth])}`)));
}

function chip(words, below, color) {
  return make("li", { class: `piece ${color}` }, make("span", { dir: "auto" }, words), make("small", {}, below));
}

function answered(answer, passage) {
  const found = answer.answer ? [{ start: answer.start, end: answer.end }] : [];
  const others = (answer.candidates ?? []).map((one) => ({ name: one.answer, share: one.probability }));
  return [
    verdict(answer.answer || say("answer.none"), percent(answer.probability)),
    markedText(passage, found),
    ...(others.length > 1 ? [make("h4", {}, say("answer.candidates")), bars(others)] : []),
  ];
}

function chosen(answer, choices) {
  const rows = choices.map((name, place) => ({ name, share: answer.probabilities[place] }));
  rows.sort((one, other) => other.share - one.share);
  return [verdict(answer.text, percent(answer.probability)), bars(rows)];
}

function cut(pieces, text, model) {
  const longest = model.longest ?? null;
  const chips = pieces.map(({ text: words, id, special }, nth) =>
    chip(words, String(id), special ? "special" : `c${nth % 6}`));
  const of = say("pieces.of", { count: decimal(Array.from(text).length) });
  const room = longest ? say("pieces.longest", { longest: decimal(longest) }) : "";
  return [
    verdict(say("pieces.count", { count: decimal(pieces.length) }), of + room),
    make("ol", { class: "pieces", "aria-label": say("pieces.name") }, chips),
  ];
}
