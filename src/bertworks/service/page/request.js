// The request behind an answer, as curl, as Python, and what came back; each to copy.

import { CONTROL, make } from "./elements.js";
import { curl, json, python } from "./snippets.js";
import { say } from "./words.js";

const LONGEST_SHOWN = 20_000; // characters; what is copied is whole
const TOLD = 2_000; // milliseconds for which a button tells what it did

let opened = 0; // the tab, which stays the same from answer to answer

export function requestView(request, reply) {
  const kinds = [["curl", () => curl(request)], ["Python", () => python(request)]];
  if (reply !== null) kinds.push(["JSON", () => json(reply)]);
  const tabs = kinds.map(([name], place) => make("button", {
    type: "button", role: "tab", id: `tab-${place}`, "aria-controls": "snippet", click: () => open(place),
  }, name));
  const code = make("code", {});
  const box = make("pre", { id: "snippet", role: "tabpanel", tabindex: "0" }, code);
  const copy = make("button", {
    type: "button", class: "quiet small", click: () => copyText(kinds[opened][1](), code, copy),
  }, say("copy"));
  const list = make("div", { class: "tabs", role: "tablist", "aria-label": say("request") }, tabs);
  function open(place) {
    opened = place;
    code.textContent = shortened(kinds[place][1]());
    tabs.forEach((tab, nth) => {
      tab.setAttribute("aria-selected", String(nth === place));
      tab.tabIndex = nth === place ? 0 : -1;
    });
    box.setAttribute("aria-labelledby", `tab-${place}`);
    copy.textContent = say("copy");
  }
  list.addEventListener("keydown", (event) => {
    const last = tabs.length - 1;
    const to = { ArrowRight: opened + 1, ArrowLeft: opened - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    open((to + tabs.length) % tabs.length);
    tabs[opened].focus();
  });
  open(Math.min(opened, tabs.length - 1));
  return make("section", { class: "request", "aria-labelledby": "request-title" },
    make("h3", { id: "request-title" }, say("request")), make("div", { class: "above" }, list, copy), box);
}

function shortened(text) {
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}\n…` : text;
}

// Where the browser keeps its clipboard to itself, the text is selected, ready for Ctrl+C.
async function copyText(text, code, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = say("copied");
  } catch {
    code.textContent = text;
    getSelection().selectAllChildren(code);
    button.textContent = say("selected", { keys: `${CONTROL} + C` });
  }
  document.getElementById("status").textContent = button.textContent;
  setTimeout(() => { button.textContent = say("copy"); }, TOLD);
}
