// What was typed in a panel, for which model; where nothing was, an example that the model can read.

import { modelsFor } from "./panels.js";
import { LANGUAGES, language, say } from "./words.js";

export function draftOf(panel, models) {
  const draft = { values: {}, model: modelsFor(panel, models)[0], task: null, outcome: null, view: {}, running: null };
  renewExamples(panel, draft);
  return draft;
}

// The language of the page, unless the vocabulary of the model has only another.
export function readBy({ languages = [] }) {
  return languages.includes(language()) ? language() : languages[0] ?? language();
}

// After another language or model was chosen; what somebody typed stays.
export function renewExamples(panel, draft) {
  for (const { name, initial } of panel.fields) {
    if (initial !== undefined) {
      draft.values[name] ??= initial;
      continue;
    }
    const example = (of) => say(`${panel.id}.${name}.example`, {}, of);
    const isUntouched = draft.values[name] === undefined || LANGUAGES.map(example).includes(draft.values[name]);
    if (isUntouched) draft.values[name] = example(readBy(draft.model));
  }
}

// The values of the fields as they are sent.
export function valuesOf(panel, draft) {
  const read = ({ name, kind }) => {
    const value = draft.values[name];
    return kind === "lines" ? value.split("\n").map((line) => line.trim()).filter(Boolean) : value.trim();
  };
  return Object.fromEntries(panel.fields.map((field) => [field.name, read(field)]));
}
