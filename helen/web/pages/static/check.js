// The page of a check: plots of an hour up to a year, what changed, new results as they come, and acting on it.
import { read, Refused } from "./api.js";
import { acknowledge, planDowntime, runNow } from "./acts.js";
import { fill, make, many } from "./dom.js";
import { bind } from "./keys.js";
import { listen, renew } from "./live.js";
import { draw } from "./plot.js";
import { moment, now, span as words } from "./time.js";

const { agent, check, every } = document.getElementById("check").dataset;
const SPANS = { "1h": 3600, "24h": 86400, "30d": 30 * 86400, "1y": 365 * 86400 };
const MOST = 8;
const LATER = "The pipeline has no figures of it for this span yet";
const NOT_YET = { "24h": `${LATER}.`, "30d": `${LATER}: it adds hours up every five minutes.`, "1y": `${LATER}: it adds days up every hour.` };
const query = new URLSearchParams(location.search);
const plots = document.getElementById("plots");
const note = document.getElementById("plot-note");
let span = SPANS[query.get("span")] ? query.get("span") : "1h";
let results = [];
let marks = [];
const encoded = `agent=${encodeURIComponent(agent)}&check=${encodeURIComponent(check)}`;

// ---------------------------------------------------------------------------------------------- figures

const nameOf = ({ name, labels }) => {
  const shown = Object.entries(labels ?? {}).map(([key, value]) => `${key}="${value}"`).join(",");
  return shown ? `${name}{${shown}}` : name;
};

function fromResults() {
  const figures = new Map();
  for (const result of [...results].reverse()) {
    for (const metric of result.metrics) {
      if (typeof metric.value !== "number") continue;
      const name = nameOf(metric);
      if (!figures.has(name)) figures.set(name, { name, unit: metric.unit, points: [], step: Number(every) || usualStep() });
      const held = figures.get(name);
      Object.assign(held, { warn: metric.warn, crit: metric.crit });
      held.points.push({ at: result.received, mean: metric.value, min: metric.value, max: metric.value, n: 1 });
    }
  }
  return [...figures.values()].map((each) => ({ ...each, step: each.step * 2 }));
}

// The middle of the times between results, where no schedule says it: of passive checks.
function usualStep() {
  const times = results.map((each) => each.received).reverse();
  const between = times.slice(1).map((at, index) => at - times[index]).sort((a, b) => a - b);
  return between[Math.floor(between.length / 2)] || 60;
}

async function fromLake(from, to) {
  const resolution = { "24h": "m5", "30d": "h1", "1y": "d1" }[span];
  const answer = await read(`/api/v1/history?${encoded}&from=${from}&to=${to}&resolution=${resolution}`);
  const newest = new Map((results[0]?.metrics ?? []).map((each) => [nameOf(each), each]));
  return answer.metrics.filter((each) => each.metric).map((each) => ({
    name: each.metric, unit: each.kind === "counter" ? `${each.unit}/s` : each.unit, step: answer.step,
    warn: newest.get(each.metric)?.warn, crit: newest.get(each.metric)?.crit, isSolid: false,
    points: each.points.map(({ at, mean, min, max, n, rate }) => (each.kind === "counter"
      ? { at: at + answer.step / 2, mean: rate, min: rate, max: rate, n } : { at: at + answer.step / 2, mean, min, max, n }))
      .filter((point) => point.mean !== null && point.mean !== undefined),
  }));
}

async function show() {
  for (const button of document.querySelectorAll("[data-span]")) button.setAttribute("aria-pressed", String(button.dataset.span === span));
  const to = now();
  const from = to - SPANS[span];
  let figures = [];
  let said = "";
  try {
    figures = span === "1h" ? fromResults() : await fromLake(from, to);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    said = error.status === 409 || error.status === 404 ? `${error.message.replace(/\.?$/, ".")} The hour works without it.` : error.message;
  }
  plots.replaceChildren();
  const wanted = query.getAll("metric");
  const shown = wanted.length ? figures.filter((each) => wanted.includes(each.name)) : figures.slice(0, MOST);
  for (const each of shown) draw(plots, each, from, to, marks, cause);
  const step = shown[0]?.step;
  document.getElementById("step").textContent = !step ? "" : span === "1h" ? "each result; gaps are hatched"
    : `one point is ${words(step)}: line mean, band lowest to highest; gaps are hatched; zero is included`;
  const others = said ? [] : figures.filter((each) => !shown.includes(each));
  if (!said && !figures.length) said = span === "1h" ? "No figures in the last hour." : NOT_YET[span];
  fill(note, said, ...(others.length ? [`${many(others.length, "more figure")}: `, ...others.flatMap(linkTo)] : []));
  note.hidden = !said && !others.length;
}

// A figure that is not shown, as a link to it alone.
function linkTo({ name }, index) {
  const address = new URL(location.href);
  address.searchParams.delete("metric");
  address.searchParams.append("metric", name);
  return [index ? ", " : "", make("a", { href: address.pathname + address.search }, name)];
}

const cause = (at) => {
  const before = marks.findLast?.((each) => each.at <= at && each.why);
  return before?.why;
};

// ---------------------------------------------------------------------------------------------- changes

const until = ({ until: end }) => (end ? ` until ${moment(end)}` : "");
const windowWords = (kind, change) => (change.action === "cancel" ? `${kind} cancelled${change.author ? ` by ${change.author}` : ""}`
  : `${kind} planned${change.recurrence ? "" : ` from ${moment(change.begin)}${until(change)}`}${change.author ? ` by ${change.author}` : ""}${change.comment ? `: ${change.comment}` : ""}`);
const notice = ({ action, channel, why }) => (action === "nobody" ? `no message: ${why}` : `message ${action ?? ""}${channel ? `, ${channel}` : ""}${why ? `: ${why}` : ""}`);
const reason = ({ why, now: { status } }) => (why.startsWith(`${status}, `) ? why.slice(status.length + 2) : why);  // the status is said already
const LETTERS = { rollout: "v", ack: "A", downtime: "D", silence: "S", helen_start: "H" };
function tell({ kind, document: change, agent: of }) {
  switch (kind) {
    case "transition": return `${change.was && change.was.status !== change.now.status ? `${change.was.status} to ${change.now.status}` : `still ${change.now.status}`}${change.why ? `: ${reason(change)}` : ""}${change.now.reason ? `, ${change.now.reason}` : ""}`;
    case "flap": return change.on ? "begins to flap" : "flaps no more";
    case "ack": return change.action === "set" ? `acknowledged by ${change.owner}${change.comment ? `: ${change.comment}` : ""}` : "acknowledgement taken back";
    case "decision": return change.action === "notify" || change.told ? `a message is due: ${change.what ?? ""} ${change.status ?? ""}` : `no message is due: ${change.why ?? (change.reasons ?? []).map((each) => each.detail || each.kind).join(", ")}`;
    case "notice": return notice(change);
    case "downtime": case "silence": return windowWords(kind, change);
    case "rollout": return `version ${change.version} ${change.action}${change.files ? `: ${change.files}` : ""}`;
    case "link": return `${of}: ${change.event === "up" ? "connected" : `away${change.why ? `: ${change.why}` : ""}`}`;
    default: return kind;
  }
}

// A push concerns this check if it changed its code; its later steps repeat that.
const isOfThisCheck = ({ kind, document: change }) => kind !== "rollout"
  || (["open", "at-once"].includes(change.action) && (change.checks ?? [check]).includes(check));

async function showChanges() {
  const kinds = ["transition", "flap", "ack", "decision", "notice", "downtime", "silence", "link", "rollout"].map((kind) => `kind=${kind}`).join("&");
  let changes = [];
  try {
    ({ changes } = await read(`/api/v1/changes?${kinds}&on=${encodeURIComponent(agent)}&check=${encodeURIComponent(check)}&covers=${encodeURIComponent(`${agent}/${check}`)}&from=7d&limit=1000`));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return;
  }
  changes = changes.filter(isOfThisCheck);
  marks = changes.filter((each) => LETTERS[each.kind] || each.kind === "link").map((each) => ({
    at: each.received, letter: each.kind === "rollout" ? `v${each.document.version}` : LETTERS[each.kind] ?? (each.document.event === "up" ? "up" : "away"),
    why: each.kind === "link" && each.document.event !== "up" ? "the agent was away" : "",
  }));
  const list = document.createElement("ol");
  list.className = "timeline";
  for (const each of changes.slice(-100).reverse()) {
    const item = document.createElement("li");
    const time = document.createElement("time");
    time.dateTime = new Date(each.received * 1000).toISOString();
    time.textContent = moment(each.received);
    const text = document.createElement("span");
    text.className = "wrap";
    fill(text, tell(each));
    item.append(time, text);
    list.append(item);
  }
  const target = document.getElementById("change-list");
  if (changes.length) target.replaceChildren(list);
  else target.firstElementChild.textContent = "Nothing changed in the last week.";
}

// ---------------------------------------------------------------------------------------------- live, acting

const target = [[agent, check]];
const acts = { ack: () => acknowledge(target), downtime: () => planDowntime(target), run: () => runNow(target) };
document.addEventListener("click", ({ target: clicked }) => {
  acts[clicked.closest?.("[data-do]")?.dataset.do]?.();
  const wanted = clicked.closest?.("[data-span]")?.dataset.span;
  if (wanted) choose(wanted);
});

function choose(wanted) {
  span = wanted;
  query.set("span", span);
  history.replaceState(null, "", `${location.pathname}?${query}`);
  show();
}

const names = Object.keys(SPANS);
bind("a", "acknowledge", acts.ack, "Check");
bind("d", "plan a downtime", acts.downtime, "Check");
bind("r", "run now", acts.run, "Check");
bind("e", "why it is so", () => { location.href = `${location.pathname}/why`; }, "Check");
bind("+", "a shorter span", () => choose(names[Math.max(0, names.indexOf(span) - 1)]), "Check");
bind("-", "a longer span", () => choose(names[Math.min(names.length - 1, names.indexOf(span) + 1)]), "Check");

let wait = 0;
listen({ kinds: ["transition", "ack"], results: agent }, (kind, data) => {
  if (kind === "result") {
    if (data.agent !== agent || data.check_id !== check) return;
    results.unshift(data);
    results = results.filter((each) => each.received > now() - 3900);
  }
  clearTimeout(wait);
  wait = setTimeout(() => {
    if (span === "1h") show();
    for (const name of ["head", "runs"]) renew(document.querySelector(`[data-part=${name}]`));
    if (kind !== "result") showChanges();
  }, 500);
});

async function begin() {
  ({ results } = await read(`/api/v1/recent?${encoded}&limit=1000`));
  await showChanges();
  await show();
}
begin();
