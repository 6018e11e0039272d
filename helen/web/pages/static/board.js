// Keeps the board live: all rows that fit, in order, 10,000 of them by a window of elements; choosing, and acting on many.
import { read, Refused } from "./api.js";
import { namesOf, rowOf, Rows } from "./board-rows.js";
import { checkPath, Table } from "./board-table.js";
import { isUnwell, ORDERS, readFilter } from "./filters.js";
import { bind } from "./keys.js";
import { listen, sayState, showCounts, whenStateChanges } from "./live.js";
import { now } from "./time.js";

const HOLD_MS = 10_000; // that the order stays while the pointer or the focus is in the list
const query = new URLSearchParams(location.search);
const view = {
  text: query.get("q") ?? "", all: query.get("all") === "1", group: query.get("group") ?? "",
  sort: ORDERS[query.get("sort")] ? query.get("sort") : "problems", kiosk: query.get("kiosk") === "1",
};
const rows = new Rows(view.sort);
const labels = new Map();
const element = document.getElementById("board");
const table = element && new Table(element, rows, !view.kiosk, showNumbers);
const chosen = table?.chosen ?? new Set();
let fits = () => true;
let isHeld = 0;

// ---------------------------------------------------------------------------------------------- rows

function take(kind, data) {
  if (kind === "reset") { load(); return; }
  showCounts(data.counts);
  loading?.push(data);
  if (isRead) apply(data, true);
}

function apply(data, isNews) {
  const isBusy = isPointedAt();
  let isMoved = false;
  for (const values of data.rows) {
    const row = complete(rowOf(values, data.fields));
    const before = rows.get(row.key);
    if (before && before.at > row.at) continue;
    if (isIn(row)) {
      if (isNews) tellOf(before, row);
      isMoved = rows.set(row, isBusy) || isMoved;
      if (before) table?.write(row.key);
    } else if (before) isMoved = drop(row.key, isBusy) || isMoved;
  }
  // `gone` names rows that left the stream's own view as well, which may be wider than this page's
  for (const [agent, check] of data.gone) {
    const key = `${agent}\n${check}`;
    if ((rows.get(key)?.at ?? 0) <= placeOf(data.at)) isMoved = drop(key, isBusy) || isMoved;
  }
  if (isMoved) show(isBusy);
}

const placeOf = (id) => Number(id.split(".")[1]);
const isIn = (row) => (view.text || view.all || isUnwell(row)) && fits(row, now());

function complete(row) {
  row.labels = labels.get(row.agent);
  row.strip ??= rows.get(row.key)?.strip;
  return row;
}

function tellOf(before, row) {
  const isNew = !before || before.status !== row.status || (before.soft && !row.soft);
  if (isNew && row.status !== "ok" && !row.soft) sayState(row.agent, row.check, row.status);
}

function drop(key, isBusy) {
  chosen.delete(key);
  return rows.delete(key, isBusy);
}

// ---------------------------------------------------------------------------------------------- reading all rows

let loading = null; // frames that came since the rows are read: what was read may be older
let isDue = false;
let isRead = false;

// Reads all rows anew, once more if it was asked for in between; a refusal is told beside the filter, and what is
// shown stays.
async function load() {
  if (loading) { isDue = true; return; }
  loading = [];
  try {
    do {
      isDue = false;
      loading.length = 0;
      await loadAll();
    } while (isDue);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    document.getElementById("fault").textContent = error.message;
  } finally {
    loading = null;
  }
}

// The rows that the browser has asked for already, while it was reading the page.
let preloaded = document.querySelector("link[data-rows]")?.getAttribute("href") ?? null;

async function loadAll() {
  const wanted = view.text;
  if (fits.labels || view.group) await loadLabels();
  const asked = new URLSearchParams({ sort: view.sort, strips: "1" });
  if (view.text) asked.set("filter", view.text);
  if (view.all) asked.set("all", "1");
  const answer = await read(preloaded ?? `/api/v1/rows?${asked}`);
  preloaded = null;
  if (view.text !== wanted) return; // another filter was typed: load() begins anew
  isRead = true;
  rows.replace(answer.rows.map((values) => {
    const row = rowOf(values, answer.fields);
    row.labels = labels.get(row.agent);
    return row;
  }));
  for (const frame of loading) if (placeOf(frame.at) >= placeOf(answer.at)) apply(frame, false);
  show(false);
}

async function loadLabels() {
  for (let cursor = ""; cursor !== null;) {
    const page = await read(`/api/v1/agents?limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    for (const agent of page.agents) labels.set(agent.name, agent.labels);
    cursor = page.next ?? null;
  }
}

// ---------------------------------------------------------------------------------------------- showing

function isPointedAt() {
  return table && !view.kiosk && (element.matches(":hover") || element.contains(document.activeElement));
}

function show(isBusy) {
  if (!table) { if (rows.size) location.reload(); return; }
  if (!isBusy) { release(); return; }
  const button = document.getElementById("fresh-rows");
  button.hidden = false;
  button.textContent = rows.fresh.size ? `${rows.fresh.size} new: show` : "The order has changed: show";
  isHeld ||= setTimeout(release, HOLD_MS);
}

// Lets the order go on that was held.
function release() {
  clearTimeout(isHeld);
  isHeld = 0;
  document.getElementById("fresh-rows").hidden = true;
  if (!rows.isSorted) rows.sort();
  if (table.at !== null && !rows.get(table.at)) table.at = null;
  if (isDrawn) table.drawSoon(); else table.draw();  // the first rows wait for no frame
}

const shown = document.getElementById("shown");
let isDrawn = false;

// As the server writes numbers: a text that says the same is left alone. Intl's own formats cost milliseconds to make.
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

function showNumbers() {
  const total = Number(shown.dataset.total);
  const text = `${grouped(rows.order.length)} of ${grouped(total)} ${total === 1 ? "check" : "checks"}`;
  if (shown.textContent !== text) shown.textContent = text;
  document.querySelector(".more")?.remove();
  showChosen();
  if (isDrawn) return;
  isDrawn = true;
  performance.mark("rows");  // bench/pages.py looks when they are there
  setTimeout(() => import("./acts.js").catch(() => { /* Helen is not heard: it is asked for again when it is needed */ }));
}

// ---------------------------------------------------------------------------------------------- choosing and acting

function showChosen() {
  const bar = document.getElementById("acts");
  if (bar.hidden === Boolean(chosen.size)) bar.hidden = !chosen.size;
  if (chosen.size) document.getElementById("chosen").textContent = `${chosen.size.toLocaleString("en")} chosen`;
}

function choose(key, isChosen) {
  if (isChosen) chosen.add(key); else chosen.delete(key);
  table.mark(key);
}

let last = null;
document.addEventListener("click", (event) => {
  const box = event.target.closest?.("#board input[type=checkbox]");
  if (box) {
    const { agent, check } = box.closest("tr").dataset;
    const key = `${agent}\n${check}`;
    if (event.shiftKey && last !== null) upTo(key); else choose(key, box.checked);
    last = key;
    showChosen();
    return;
  }
  const act = event.target.closest?.("[data-do]")?.dataset.do;
  if (act) acts[act]?.();
});

function upTo(key) {
  const { order } = rows;
  const [from, to] = [order.indexOf(last ?? order[0]), order.indexOf(key)].sort((a, b) => a - b);
  for (const each of order.slice(Math.max(0, from), to + 1)) choose(each, true);
  showChosen();
}

function chooseAll() {
  for (const key of rows.order) choose(key, true);
  showChosen();
}

function chooseNone() {
  for (const key of [...chosen]) choose(key, false);
  showChosen();
}

const current = () => table?.at ?? null;
const targets = () => (chosen.size ? [...chosen] : current() !== null ? [current()] : []).map(namesOf);

// What acts on checks is read once the rows are there: nobody acts before.
async function act(name) {
  const those = targets();
  if (those.length) (await import("./acts.js"))[name](those);
}

const acts = {
  ack: () => act("acknowledge"),
  downtime: () => act("planDowntime"),
  run: () => act("runNow"),
  none: chooseNone,
};

function go(by) {
  const { order } = rows;
  if (!table || !order.length) return;
  const from = current() === null ? -1 : order.indexOf(current());
  table.go(order[Math.max(0, Math.min(order.length - 1, from + by))]);
}

const WHERE = "Board";
const onCurrent = (call) => () => { if (current() !== null) call(current()); };
bind("j", "next row", () => go(1), WHERE);
bind("k", "row before", () => go(-1), WHERE);
bind("g", "first row", () => go(-Infinity), WHERE);
bind("G", "last row", () => go(Infinity), WHERE);
bind("Enter", "open the check", onCurrent((key) => { location.href = checkPath(...namesOf(key)); }), WHERE);
bind("e", "why it is so", onCurrent((key) => { location.href = `${checkPath(...namesOf(key))}/why`; }), WHERE);
bind("x", "choose the row", onCurrent((key) => { choose(key, !chosen.has(key)); last = key; showChosen(); }), WHERE);
bind("X", "choose up to here", onCurrent(upTo), WHERE);
bind("*", "choose all that fit", () => { if (table) chooseAll(); }, WHERE);
bind("a", "acknowledge", acts.ack, WHERE);
bind("d", "plan a downtime", acts.downtime, WHERE);
bind("r", "run now", acts.run, WHERE);
bind("s", "next order", () => {
  const names = Object.keys(ORDERS);
  query.set("sort", names[(names.indexOf(view.sort) + 1) % names.length]);
  location.search = query;
}, WHERE);
bind("w", "all checks", () => { if (view.all) query.delete("all"); else query.set("all", "1"); location.search = query; }, WHERE);

// ---------------------------------------------------------------------------------------------- begin

function refilter(text) {
  const fault = document.getElementById("fault");
  try {
    fits = readFilter(text);
    fault.textContent = "";
  } catch (error) {
    fault.textContent = error.message;
    return;
  }
  view.text = text;
  preloaded = null;
  if (text) query.set("q", text); else query.delete("q");
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
  load();
}

if (view.kiosk) document.body.classList.add("kiosk");
shown.dataset.total = shown.textContent.match(/of ([\d,]+)/)?.[1].replaceAll(",", "") ?? "0";
document.getElementById("fresh-rows").addEventListener("click", release);
const field = document.querySelector("[data-filter]");
let typing = 0;
field?.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => refilter(field.value.trim()), 300); });
document.querySelector("form.filter")?.addEventListener("change", ({ target }) => { if (target !== field) target.form.requestSubmit(); });
let isReadable = true;
try { fits = readFilter(view.text); } catch { isReadable = false; }  // the server has said so beside the field
if (isReadable) {
  listen({ rows: view.text || view.all ? "all" : "problems", since: document.getElementById("over").dataset.look }, take);
  let isLost = false;
  whenStateChanges((state) => {
    if (state === "live" && isLost) load();
    isLost = state === "lost" || state === "out";
  });
  load();
}
