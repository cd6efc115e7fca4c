// The service that sent this page: what it can do, what it answers, and why it does not.

import { say, has } from "./words.js";

let key = "";
let isAsked = false; // a browser that was asked for the key sends it by itself

export const hasKey = () => key !== "" || isAsked;

export function setKey(given) {
  key = given.trim();
}

export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export const addressOf = (path) => new URL(path, document.baseURI).href;

export async function models() {
  const { reply } = await ask({ path: "info" });
  if (!Array.isArray(reply?.models)) throw new Refused("unreadable", say("error.unreadable"));
  isAsked = reply.asks_for_key === true;
  return reply.models;
}

export async function ask({ path, body }, signal) {
  const begun = performance.now();
  const response = await send(path, body, signal);
  const reply = await read(response);
  if (!response.ok) throw refusal(response, reply);
  return { reply, milliseconds: performance.now() - begun };
}

async function send(path, body, signal) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = { headers, signal, credentials: "same-origin" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  try {
    return await fetch(addressOf(path), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("unreachable", say("error.unreachable"));
  }
}

async function read(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (!response.ok) return null;
    throw new Refused("unreadable", say("error.unreadable"));
  }
}

// One sentence of ours for the code, then the service's own.
function refusal(response, reply) {
  const code = reply?.error?.code ?? String(response.status);
  const told = reply?.error?.message ?? say("error.status", { status: response.status });
  const wait = Number(response.headers.get("Retry-After"));
  const ours = has(`error.${code}`) ? say(`error.${code}`) : "";
  const later = wait > 0 ? say("error.later", { seconds: Math.ceil(wait) }) : "";
  return new Refused(code, [ours, String(told), later].filter(Boolean).join(" "));
}
