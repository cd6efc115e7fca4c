// The request behind an answer, as commands to copy.

import { addressOf, hasKey } from "./service.js";

const QUOTE = "'";

export function curl({ path, body }) {
  const lines = [`curl ${inShell(addressOf(path))}`, `-H ${inShell("Content-Type: application/json")}`];
  if (hasKey()) lines.push('-H "Authorization: Bearer $API_KEY"');
  lines.push(`-d ${inShell(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

export function python({ path, body }) {
  const head = hasKey() ? ["import os", "", "import requests"] : ["import requests"];
  const headers = '    headers={"Authorization": f"Bearer {os.environ[\'API_KEY\']}"},';
  return [
    ...head,
    "",
    "response = requests.post(",
    `    ${JSON.stringify(addressOf(path))},`,
    ...(hasKey() ? [headers] : []),
    `    json=${inPython(body, "    ")},`,
    ")",
    "response.raise_for_status()",
    "print(response.json())",
  ].join("\n");
}

// In a shell, nothing between single quotes has a meaning but the quote itself.
function inShell(text) {
  return QUOTE + text.replaceAll(QUOTE, `${QUOTE}\\${QUOTE}${QUOTE}`) + QUOTE;
}

// Strings and numbers of JSON are Python's too.
function inPython(value, indent) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const [open, close] = isList ? "[]" : "{}";
  const deeper = `${indent}    `;
  const items = isList
    ? value.map((item) => inPython(item, deeper))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${inPython(item, deeper)}`);
  const short = open + items.join(", ") + close;
  if (short.length + indent.length < 80 && !short.includes("\n")) return short;
  return `${open}\n${items.map((item) => `${deeper}${item},\n`).join("")}${indent}${close}`;
}
