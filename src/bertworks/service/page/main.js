// The page: which panels there are, the one that is open, what was asked in each.

import { draftOf, readBy, renewExamples, valuesOf } from "./drafts.js";
import { CONTROL, draw, make, recall, remember } from "./elements.js";
import { outcomeOf, troubleView } from "./outcome.js";
import { PANELS, canDo, labelsOf, modelsFor, tasksFor } from "./panels.js";
import { ask, models } from "./service.js";
import { note } from "./views.js";
import { LANGUAGES, has, language, say, setLanguage } from "./words.js";

const BY_TASK = ["classify", "tag", "answer", "choose", "generate"]; // routes where a task may be named
const MOST_LABELS = 12; // of a model that are listed
const at = (id) => document.getElementById(id);
const state = { models: [], isKnown: false, trouble: null, drafts: new Map() };

const panels = () => PANELS.filter((panel) => state.models.some((model) => canDo(model, panel)));
const current = () => panels().find((panel) => `#${panel.id}` === location.hash) ?? panels()[0];

// What was typed and answered in a panel; it outlives a change of panel or language.
function draftIn(panel) {
  if (!state.drafts.has(panel.id)) state.drafts.set(panel.id, draftOf(panel, state.models));
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
  document.documentElement.lang = language() === "zh" ? "zh-Hans" : language();
  for (const element of document.querySelectorAll("[data-word]")) element.textContent = say(element.dataset.word);
  at("nav").setAttribute("aria-label", say("abilities"));
  showSwitches();
  const panel = current();
  document.title = panel ? `${say(`${panel.id}.name`)} · bertworks` : "bertworks";
  showEntries(panel);
  at("panel").replaceChildren(...(panel ? panelView(panel, draftIn(panel)) : nothingView()));
  if (panel) showOutcome(panel, draftIn(panel));
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

function nothingView() {
  if (state.trouble) return [troubleView(state.trouble, begin)];
  return [note(say(state.isKnown ? "models.none" : "models.wait"))];
}

// A panel: its fields, then the answer, then the request behind it.

function panelView(panel, draft) {
  const submit = (event) => {
    event.preventDefault();
    for (const control of form.elements) if (control.required && !control.value.trim()) control.value = "";
    if (form.reportValidity()) run(panel, draft);
  };
  const keydown = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit();
  };
  const form = make("form", { class: "card", submit, keydown },
    choiceFields(panel, draft), hints(panel, draft),
    panel.fields.map((field) => fieldView(panel, field, draft)),
    make("div", { class: "actions" },
      make("button", { type: "submit", id: "ask", class: "main" }, say("ask")),
      make("button", { type: "button", id: "stop", class: "quiet", hidden: true, click: () => stop(draft) }, say("stop")),
      make("span", { class: "soft hint" }, say("ask.hint", { keys: `${CONTROL} + Enter` }))));
  return [
    make("h2", { id: "title", tabindex: "-1" }, say(`${panel.id}.name`)),
    make("p", { class: "about" }, say(`${panel.id}.about`)),
    form,
    make("div", { id: "outcome" }),
  ];
}

function choiceFields(panel, draft) {
  const able = modelsFor(panel, state.models);
  const choose = (id, changes) => {
    Object.assign(draft, changes);
    renewExamples(panel, draft);
    show();
    at(id).focus();
  };
  const byName = (name) => able.find((model) => model.name === name);
  return make("div", { class: "choices" },
    choiceField("model", able.map(({ name }) => name), draft.model.name,
      (name) => choose("model", { model: byName(name), task: null })),
    choiceField("task", tasksFor(panel, draft.model), taskIn(panel, draft), (task) => choose("task", { task })));
}

const taskIn = (panel, { model, task }) => task ?? tasksFor(panel, model)[0];

function choiceField(id, names, chosen, choose) {
  if (names.length < 2) return null;
  const options = names.map((name) => make("option", { value: name, selected: name === chosen }, name));
  const select = make("select", { id, change: (event) => choose(event.target.value) }, options);
  return make("div", { class: "field" }, make("label", { for: id }, say(id)), select);
}

// What one should know of the model before asking.
function hints(panel, draft) {
  const labels = labelsOf(draft.model, taskIn(panel, draft));
  const rest = labels.length > MOST_LABELS ? " …" : "";
  const list = labels.slice(0, MOST_LABELS).join(say("comma")) + rest;
  return [
    labels.length ? make("p", { class: "soft aside" }, say("model.labels", { list })) : null,
    readBy(draft.model) === language() ? null : make("p", { class: "soft aside" }, say("model.foreign")),
  ];
}

function fieldView(panel, field, draft) {
  const id = `field-${field.name}`;
  const isHidden = Object.entries(field.when ?? {}).some(([name, value]) => draft.values[name] !== value);
  const common = { id, required: !field.isOptional, disabled: isHidden, dir: "auto", spellcheck: "false",
    input: (event) => { draft.values[field.name] = event.target.value; } };
  const control = controlOf(panel, field, common);
  control.value = draft.values[field.name];
  const extra = field.insert ? insertButton(field.insert, control) : null;
  const label = make("label", { for: id }, say(`${panel.id}.${field.name}`),
    field.isOptional ? make("span", { class: "soft" }, ` ${say("optional")}`) : null);
  return make("div", { class: "field", hidden: isHidden }, make("div", { class: "above" }, label, extra), control);
}

function controlOf(panel, { name, kind, rows, values }, common) {
  if (kind === "line") return make("input", { ...common, type: "text", autocomplete: "off" });
  if (kind === "number") return make("input", { ...common, type: "number", min: "0", max: "4294967295", step: "1" });
  if (kind !== "choice") return make("textarea", { ...common, rows });
  const told = (value) => (has(`${panel.id}.${name}.${value}`) ? say(`${panel.id}.${name}.${value}`) : value);
  const change = () => { show(); at(common.id).focus(); }; // it may show other fields
  return make("select", { ...common, change }, values.map((value) => make("option", { value }, told(value))));
}

function insertButton(words, control) {
  const click = () => {
    control.setRangeText(words, control.selectionStart, control.selectionEnd, "end");
    control.dispatchEvent(new Event("input"));
    control.focus();
  };
  return make("button", { type: "button", class: "quiet small", click }, say("insert", { words }));
}

// Asking

async function run(panel, draft) {
  stop(draft);
  draft.running = new AbortController();
  const { signal } = draft.running;
  const { model } = draft;
  const values = valuesOf(panel, draft);
  const request = requestOf(panel, draft, values);
  showBusy(draft);
  at("status").textContent = say("wait");
  try {
    const answer = await ask(request, signal);
    Object.assign(draft, { view: {}, outcome: { ...answer, request, values, model } });
  } catch (error) {
    if (error.name === "AbortError") return;
    draft.outcome = { error, request };
  }
  draft.running = null;
  if (current() !== panel) return;
  at("status").textContent = showOutcome(panel, draft);
  const { top } = at("outcome").getBoundingClientRect();
  if (top > 0.8 * window.innerHeight) at("outcome").scrollIntoView();
}

function stop(draft) {
  draft.running?.abort();
  draft.running = null;
  showBusy(draft);
}

// The model and the task are named where there are several.
function requestOf(panel, draft, values) {
  const { model } = draft;
  const task = taskIn(panel, draft);
  const { path, body } = panel.request(values, model, task);
  const isChosen = BY_TASK.includes(path) && Object.keys(model.tasks ?? {}).length > 1;
  const names = { ...(state.models.length > 1 && { model: model.name }), ...(isChosen && { task }) };
  return { path, body: { ...names, ...body } };
}

// Show what came of asking, and return it as a sentence.
function showOutcome(panel, draft) {
  const { views, sentence } = outcomeOf(panel, draft);
  at("outcome").replaceChildren(...views);
  showBusy(draft);
  return sentence;
}

function showBusy({ running }) {
  const isBusy = running !== null;
  at("outcome").setAttribute("aria-busy", String(isBusy));
  at("ask").classList.toggle("busy", isBusy);
  if (!isBusy && document.activeElement === at("stop")) at("ask").focus();
  at("stop").hidden = !isBusy;
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
  setLanguage(LANGUAGES.find((one) => one !== language()));
  remember("language", language());
  for (const panel of panels()) renewExamples(panel, draftIn(panel));
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
