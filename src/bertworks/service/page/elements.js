// Elements made of tags, attributes and children; a text only ever becomes a text node.

const SVG = "http://www.w3.org/2000/svg";

export const CONTROL = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl"; // the key that goes with others

export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return element;
}

// A share between 0 and 1, for the style sheet to draw.
export function withShare(element, share) {
  element.style.setProperty("--share", String(Math.min(1, Math.max(0, share))));
  return element;
}

// What is remembered for the next visit, where the browser allows it.
export function remember(name, value) {
  try {
    localStorage.setItem(`bertworks.${name}`, value);
  } catch {
    // Then it is forgotten.
  }
}

export function recall(name) {
  try {
    return localStorage.getItem(`bertworks.${name}`);
  } catch {
    return null;
  }
}
