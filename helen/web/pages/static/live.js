// Keeps a page true: one stream a browser, parts that are fetched again when a fitting event comes, and the age of it all.
//
// A part is <div data-live="transition notice" data-part="NAME" [data-on=AGENT] [data-check=CHECK]
// [data-begins=BEGINNING OF CHECKS]>; the server makes it again for ?part=NAME. Focus, selection, open details and forms
// that were touched stay as they are, and so does an element that comes with the same data-same as it had.
import { isWanted, SILENT_SECONDS, sinceOf, Stream, union } from "./stream.js";
import { clock, learnClock, now, writeAges, writeTimes, zoneName } from "./time.js";

const LOST_SECONDS = 40;
const AGAIN_MS = 1000;
const listeners = [];
const wants = [{}];  // nothing but signs of life, for a page that follows nothing
let heard = Date.now();
let state = "connecting";
let post = null;
let isGone = false;
let isShownLive = false;

// ---------------------------------------------------------------------------------------------- the stream

// listen({kinds, rows, results, since}, call): call(kind, data, id) for each event of the stream that fits. `since` is
// the look of the rows that the page was made with: what was found after it comes, however late the stream begins.
export function listen(want, call) {
  listeners.push({ want, call });
  wants.push(want);
  post?.();
}

// call(state) whenever the stream is live again or lost.
const onState = [];
export function whenStateChanges(call) { onState.push(call); }

function take(message) {
  if (message.type === "state") {
    state = message.state;
    if (state === "live") heard = Date.now();
    for (const call of onState) call(state);
  } else {
    heard = Date.now();
    if (message.type === "event") {
      for (const { want, call } of listeners) {
        if (isWanted(want, message.kind)) call(message.kind, message.data, message.id);
      }
    }
  }
  if (message.type === "state" || !isShownLive) showFreshness();  // the clock is renewed each second, not with each event
}

function connect() {
  if (typeof SharedWorker === "function") {
    const worker = new SharedWorker(new URL("./stream-worker.js", import.meta.url), { type: "module", name: "helen" });
    worker.port.onmessage = ({ data }) => take(data);
    post = () => worker.port.postMessage({ type: "wants", wants });
    addEventListener("pagehide", () => worker.port.postMessage({ type: "gone" }));
    addEventListener("pageshow", (event) => { if (event.persisted) post(); });
  } else {
    const stream = new Stream(take);
    post = () => stream.want(document.hidden ? null : union(wants), stream.lastId ? null : sinceOf(wants));
    document.addEventListener("visibilitychange", post);
  }
  post();
}

// ---------------------------------------------------------------------------------------------- freshness

function showFreshness() {
  const silent = (Date.now() - heard) / 1000;
  const isLost = isGone || silent >= LOST_SECONDS || (state === "lost" && silent >= SILENT_SECONDS) || state === "out";
  const fresh = document.getElementById("fresh");
  const text = state === "out" ? "signed out" : silent >= SILENT_SECONDS ? `no word from Helen for ${Math.round(silent)} s`
    : state === "live" ? `live ${clock(now())} ${zoneName()}` : "connecting";
  if (fresh) {
    if (fresh.textContent !== text) fresh.textContent = text;
    fresh.dataset.state = isLost || silent >= SILENT_SECONDS ? "lost" : state;
  }
  isShownLive = state === "live" && !isLost && silent < SILENT_SECONDS;
  document.body.classList.toggle("old", isLost);
  const banner = document.getElementById("banner");
  const said = state === "out" ? "You are signed out: this page shows what was so before. Open a new link with `helen open`."
    : isGone ? "Helen has this no more: the page shows what was so before, hatched. Its history stays."
    : isLost ? "Helen is not heard: this page shows what was so before, hatched. It goes on by itself when Helen answers."
      : "";
  if (banner && banner.dataset.from !== "page") {
    banner.hidden = !said;
    if (banner.textContent !== said) banner.textContent = said;
  }
  showTally();
}

function showTally() {
  const bad = ["critical", "unknown"].reduce(
    (sum, name) => sum + Number(document.querySelector(`[data-count=${name}]`)?.textContent || 0), 0);
  const name = document.title.replace(/^\((\d+|\?)\) /, "");
  const shown = document.body.classList.contains("old") ? "?" : bad;
  const title = shown ? `(${shown}) ${name}` : name;
  if (document.title !== title) document.title = title;
}

// counts: {"ok": N, "warning": N, "critical": N, "unknown": N}
export function showCounts(counts) {
  for (const [name, number] of Object.entries(counts)) {
    const each = document.querySelector(`[data-count=${name}]`);
    if (!each || each.textContent === String(number)) continue;
    each.textContent = number;
    each.closest(".state").classList.toggle("none", !number);
  }
  showTally();
}

// ---------------------------------------------------------------------------------------------- parts

const due = new Map();
const tags = new Map();

function isTouched(part) {
  return [...part.querySelectorAll("form")].some((form) => form.dataset.touched);
}

// hold(): no part is fetched until release(), for a page that takes away what it shows.
let holds = 0;
let cut = new AbortController();
export function hold() { holds += 1; cut.abort(); cut = new AbortController(); }
export function release() { holds -= 1; }

export async function renew(part) {
  if (isTouched(part) || isGone || holds) return;
  const address = new URL(location.href);
  address.searchParams.set("part", part.dataset.part);
  const tag = tags.get(part.dataset.part);
  const answer = await fetch(address, {
    credentials: "same-origin", cache: "no-store", headers: tag ? { "if-none-match": tag } : {}, signal: cut.signal,
  }).catch(() => null);
  if (answer?.status === 404) { isGone = true; showFreshness(); }
  if (!answer || !answer.ok) return;
  learnClock(Date.parse(answer.headers.get("date")) / 1000);
  tags.set(part.dataset.part, answer.headers.get("etag"));
  const [text, morphs] = await Promise.all([answer.text(), import("./vendor/idiomorph.js")]).catch(() => [null]);
  if (text === null || isTouched(part)) return;
  morph(morphs.Idiomorph, part, text);
}

function morph(Idiomorph, part, html) {
  const open = new Set([...part.querySelectorAll("details[open][id]")].map((each) => each.id));
  const parsed = new DOMParser().parseFromString(html, "text/html");
  for (const each of parsed.querySelectorAll("details[id]")) if (open.has(each.id)) each.setAttribute("open", "");
  const isSame = (before, after) => before.dataset?.same !== undefined && before.dataset.same === after.dataset?.same;
  Idiomorph.morph(part, [...parsed.body.childNodes], {
    morphStyle: "innerHTML", ignoreActiveValue: true,
    callbacks: { beforeNodeMorphed: (before, after) => !isSame(before, after) },
  });
  writeTimes(part);
}

function renewSoon(part) {
  if (due.has(part)) return;
  due.set(part, setTimeout(() => { due.delete(part); renew(part); }, AGAIN_MS));
}

function watchParts() {
  for (const part of document.querySelectorAll("[data-live]")) {
    const kinds = part.dataset.live.split(/[\s,]+/).filter(Boolean);
    listen({ kinds }, (kind, data) => {
      const isOther = kind !== "reset" && ((part.dataset.on && data.agent && data.agent !== part.dataset.on)
        || (part.dataset.check && data.check_id && data.check_id !== part.dataset.check)
        || (part.dataset.begins && data.check_id && !data.check_id.startsWith(part.dataset.begins)));
      if (!isOther) renewSoon(part);
    });
  }
  document.addEventListener("input", ({ target }) => { target.form && (target.form.dataset.touched = "1"); });
  whenStateChanges((state) => {
    if (state === "live") for (const part of document.querySelectorAll("[data-live]")) renewSoon(part);
  });
}

// ---------------------------------------------------------------------------------------------- speech

let said = 0;
const waiting = [];

// Tells a screen reader one sentence, at most one in ten seconds.
export function say(sentence) {
  waiting.push(sentence);
  const wait = Math.max(0, said + 10_000 - Date.now());
  if (waiting.length === 1) {
    setTimeout(() => {
      const text = waiting.length > 1 ? `${waiting[0]} And ${waiting.length - 1} more.` : waiting[0];
      waiting.length = 0;
      said = Date.now();
      const region = document.getElementById("say");
      if (region) region.textContent = text;
    }, wait);
  }
}

export function sayState(agent, check, status) { say(`${agent} ${check} is ${status}.`); }

// A page with a part that follows transitions has them told as well; the board tells of its rows, which are smaller.
function tellTransitions() {
  const parts = [...document.querySelectorAll("[data-live~=transition]")];
  if (!parts.length) return;
  listen({ kinds: ["transition"] }, (kind, { agent, check_id: check, document: change }) => {
    const isHard = kind === "transition" && change?.now?.kind === "hard" && change.now.status > 0;
    if (isHard) sayState(agent, check, ["ok", "warning", "critical", "unknown"][change.now.status] ?? change.now.status);
  });
}

writeTimes();
watchParts();
tellTransitions();
// Nothing that the first sight of a page needs waits for the stream: it says by itself what was missed until then
const connectSoon = () => (window.requestIdleCallback ?? setTimeout)(connect, { timeout: 300 });
if (document.readyState === "complete") connectSoon(); else addEventListener("load", connectSoon);
setInterval(() => { showFreshness(); writeAges(); }, 1000);
