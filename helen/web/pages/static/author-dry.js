// Runs the draft on chosen agents, which keep nothing of it: a line for each as it answers, and the line that failed.
import { ask, lines, Refused } from "./api.js";
import { givenArguments } from "./author-args.js";
import { make, many, stateOf } from "./dom.js";

const BROKEN = ["load-error", "crashed", "bad-arguments"];
const REQUIRE = /require\s*\(?\s*["']([A-Za-z0-9_.-]+)["']/g;
let running = null;

// page: {name, check, text(), draftOf(name), mark(problems), jump(line)}
export function setUpDryRun(page) {
  const form = document.getElementById("dry");
  if (!form) return { run() {} };
  const run = () => { if (form.reportValidity()) dryRun(page, form); };
  form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  form.elements.stop.addEventListener("click", () => running?.abort());
  return { run };
}

async function dryRun(page, form) {
  running?.abort();
  const stop = running = new AbortController();
  const fault = document.getElementById("dry-fault");
  const sign = document.getElementById("dry-sign");
  const list = document.getElementById("answers");
  const progress = document.getElementById("progress");
  fault.textContent = "";
  sign.hidden = true;
  list.replaceChildren();
  page.mark([]);
  form.elements.stop.hidden = false;
  progress.textContent = "asking ...";
  const on = form.elements.on.value.trim().split(/[\s,]+/);
  const args = givenArguments(form);
  const heard = new Map();
  let wanted = 0;
  try {
    const files = { [page.name]: page.text(), ...await librariesOf(page) };
    for await (const line of lines("/api/v1/once", { check: page.check, files, args, on, timeout: 30 }, stop.signal)) {
      if (line.targets !== undefined) wanted = line.targets;
      else {
        heard.set(line.agent, line);
        list.append(answerOf(page, line));
        markFailures(page, heard);
      }
      progress.textContent = `${heard.size} of ${many(wanted, "agent")}`;
    }
    progress.textContent = heard.size < wanted
      ? `Helen went away: ${heard.size} of ${many(wanted, "agent")} are known.`
      : `${summary(heard)}. Nothing is kept.`;
  } catch (error) {
    if (error.name === "AbortError") { progress.textContent = "stopped; nothing is kept"; return; }
    if (!(error instanceof Refused)) { progress.textContent = "Helen went away."; return; }
    progress.textContent = "";
    if (error.title === "needs a signature") showLine(page, sign, on, args);
    else fault.textContent = error.message;
  } finally {
    if (running === stop) { form.elements.stop.hidden = true; running = null; }
  }
}

function summary(heard) {
  const counts = {};
  for (const { outcome, result } of heard.values()) {
    const word = outcome === "answered" ? result?.status ?? outcome : outcome;
    counts[word] = (counts[word] ?? 0) + 1;
  }
  return `${many(heard.size, "agent")}: ${Object.entries(counts).map(([word, number]) => `${number} ${word}`).join(", ")}`;
}

// Libraries that the draft requires, and those that these require: drafts of them first, else those of the folder.
async function librariesOf(page) {
  const found = {};
  const waiting = [page.text()];
  let folder = null;
  while (waiting.length) {
    for (const [, name] of waiting.pop().matchAll(REQUIRE)) {
      const file = `lib/${name}.lua`;
      if (file in found) continue;
      folder ??= (await (await ask("GET", "/api/v1/checks/files")).json()).files;
      const text = page.draftOf(file) ?? folder[file];
      if (text === undefined) continue;
      found[file] = text;
      waiting.push(text);
    }
  }
  return found;
}

function failingLine(page, { result }) {
  if (!result || !BROKEN.includes(result.reason)) return null;
  const place = (result.summary ?? "").match(/([A-Za-z0-9_./-]+\.lua):(\d+): ?(.*)/s);
  return place && place[1] === page.name ? { line: Number(place[2]), text: place[3] } : null;
}

function markFailures(page, heard) {
  const byLine = new Map();
  for (const each of heard.values()) {
    const failing = failingLine(page, each);
    if (!failing) continue;
    const { agents } = byLine.get(failing.line) ?? byLine.set(failing.line, { agents: [], ...failing }).get(failing.line);
    agents.push(each.agent);
  }
  page.mark([...byLine.values()].map(({ line, text, agents }) => ({
    line, severity: "error", text: `on ${agents.slice(0, 3).join(", ")}${agents.length > 3 ? ` and ${agents.length - 3} more` : ""}: ${text}`,
  })));
}

const figure = (value, unit) => (value === null || value === undefined ? null : `${Math.round(value * 10) / 10} ${unit}`);

function answerOf(page, answer) {
  const { agent, outcome, result, why } = answer;
  const isAnswer = outcome === "answered" && result;
  const figures = isAnswer ? [figure(result.took_ms, "ms"), result.peak_kib ? figure(result.peak_kib / 1024, "MiB") : null].filter(Boolean).join(", ") : "";
  const failing = failingLine(page, answer);
  const jump = failing && make("button", { type: "button", class: "jump" }, `line ${failing.line}`);
  jump?.addEventListener("click", () => page.jump(failing.line));
  const item = make("li", { "data-agent": agent, "data-outcome": outcome },
    make("div", { class: "head" },
      isAnswer ? stateOf(result.status) : stateOf("none", outcome), make("b", {}, agent),
      make("span", { class: "wrap" }, isAnswer ? result.summary || "It says nothing." : why ?? ""), jump,
      make("span", { class: "figures" }, figures)));
  const rows = (result?.metrics ?? []).map(({ name, value, unit, labels, warn, crit }) => make("tr", {},
    make("td", { class: "wrap" }, [name, ...Object.entries(labels ?? {}).map(([key, text]) => `${key}=${text}`)].join(" ")),
    make("td", { class: "num" }, `${value}${unit ? ` ${unit}` : ""}`), make("td", {}, warn ?? ""), make("td", {}, crit ?? "")));
  if (rows.length) {
    item.append(make("details", {}, make("summary", {}, many(rows.length, "metric")), make("table", {},
      make("thead", {}, make("tr", {}, ...["Metric", "Value", "Warn", "Crit"].map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows))));
  }
  if (result?.output) item.append(make("details", {}, make("summary", {}, "output"), make("pre", {}, result.output)));
  return item;
}

const quoted = (text) => (/^[\w=.,/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function showLine(page, sign, on, args) {
  const given = Object.keys(args).length ? ` --args ${quoted(JSON.stringify(args))}` : "";
  const line = `helen check dry-run ${page.name} ${on.map((each) => `--on ${quoted(each)}`).join(" ")}${given} --key FILE`;
  sign.querySelector("code").textContent = line;
  sign.querySelector("button").dataset.copy = line;
  sign.hidden = false;
}
