// The form of a downtime or silence: a preview while it is filled in, and what another editor has changed meanwhile.
import { ask, dryRun, Refused, write } from "./api.js";
import { many, styled as make } from "./dom.js";
import { isUtc, moment, now, span, zoneName } from "./time.js";
import "./windows.js";

const TYPED_MS = 400;
const SURE_CHECKS = 1000;  // a window that covers more, or a tenth of the fleet, is opened by typing its number
const SURE_SHARE = 0.1;
const FEW_CHECKS = 10;     // of a small fleet, a tenth is a check or two: so many are opened without that
const SPANS = 4;           // that are seen at once
const PAST = "7d";
const UNITS = { s: 1, m: 60, h: 3600, d: 86400, w: 604800 };
const form = document.getElementById("window");
const here = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";


// ---------------------------------------------------------------------------------------------- reading the form

export class Unclear extends Error {}

// "90m", "2h 30m", "1d" in seconds.
export function readLength(text) {
  const parts = [...text.trim().matchAll(/\s*(\d+(?:\.\d+)?)\s*([smhdw])/gy)];
  const whole = parts.map((part) => part[0]).join("").trim();
  if (!parts.length || whole !== text.trim()) throw new Unclear(`"${text}" is no length: write 30m, 2h, or 3d.`);
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
}

const readMoment = (text) => (text ? Date.parse(isUtc() ? `${text}Z` : text) / 1000 : null);

function writeMoment(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return moment(seconds, false).replace(" ", "T").slice(0, 16);
}

// Words apart by spaces; one that has spaces stands in double quotes.
const readWords = (text) => (text.match(/(?:[^\s"]|"[^"]*")+/g) ?? []).map((word) => word.replaceAll('"', ""));

// Agents and labels of one field: a word with = is a label.
function readScope(fields) {
  const words = readWords(fields.on.value);
  const labels = words.filter((word) => word.includes("="));
  const agents = words.filter((word) => !word.includes("="));
  const checks = readWords(fields.checks.value);
  const keys = fields.keys.value.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const at = line.indexOf("/");
    if (at < 1 || at === line.length - 1) throw new Unclear(`"${line}" is no AGENT/CHECK.`);
    return [line.slice(0, at), line.slice(at + 1)];
  });
  return {
    ...(agents.length ? { agents } : {}), ...(checks.length ? { checks } : {}), ...(keys.length ? { keys } : {}),
    ...(labels.length ? { labels: Object.fromEntries(labels.map((word) => word.split(/=(.*)/s).slice(0, 2))) } : {}),
    ...(held?.matchers ? { matchers: held.matchers } : {}),
  };
}

// A field has minutes; one that was not touched keeps its seconds.
const kept = (field, before) => (field.value && field.value === writeMoment(before) ? before : readMoment(field.value));

function readTimes(fields) {
  const begin = kept(fields.begin, held?.begin);
  const from = begin === null ? {} : { begin };
  if (fields.when.value === "once") {
    const typed = kept(fields.until, held?.until);
    if (typed !== null) return { ...from, until: typed };
    return { ...from, until: Math.max(begin ?? 0, held ? now() : begin ?? now()) + readLength(fields.for.value) };
  }
  const days = [...form.querySelectorAll("[name=day]:checked")].map((each) => each.value);
  if (!days.length) throw new Unclear("Choose at least one day.");
  const last = kept(fields.last, held?.until);
  const recurrence = { begin: fields.dayBegin.value, end: fields.dayEnd.value, zone: fields.zone.value.trim(), days };
  return { ...from, ...(last === null ? {} : { until: last }), recurrence };
}

function readForm() {
  const fields = form.elements;
  return {
    kind: fields.kind.value, ...readScope(fields), ...readTimes(fields), comment: fields.comment.value,
    author: fields.author.value, ...(held ? { id: held.id } : {}), ...(held?.created ? { created: held.created } : {}),
  };
}

// ---------------------------------------------------------------------------------------------- the preview

const inZone = (seconds, zone) => new Intl.DateTimeFormat("en-GB", {
  weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
  ...(zone ? { timeZone: zone } : {}),
}).format(new Date(seconds * 1000));
const clockIn = (seconds, zone) => new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone,
}).format(new Date(seconds * 1000));

export function spanWords([begin, end], zone, mine) {
  if (end === null) return `from ${inZone(begin, zone)}, without an end`;
  const own = `${inZone(begin, zone)} to ${inZone(end, zone)} (${span(end - begin)})`;
  const isElse = clockIn(begin, zone) !== clockIn(begin, mine) || clockIn(end, zone) !== clockIn(end, mine);
  return isElse ? `${own}; here ${clockIn(begin, mine)} to ${clockIn(end, mine)}` : own;
}

const mine = () => (isUtc() ? "UTC" : here);

function details(title, items) {
  const list = make("ul", "plain", ...items.map((item) => make("li", "wrap", item)));
  return items.length ? make("details", "", make("summary", "", title), list) : make("p", "", title);
}

function showPreview({ window, spans, covers, fleet, not_ok: bad, past, active }) {
  const zone = window.recurrence?.zone ?? mine();
  const share = fleet.checks ? Math.round((100 * covers.checks) / fleet.checks) : 0;
  const nodes = [make("p", "lead", make("b", "", many(covers.checks, "check")), ` on ${many(covers.agents, "agent")}`,
    make("span", "quiet", ` ${share} % of the fleet`))];
  if (!covers.checks) nodes[0] = make("p", "lead", "It covers nothing that is there now.");
  const more = bad.length === 200 ? "200 or more" : bad.length;
  nodes.push(details(bad.length ? `Not ok now: ${more}` : "All of them are ok now.", bad.map((name) => checkLink(name))));
  nodes.push(make("h3", "", window.recurrence ? `Next, in ${zone}` : active ? "On at once" : `Later, ${zoneName()}`));
  const words = spans.map((each) => spanWords(each, zone, mine()));
  nodes.push(words.length ? make("ol", "plain", ...words.slice(0, SPANS).map((each) => make("li", "", each))) : make("p", "fault", "It is never on."));
  if (words.length > SPANS) nodes.push(details("and then", words.slice(SPANS)));
  nodes.push(make("h3", "", "The last 7 days"), pastNode(past, window.recurrence, covers));
  document.getElementById("preview").replaceChildren(...nodes);
}

function checkLink(name) {
  const at = name.indexOf("/");
  const link = make("a", "", name);
  link.href = `/checks/${encodeURIComponent(name.slice(0, at))}/${name.slice(at + 1).split("/").map(encodeURIComponent).join("/")}`;
  return link;
}

function pastNode(past, recurs) {
  if (!past) return make("p", "quiet", "The messages of the time before can't be read now.");
  const isShort = past.from > now() - 7 * 86400 + 3600;
  const since = isShort ? ` Known since ${moment(past.from)}.` : "";
  const at = recurs ? " at such times" : "";
  if (!past.messages) return make("p", "quiet", `No message was due about these checks${at}.${since}`);
  const items = past.newest.map((each) => `${moment(each.at)} ${each.agent}/${each.check_id}: ${each.what}, ${each.status}`);
  const left = past.messages - items.length;
  if (left > 0) items.push(`and ${left} before`);
  return details(`${many(past.messages, "message")} ${past.messages === 1 ? "was" : "were"} due about these checks${at}; it would have held ${past.messages === 1 ? "it" : "them"}.${since}`, items);
}

// ---------------------------------------------------------------------------------------------- asking and sending

const held = form?.dataset.window ? JSON.parse(form.dataset.window) : null;
const fault = document.getElementById("fault");
const sure = document.getElementById("sure");
let tag = form?.dataset.tag ?? "";
let needed = null;
let turn = 0;
let timer = 0;

function tellFault(error) {
  if (!(error instanceof Refused || error instanceof Unclear)) throw error;
  fault.textContent = error.message;
}

function demandNumber({ covers, fleet }) {
  const isMuch = covers.checks > SURE_CHECKS || (covers.checks > FEW_CHECKS && covers.checks > SURE_SHARE * fleet.checks);
  needed = isMuch ? covers.checks : null;
  sure.hidden = !isMuch;
  sure.firstElementChild.textContent = `That is much of the fleet. Type the number of checks, ${needed}, to go on`;
}

async function preview() {
  const own = ++turn;
  try {
    const shown = await dryRun("/api/v1/windows", { ...readForm(), past: PAST });
    if (own !== turn) return;
    fault.textContent = "";
    showPreview(shown);
    demandNumber(shown);
  } catch (error) {
    if (own !== turn) return;
    document.getElementById("preview").replaceChildren();
    tellFault(error);
  }
}

async function send(event) {
  event.preventDefault();
  const button = document.getElementById("send");
  button.disabled = true;
  try {
    const body = readForm();
    const shown = await dryRun("/api/v1/windows", body);
    demandNumber(shown);
    if (needed !== null && form.elements.sure.value.replaceAll(/[\s,.]/g, "") !== String(needed)) {
      form.elements.sure.focus();
      throw new Unclear(`It covers ${many(needed, "check")}: type that number below.`);
    }
    await write("/api/v1/windows", body, { headers: held ? (tag ? { "if-match": tag } : { "if-none-match": "*" }) : {} });
    location.assign("/windows");
  } catch (error) {
    button.disabled = false;
    if (error.status === 412) await showDifference(); else tellFault(error);
  }
}

// ---------------------------------------------------------------------------------------------- another editor

const FIELDS = [["kind", "what"], ["agents", "agents"], ["labels", "labels"], ["checks", "checks"], ["keys", "exact checks"],
  ["begin", "begin"], ["until", "until"], ["recurrence", "recurs"], ["comment", "reason"], ["author", "by"]];
const USUAL = { agents: ["*"], checks: ["*"], labels: {}, keys: [], recurrence: null, until: null };

function valueWords(name, value) {
  if (value === null || value === undefined || value === "") return "none";
  if (name === "begin" || name === "until") return moment(value);
  if (name === "recurrence") return `${value.days.length === 7 ? "each day" : value.days.join(", ")} ${value.begin}-${value.end} ${value.zone}`;
  if (name === "keys") return value.map((key) => key.join("/")).join(", ") || "none";
  if (name === "labels") return Object.entries(value).map((pair) => pair.join("=")).join(" ") || "none";
  return Array.isArray(value) ? value.join(" ") : String(value);
}

async function showDifference() {
  const place = document.getElementById("difference");
  let theirs = null;
  try {
    const answer = await ask("GET", `/api/v1/windows/${encodeURIComponent(held.id)}`);
    theirs = await answer.json();
    tag = answer.headers.get("etag");
  } catch (error) {
    if (error.status !== 404) return tellFault(error);
    tag = "";
  }
  if (!theirs) {
    fault.textContent = "";
    return place.replaceChildren(make("p", "note warning", "It has ended or was cancelled meanwhile. Save it once more to open it anew, as it is in the form."));
  }
  const own = readForm();
  const rows = FIELDS.flatMap(([name, words]) => {
    const [before, other, my] = [held, theirs, own].map((each) => valueWords(name, each[name] ?? USUAL[name]));
    return before === other && before === my ? [] : [[words, before, other, my]];
  });
  const table = make("table", "cards");
  const head = table.createTHead().insertRow();
  for (const text of ["", "when you began", "now, by another", "in your form"]) {
    const cell = make("th", "", text || make("span", "hidden", "Field"));
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const [words, before, other, my] of rows) {
    const row = body.insertRow();
    row.append(make("th", "", words), make("td", "wrap", before), make("td", other === before ? "wrap" : "wrap at", other), make("td", "wrap", my));
    row.firstElementChild.scope = "row";
    [...row.cells].slice(1).forEach((cell, at) => { cell.dataset.name = head.cells[at + 1].textContent; });
  }
  const take = make("a", "button", "Take theirs");
  take.href = location.href;
  take.addEventListener("click", (event) => { event.preventDefault(); location.reload(); });
  fault.textContent = "";
  const region = make("div", "scroll", table);
  region.tabIndex = 0; // it may scroll: a keyboard must get there
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", "What differs");
  place.replaceChildren(
    make("p", "note warning", "Another operator has changed it since you opened this page. Nothing was saved."),
    region, make("p", "", "Save once more to put yours in its place, or ", take, "."),
  );
  place.scrollIntoView({ block: "nearest" });
}

// ---------------------------------------------------------------------------------------------- the form itself

function showWhen() {
  for (const each of form.querySelectorAll("[data-when]")) each.hidden = each.dataset.when !== form.elements.when.value;
}

function fill() {
  const fields = form.elements;
  for (const each of form.querySelectorAll("[data-zone]")) each.textContent = `(${zoneName()})`;
  fields.zone.value = isUtc() ? "UTC" : here;
  if (!held) return;
  fields.begin.value = writeMoment(held.begin);
  if (held.recurrence) {
    fields.when.value = "again";
    fields.dayBegin.value = held.recurrence.begin;
    fields.dayEnd.value = held.recurrence.end;
    fields.zone.value = held.recurrence.zone;
    fields.last.value = writeMoment(held.until);
    for (const each of form.querySelectorAll("[name=day]")) each.checked = held.recurrence.days.includes(each.value);
  } else {
    fields.until.value = writeMoment(held.until);
  }
  if (held.matchers) {
    const words = document.getElementById("matchers");
    words.hidden = false;
    words.textContent = `Kept as they are: ${held.matchers.map((each) => `${each.name}${each.isEqual === false ? "!" : "="}${each.isRegex ? "~" : each.isEqual === false ? "=" : ""}"${each.value}"`).join(" and ")}`;
  }
}

async function offerNames() {
  const list = document.getElementById("zones");
  for (const zone of Intl.supportedValuesOf?.("timeZone") ?? []) list.append(Object.assign(document.createElement("option"), { value: zone }));
  try {
    const { checks } = await (await ask("GET", "/api/v1/checks")).json();
    for (const { name } of checks) document.getElementById("checks").append(Object.assign(document.createElement("option"), { value: name }));
  } catch (error) { if (!(error instanceof Refused)) throw error; }
}

if (form) {
  fill();
  showWhen();
  form.addEventListener("input", ({ target }) => {
    if (target.name === "for") form.elements.until.value = "";
    if (target.name === "until") form.elements.for.value = target.value ? "" : "2h";
    if (target.name === "when") showWhen();
    if (target.name === "sure") return;
    clearTimeout(timer);
    timer = setTimeout(preview, TYPED_MS);
  });
  form.addEventListener("submit", send);
  preview();
  offerNames();
}
