// The request behind an answer, as commands to copy.

import { addressOf, asksForKey } from "./service.js";

const QUOTE = "'";
const END = "END"; // of what a shell reads line by line: JSON has one line, and braces around it
const LONGEST_WORD = 30_000; // characters; a shell takes 131,072 bytes
const WORDS = {
  json: { true: "true", false: "false", null: "null" },
  python: { true: "True", false: "False", null: "None" },
};

export function curl({ path, body }) {
  const lines = [`curl ${inShell(addressOf(path))}`, `-H ${inShell("Content-Type: application/json")}`];
  if (asksForKey()) lines.push('-H "Authorization: Bearer $API_KEY"');
  const sent = JSON.stringify(body);
  const isLong = sent.length > LONGEST_WORD;
  lines.push(isLong ? `--data-binary @- <<'${END}'\n${sent}\n${END}` : `-d ${inShell(sent)}`);
  return lines.join(" \\\n  ");
}

export function python({ path, body }) {
  const head = asksForKey() ? ["import os", "", "import requests"] : ["import requests"];
  const headers = '    headers={"Authorization": f"Bearer {os.environ[\'API_KEY\']}"},';
  return [
    ...head,
    "",
    "response = requests.post(",
    `    ${JSON.stringify(addressOf(path))},`,
    ...(asksForKey() ? [headers] : []),
    `    json=${laidOut(body, "    ", "python")},`,
    ")",
    "response.raise_for_status()",
    "print(response.json())",
  ].join("\n");
}

// In a shell, nothing between single quotes has a meaning but the quote itself.
function inShell(text) {
  return QUOTE + text.replaceAll(QUOTE, `${QUOTE}\\${QUOTE}${QUOTE}`) + QUOTE;
}

// In JSON; short lists in one line.
export const json = (value) => laidOut(value, "", "json");

// Strings and numbers are the same in JSON and in Python.
function laidOut(value, indent, language) {
  if (typeof value === "number" || typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return WORDS[language][value];
  const isList = Array.isArray(value);
  const [open, close] = isList ? "[]" : "{}";
  const deeper = `${indent}    `;
  const items = isList
    ? value.map((item) => laidOut(item, deeper, language))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${laidOut(item, deeper, language)}`);
  const short = open + items.join(", ") + close;
  if (short.length + indent.length < 80 && !short.includes("\n")) return short;
  const comma = language === "python" ? "," : "";
  return `${open}\n${deeper}${items.join(`,\n${deeper}`)}${comma}\n${indent}${close}`;
}
