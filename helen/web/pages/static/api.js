// Asks Helen's API: the session's CSRF token with each write, an Idempotency-Key, and problems as errors.
import { learnClock } from "./time.js";

export class Refused extends Error {
  constructor(status, title, detail, retry) {
    super(detail);
    this.name = "Refused";
    this.status = status;
    this.title = title;
    this.retry = retry;
  }
}

function key() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const csrf = () => document.querySelector("meta[name=csrf]")?.content ?? "";

export async function ask(method, path, body, headers = {}, signal = undefined) {
  const isWrite = method !== "GET";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      cache: "no-store",
      credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(isWrite ? { "x-helen-csrf": csrf() } : {}),
        ...headers,
      },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "no answer", "Helen does not answer. What you typed is kept; try again.");
  }
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (date) learnClock(date / 1000);
  if (answer.ok) return answer;
  if (answer.status === 304) return answer;
  let problem = {};
  try { problem = await answer.json(); } catch { /* not a problem document */ }
  const detail = answer.status === 401
    ? "You are signed out. What you typed is kept: sign in in another tab, then try again."
    : problem.detail ?? `Helen answers ${answer.status}.`;
  throw new Refused(answer.status, problem.title ?? "refused", detail, Number(answer.headers.get("retry-after")) || null);
}

export const read = async (path) => (await ask("GET", path)).json();
export const dryRun = async (path, body, headers = {}) => (await ask("POST", path, { ...body, dry_run: true }, headers)).json();

// A write that is sent again after a lost answer is done once: the key stays until it has been answered.
export async function write(path, body, { method = "POST", headers = {}, once = true } = {}) {
  const more = once && method === "POST" ? { "idempotency-key": key() } : {};
  const answer = await ask(method, path, body, { ...more, ...headers });
  const text = await answer.text();
  return text ? JSON.parse(text) : {};
}

// Yields the documents of an answer in lines as they come. Without a body it is read, else it is asked for by POST.
export async function* lines(path, body, signal) {
  const posted = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const headers = body === undefined ? {} : { "content-type": "application/json", "x-helen-csrf": csrf() };
  const answer = await fetch(path, {
    ...posted, signal, credentials: "same-origin", headers: { ...headers, accept: "application/x-ndjson" },
  });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, problem.title, problem.detail ?? `Helen answers ${answer.status}.`);
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    held += value ?? "";
    const pieces = held.split("\n");
    held = pieces.pop();
    for (const piece of pieces) if (piece.trim()) yield JSON.parse(piece);
    if (done) break;
  }
  if (held.trim()) yield JSON.parse(held);
}
