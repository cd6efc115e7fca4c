// The page: which panels there are, the one that is open, what was asked in each.

import { draw, make, recall, remember } from "./elements.js";
import { PANELS, canDo } from "./panels.js";
import { requestView } from "./request.js";
import { Refused, ask, models, setKey } from "./service.js";
import { note } from "./views.js";
import { LANGUAGES, language, say, setLanguage } from "./words.js";

const GENERAL = ["embed", "match", "score", "fill_mask"]; // tasks that help with what every encoder can do
const at = (id) => document.getElementById(id);
const state = { models: [], isKnown: false, trouble: null, drafts: new Map() };

// The models that can do it, those first that were made for it rather than for another task.
function ableOf(panel) {
  const isOther = ({ tasks }) => Object.values(tasks ?? {}).some((kind) => !GENERAL.includes(kind));
  const rank = (model) => 2 * panel.needs.findIndex((one) => model.abilities.includes(one)) + isOther(model);
  return state.models.filter((model) => canDo(model, panel)).sort((one, other) => rank(one) - rank(other));
}

const panels = () => PANELS.filter((panel) => state.models.some((model) => canDo(model, panel)));
const current = () => panels().find((panel) => `#${panel.id}` === location.hash) ?? panels()[0];

// What was typed and answered in a panel; it outlives a change of panel or language.
function draftOf(panel) {
  if (!state.drafts.has(panel.id)) {
    const values = Object.fromEntries(panel.fields.map(({ name }) => [name, say(`${panel.id}.${name}.example`)]));
    state.drafts.set(panel.id, { values, model: ableOf(panel)[0], outcome: null, view: {}, running: null });
  }
  return state.drafts.get(panel.id);
}

async function begin() {
  try {
    state.models = await models();
    Object.assign(state, { isKnown: true, trouble: null });
  } catch (error) {
    state.trouble = error;
  }
  show();
}

function show() {
  document.documentElement.lang = language();
  for (const element of document.querySelectorAll("[data-word]")) element.textContent = say(element.dataset.word);
  at("nav").setAttribute("aria-label", say("abilities"));
  showSwitches();
  const panel = current();
  document.title = panel ? `${say(`${panel.id}.name`)} · bertworks` : "bertworks";
  showEntries(panel);
  at("panel").replaceChildren(...(panel ? panelView(panel, draftOf(panel)) : nothingView()));
  at("footer").replaceChildren(...footerView());
}

function showEntries(panel) {
  const list = make("ul", {}, panels().map((one) => entry(one, one === panel)));
  at("nav").replaceChildren(list);
  const open = list.querySelector("[aria-current]");
  if (open) list.scrollLeft = open.offsetLeft - (list.clientWidth - open.offsetWidth) / 2;
}

function entry(panel, isOpen) {
  const icon = draw("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, draw("path", { d: panel.icon }));
  const attributes = { href: `#${panel.id}`, "aria-current": isOpen ? "page" : null };
  return make("li", {}, make("a", attributes, icon, say(`${panel.id}.name`)));
}

// Without models: why, and what to do.

function nothingView() {
  if (!state.trouble) return [note(say(state.isKnown ? "models.none" : "models.wait"))];
  const trouble = make("p", { class: "trouble", role: "alert" }, state.trouble.message);
  if (state.trouble.code !== "unauthorized") {
    return [trouble, make("button", { type: "button", click: begin }, say("again"))];
  }
  const field = make("input", { id: "key", type: "password", autocomplete: "off", required: true });
  const submit = (event) => { event.preventDefault(); setKey(field.value); begin(); };
  return [make("form", { submit, class: "card" }, trouble,
    make("div", { class: "field" }, make("label", { for: "key" }, say("key")), field),
    make("button", { type: "submit", class: "main" }, say("key.use")))];
}

// A panel: its fields, then the answer, then the request behind it.

function panelView(panel, draft) {
  const form = make("form", { class: "card", submit: (event) => { event.preventDefault(); run(panel, draft); } },
    modelField(panel, draft), panel.fields.map((field) => fieldView(panel, field, draft)),
    make("div", { class: "actions" },
      make("button", { type: "submit", class: "main" }, say("ask")),
      make("span", { class: "soft hint" }, say("ask.hint"))));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
  });
  return [
    make("h2", { id: "title", tabindex: "-1" }, say(`${panel.id}.name`)),
    make("p", { class: "about" }, say(`${panel.id}.about`)),
    form,
    make("div", { id: "outcome", class: panel.isWide ? "wide" : null }, outcomeView(panel, draft)),
  ];
}

function modelField(panel, draft) {
  const able = ableOf(panel);
  if (able.length < 2) return null;
  const change = (event) => { draft.model = able.find((model) => model.name === event.target.value); };
  const options = able.map(({ name }) => make("option", { value: name, selected: name === draft.model.name }, name));
  const select = make("select", { id: "model", change }, options);
  return make("div", { class: "field" }, make("label", { for: "model" }, say("model")), select);
}

function fieldView(panel, field, draft) {
  const id = `field-${field.name}`;
  const common = { id, required: !field.isOptional, dir: "auto", spellcheck: "false",
    input: (event) => { draft.values[field.name] = event.target.value; } };
  const control = field.kind === "line"
    ? make("input", { ...common, type: "text", autocomplete: "off" })
    : make("textarea", { ...common, rows: field.rows });
  control.value = draft.values[field.name];
  const extra = field.insert ? insertButton(field.insert, control) : null;
  const label = make("label", { for: id }, say(`${panel.id}.${field.name}`),
    field.isOptional ? make("span", { class: "soft" }, ` ${say("optional")}`) : null);
  return make("div", { class: "field" }, make("div", { class: "above" }, label, extra), control);
}

function insertButton(words, control) {
  const click = () => {
    control.setRangeText(words, control.selectionStart, control.selectionEnd, "end");
    control.dispatchEvent(new Event("input"));
    control.focus();
  };
  return make("button", { type: "button", class: "quiet small", click }, say("insert", { words }));
}

async function run(panel, draft) {
  draft.running?.abort();
  draft.running = new AbortController();
  const { signal } = draft.running;
  const { model } = draft;
  const values = valuesOf(panel, draft);
  const { path, body } = panel.request(values, model);
  const request = { path, body: state.models.length > 1 ? { model: model.name, ...body } : body };
  showOutcome(panel, draft);
  try {
    const { reply, milliseconds } = await ask(request, signal);
    requireReadable(panel, reply, values, model);
    draft.view = {};
    draft.outcome = { reply, milliseconds, request, values, model };
  } catch (error) {
    if (error.name === "AbortError") return;
    draft.outcome = { error, request };
  }
  draft.running = null;
  showOutcome(panel, draft);
}

// An answer of another shape than the panel's is a trouble to tell, not to stumble over later.
function requireReadable(panel, reply, values, model) {
  try {
    panel.tell(reply, values);
    panel.show(reply, values, {}, model);
  } catch {
    throw new Refused("unreadable", say("error.unreadable"));
  }
}

function valuesOf(panel, draft) {
  const read = ({ name, kind }) => {
    const value = draft.values[name];
    return kind === "lines" ? value.split("\n").map((line) => line.trim()).filter(Boolean) : value.trim();
  };
  return Object.fromEntries(panel.fields.map((field) => [field.name, read(field)]));
}

function showOutcome(panel, draft) {
  if (current() !== panel) return;
  const isBusy = draft.running !== null;
  at("outcome").setAttribute("aria-busy", String(isBusy));
  at("status").textContent = isBusy ? say("wait") : spoken(panel, draft.outcome);
  if (!isBusy) at("outcome").replaceChildren(...outcomeView(panel, draft));
}

function spoken(panel, { error, reply, values }) {
  return error ? "" : `${say("answer")}: ${panel.tell(reply, values)}`;
}

function outcomeView(panel, draft) {
  if (!draft.outcome) return [];
  const { error, reply, values, model, request } = draft.outcome;
  if (error) return [make("p", { class: "trouble", role: "alert" }, error.message), requestView(request, null)];
  return [
    make("section", { class: "card answer", "aria-labelledby": "answer-title" },
      make("h3", { id: "answer-title" }, say("answer")),
      panel.show(reply, values, draft.view, model),
      facts(draft.outcome)),
    requestView(request, reply),
  ];
}

function facts({ reply, model, milliseconds }) {
  const revision = reply.revision ?? model.revision;
  const found = [
    revision ? `${model.name} · ${revision.slice(0, 12)}` : model.name,
    reply.usage ? say("facts.tokens", { count: reply.usage.tokens }) : null,
    say("facts.time", { count: Math.max(1, Math.round(milliseconds)) }),
  ];
  const isCut = Array.isArray(reply.truncated) && reply.truncated.some(Boolean);
  return [
    isCut ? make("p", { class: "caution" }, say("facts.cut")) : null,
    make("p", { class: "facts soft" }, found.filter(Boolean).join(" · ")),
  ];
}

// Around the panel.

function footerView() {
  const link = (path) => make("a", { href: path }, say(`link.${path}`));
  const row = ({ name, revision, abilities, longest }) => make("li", {}, make("strong", {}, name),
    ` ${(revision ?? "").slice(0, 12)}`, longest ? ` · ${say("models.longest", { longest })}` : "",
    make("span", { class: "abilities" }, abilities.map((ability) => make("code", {}, ability))));
  return [
    state.models.length ? make("details", {}, make("summary", {}, say("models", { count: state.models.length })),
      make("ul", { class: "models" }, state.models.map(row))) : null,
    make("p", { class: "soft" }, link("docs"), " · ", link("openapi.json"), " · ", link("metrics")),
  ].filter(Boolean);
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function showSwitches() {
  const other = LANGUAGES.find((one) => one !== language());
  at("language").textContent = say("language.other");
  at("language").lang = other;
  at("theme").setAttribute("aria-label", say("theme"));
  at("theme").title = say("theme");
  at("theme").setAttribute("aria-pressed", String(isDark()));
}

at("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  remember("theme", theme);
  show();
});

at("language").addEventListener("click", () => {
  const before = language();
  setLanguage(LANGUAGES.find((one) => one !== before));
  remember("language", language());
  for (const [id, { values }] of state.drafts) {
    for (const name of Object.keys(values)) {
      const word = `${id}.${name}.example`;
      if (values[name] === say(word, {}, before)) values[name] = say(word);
    }
  }
  show();
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("panel").focus();
});

window.addEventListener("hashchange", () => {
  show();
  at("title")?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);

setLanguage(recall("language") ?? navigator.language);
show();
begin();
