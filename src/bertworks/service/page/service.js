// The service that sent this page: what it can do, what it answers, and why it does not.

import { has } from "./words.js";

let isGuarded = false; // then the browser was asked for a key, and sends it by itself

export const asksForKey = () => isGuarded;

// Why there is no answer: a code, and perhaps `status`, `details` in the service's words, and `seconds` to wait.
export class Refused extends Error {
  constructor(code, facts = {}) {
    super(code);
    Object.assign(this, { code, ...facts });
  }
}

// Without a name and a key, should the page have been opened by an address with both.
export function addressOf(path) {
  const url = new URL(path, document.baseURI);
  url.username = "";
  url.password = "";
  return url.href;
}

export async function models() {
  const { reply } = await ask({ path: "info" });
  if (!Array.isArray(reply?.models)) throw new Refused("unreadable");
  isGuarded = reply.asks_for_key === true;
  return reply.models;
}

export async function ask({ path, body }, signal) {
  const begun = performance.now();
  const response = await send(path, body, signal);
  const reply = await read(response);
  if (!response.ok) throw refusal(response, reply);
  return { reply, told: toldBy(response), milliseconds: performance.now() - begun };
}

// What an answer says of itself whatever its shape is: the model may have been exchanged since the page was loaded.
function toldBy({ headers }) {
  const number = (name) => (headers.has(name) ? Number(headers.get(name)) : undefined);
  const revision = headers.get("x-bertworks-revision") ?? undefined;
  return { revision, tokens: number("x-compute-tokens"), numCut: number("x-truncated") };
}

async function send(path, body, signal) {
  const options = { signal, credentials: "same-origin" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  try {
    return await fetch(addressOf(path), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("unreachable");
  }
}

async function read(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (!response.ok) return null;
    throw new Refused("unreadable");
  }
}

function refusal({ status, headers }, reply) {
  const code = reply?.error?.code;
  const seconds = Math.ceil(Number(headers.get("Retry-After")));
  const details = code === "unauthorized" ? "" : String(reply?.error?.message ?? "");
  return new Refused(has(`error.${code}`) ? code : "status", { status, details, seconds });
}
