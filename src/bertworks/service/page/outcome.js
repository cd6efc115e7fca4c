// What came of asking: the answer with its facts, or the trouble, and the request behind either.

import { make } from "./elements.js";
import { requestView } from "./request.js";
import { Refused } from "./service.js";
import { decimal } from "./views.js";
import { has, say } from "./words.js";

const RELOAD = ["unauthorized", "unknown_route", "unknown_model"]; // what a fresh page may mend

// The views of an outcome, and a sentence for those who listen.
export function outcomeOf(panel, draft) {
  if (!draft.outcome) return { views: [make("p", { class: "empty" }, say("empty"))], sentence: "" };
  const { error, reply, values, request } = draft.outcome;
  if (error) return { views: [troubleView(error), requestView(request, null)], sentence: "" };
  try {
    const sentence = `${say("answer")}: ${panel.tell(reply, values)}`;
    return { views: [answerView(panel, draft), requestView(request, reply)], sentence };
  } catch { // an answer of another shape than the panel's
    draft.outcome = { error: new Refused("unreadable"), request };
    return outcomeOf(panel, draft);
  }
}

function answerView(panel, { outcome, view }) {
  const { reply, values, model } = outcome;
  return make("section", { class: "card answer", "aria-labelledby": "answer-title" },
    make("h3", { id: "answer-title" }, say("answer")),
    panel.show(reply, values, view, model),
    facts(outcome));
}

function facts({ reply, told, model, milliseconds }) {
  const revision = reply.revision ?? told.revision ?? model.revision;
  const tokens = reply.usage?.tokens ?? told.tokens;
  const found = [
    model.name,
    revision?.slice(0, 12),
    tokens === undefined ? null : say("facts.tokens", { count: decimal(tokens) }),
    reply.usage?.written === undefined ? null : say("facts.written", { count: decimal(reply.usage.written) }),
    say("facts.time", { count: decimal(Math.max(1, milliseconds), 0) }),
  ].filter(Boolean);
  const isCut = told.numCut > 0 || (Array.isArray(reply.truncated) && reply.truncated.some(Boolean));
  return [
    isCut ? make("p", { class: "caution" }, say("facts.cut")) : null,
    make("p", { class: "facts soft" }, found.map((fact, nth) => [nth ? " · " : "", make("span", {}, fact)])),
  ];
}

// Our sentence, then the service's own, which is English; `retry` is what a button offers besides.
export function troubleView({ code, status, details, seconds }, retry) {
  const word = has(`error.${code}`) ? `error.${code}` : "error.unreadable";
  return make("div", { class: "trouble", role: "alert" },
    make("p", {}, make("strong", {}, say(word, { status }))),
    details ? make("p", { class: "details", lang: "en", dir: "auto" }, details.replace(/^input 1: /, "")) : null,
    seconds ? make("p", {}, say("error.later", { seconds })) : null,
    RELOAD.includes(code) ? button(say("reload"), () => location.reload()) : null,
    retry && !RELOAD.includes(code) ? button(say("again"), retry) : null);
}

const button = (words, click) => make("button", { type: "button", click }, words);
