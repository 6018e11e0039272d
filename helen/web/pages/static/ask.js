// Asks agents, and shows the answers as they come with the proof that none is missing. A job is followed the same way.
import { Answers, OUTCOME_WORDS } from "./answers.js";
import { many, styled as make } from "./dom.js";
import { dryRun, lines, read, Refused, write } from "./api.js";
import { bind } from "./keys.js";
import { renew } from "./live.js";

const TYPED_MS = 400;
const MOST_ROWS = 500;
const FEW = 6;   // agents of a group that are named at once
const form = document.getElementById("ask");
const $ = (id) => document.getElementById(id);
const readWords = (text) => (text.match(/(?:[^\s"]|"[^"]*")+/g) ?? []).map((word) => word.replaceAll('"', ""));

class Unclear extends Error {}

// ---------------------------------------------------------------------------------------------- the question

let tables = [];
let expected = [];
let timer = 0;
let turn = 0;

// Without a field for code there is no code of one's own, also where no check can be chosen: none is published.
const isOwn = () => Boolean(form.elements.code) && form.elements.check.value === "";
const tableOf = () => tables.find((each) => each.name === form.elements.check.value);

function readArgs() {
  const args = {};
  for (const input of form.querySelectorAll("[data-arg]")) {
    const { arg: name, type } = input.dataset;
    const text = input.value.trim();
    if (text === "") continue;
    if (name === "") {
      try { Object.assign(args, JSON.parse(text)); } catch { throw new Unclear("The arguments are no JSON object: {\"path\": \"/srv\"}."); }
    } else if (type === "boolean") args[name] = text === "true";
    else if (type === "list") args[name] = readWords(text);
    else if (type === "number" || type === "integer" || ((type === "range" || type === "duration") && /^-?\d+(\.\d+)?$/.test(text))) {
      if (Number.isNaN(Number(text))) throw new Unclear(`${name} is a number, not "${text}".`);
      args[name] = Number(text);
    } else args[name] = text;
  }
  return args;
}

function readQuestion() {
  const fields = form.elements;
  const on = readWords(fields.on.value);
  if (!on.length) throw new Unclear("Say which agents: a name, a pattern such as web-*, role=web, or * for all.");
  const name = isOwn() ? fields.name.value.trim() : fields.check.value;
  const wait = fields.wait?.value.trim() ?? "";
  const body = { check: name, on, args: readArgs(), timeout: fields.timeout.value.trim() || "30s" };
  if (isOwn()) body.files = { [`${name}.lua`]: fields.code.value };
  return { body: wait ? { ...body, wait_for_offline: wait } : body, isJob: wait !== "" };
}

const addressOf = (isJob) => (isJob ? "/api/v1/jobs" : isOwn() ? "/api/v1/once" : "/api/v1/runs") + (isJob && isOwn() ? "/once" : "");

function tellFault(error, place = $("fault")) {
  if (!(error instanceof Refused || error instanceof Unclear)) throw error;
  const isUnsigned = error.title === "needs a signature";
  place.textContent = error.message + (isUnsigned ? " From a shell that has the key: helen run --source FILE --key KEY --on PATTERN" : "");
}

// Who would be asked: the list of names is also what the answers are held against.
async function foresee() {
  const own = ++turn;
  showLine();
  try {
    const { body } = readQuestion();
    const { wait_for_offline: wait, ...now } = body;
    const { targets, agents } = await dryRun(addressOf(false), now);
    if (own !== turn) return;
    expected = Object.keys(agents);
    const away = expected.filter((name) => agents[name] === "offline");
    const names = away.length ? `: ${away.slice(0, FEW).join(", ")}${away.length > FEW ? ` and ${away.length - FEW} more` : ""}` : "";
    const waits = away.length && wait ? `, and waits ${wait} for them` : "";
    $("fault").textContent = "";
    $("would").textContent = `Would ask ${many(targets, "agent")}: ${targets - away.length} now, ${away.length} away${names}${waits}.`;
  } catch (error) {
    if (own !== turn) return;
    $("would").textContent = "";
    tellFault(error);
  }
}

function showLine() {
  const fields = form.elements;
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  let args = {};
  try { args = readArgs(); } catch { /* told by the preview */ }
  const given = Object.keys(args).length ? ` --args ${quote(JSON.stringify(args))}` : "";
  const what = isOwn() ? `--source ${fields.name.value}.lua` : fields.check.value || "CHECK";
  const wait = fields.wait?.value.trim() ? ` --wait-for-offline ${fields.wait.value.trim()}` : "";
  $("line").textContent = `helen run ${what} ${readWords(fields.on.value).map((word) => `--on ${quote(word)}`).join(" ")}${given}${wait}`;
}

// One field for each argument of the check's table.
function showArguments(given = {}) {
  const place = $("arguments");
  const table = tableOf();
  $("about").textContent = table?.summary ?? "";
  if ($("own")) $("own").hidden = !isOwn();
  const fields = isOwn() ? [["", { type: "json", help: "a JSON object" }]] : Object.entries(table?.args ?? {});
  place.replaceChildren(make("legend", "", "Arguments"), ...fields.map(([name, about]) => argument(name, about, given)));
  place.hidden = !fields.length;
}

function argument(name, about, given) {
  const choices = about.type === "boolean" ? ["true", "false"] : about.choices ?? null;
  const input = document.createElement(choices ? "select" : "input");
  if (choices) {
    input.append(make("option", "", about.required ? "" : "as usual"), ...choices.map((each) => make("option", "", String(each))));
    input.firstElementChild.value = "";
  }
  const value = name === "" ? (Object.keys(given).length ? JSON.stringify(given) : "") : given[name];
  if (value !== undefined) input.value = Array.isArray(value) ? value.join(" ") : String(value);
  input.dataset.arg = name;
  input.dataset.type = about.type;
  const usual = about.default;
  if (!choices && usual !== undefined && usual !== null) input.placeholder = Array.isArray(usual) ? usual.join(" ") : String(usual);
  input.required = Boolean(about.required);
  const label = make("span", "", name || "Arguments", make("span", "quiet", ` (${about.type}${about.required ? ", required" : ""})${about.help ? ` ${about.help}` : ""}`));
  return make("label", "field", label, input);
}

// ---------------------------------------------------------------------------------------------- the answers

let answers = null;
let abort = null;
let isDrawn = false;

function draw() {
  if (isDrawn) return;
  isDrawn = true;
  requestAnimationFrame(() => { isDrawn = false; drawNow(); });
}

function drawNow() {
  $("proof").textContent = answers.proof();
  const bar = $("bar");
  bar.max = Math.max(1, answers.targets ?? 1);
  bar.value = answers.targets === null ? 0 : answers.accounted;
  bar.dataset.whole = answers.isWhole ? "1" : "";
  const trouble = answers.trouble();
  const note = $("note");
  if (trouble) { note.textContent = trouble; note.className = "note critical"; note.hidden = false; }
  $("tallies").replaceChildren(...Object.entries(answers.statuses()).map(([status, number]) => make("span", "chip", make("span", `state s-${status}`, shape(), `${number} ${status}`))));
  const groups = answers.groups($("group").checked);
  $("table").tBodies[0].replaceChildren(...groups.slice(0, MOST_ROWS).map(rowOf));
  $("rest").textContent = groups.length > MOST_ROWS ? `${groups.length - MOST_ROWS} more rows are in the CSV.` : "";
}

function shape() {
  const made = make("i", "shape");
  made.setAttribute("aria-hidden", "true");
  return made;
}

function agentLink(name) {
  const link = make("a", "", name);
  link.href = `/agents/${encodeURIComponent(name)}`;
  return link;
}

function rowOf(group) {
  const state = group.status ? make("span", `state s-${group.status}`, shape(), group.status)
    : make("span", "state s-none", shape(), OUTCOME_WORDS[group.outcome] ?? group.outcome);
  const said = make("td", "wrap", group.said);
  const { output } = group.lines[0].result ?? {};
  if (group.lines.length === 1 && output) said.append(make("details", "", make("summary", "", "output"), make("pre", "", output)));
  const names = group.lines.flatMap((line, at) => [at ? ", " : "", agentLink(line.agent)]);
  const agents = make("td", "wrap");
  if (group.lines.length <= FEW) agents.append(...names);
  else agents.append(make("details", "", make("summary", "", many(group.lines.length, "agent")), ...names));
  return make("tr", "", make("td", "", state), said, agents);
}

async function take(stream, told) {
  $("answers").hidden = false;
  $("stop")?.removeAttribute("hidden");
  $("job-fault").textContent = "";
  $("note").className = "note";
  $("note").textContent = told;
  $("note").hidden = false;
  drawNow();
  const own = answers;
  let how = "whole";
  try {
    for await (const line of stream) { own.take(line); if (own === answers) draw(); }
  } catch (error) {
    if (error instanceof Refused && own.targets === null) { $("answers").hidden = !$("answers").dataset.job; throw error; }
    how = error.name === "AbortError" ? "stopped" : "lost";
  } finally {
    if ($("stop")) $("stop").hidden = true;
  }
  own.finish(how);
  if (own !== answers) return;
  if (own.isWhole) $("note").hidden = true;
  drawNow();
}

async function send(event) {
  event.preventDefault();
  const button = $("send");
  button.disabled = true;
  abort?.abort();
  abort = new AbortController();
  try {
    const { body, isJob } = readQuestion();
    answers = new Answers(expected);
    $("answers").dataset.job = "";
    if (isJob) await submit(body);
    else await take(lines(addressOf(false), body, abort.signal), "The answers are kept on this page alone: leaving it ends the question, and agents are told to give up.");
  } catch (error) { tellFault(error); }
  button.disabled = false;
}

async function submit(body) {
  const job = await write(addressOf(true), body);
  history.replaceState(null, "", `/ask?job=${encodeURIComponent(job.id)}`);
  answers = new Answers(job.targets);
  if ($("jobs")) renew($("jobs"));
  follow(job.id).catch((error) => tellFault(error, $("job-fault")));
}

async function follow(id) {
  abort ??= new AbortController();
  $("answers").dataset.job = id;
  $("stop") && ($("stop").textContent = "Cancel the job");
  await take(lines(`/api/v1/jobs/${encodeURIComponent(id)}/follow`, undefined, abort.signal),
    "It is a job: it goes on when you leave this page, and this address shows it again.");
  if ($("jobs")) renew($("jobs"));
}

async function stop() {
  const id = $("answers").dataset.job;
  if (!id) { abort?.abort(); return; }
  try { await write(`/api/v1/jobs/${encodeURIComponent(id)}/cancel`, {}); } catch (error) { tellFault(error, $("job-fault")); }
}

function download() {
  const link = make("a", "");
  link.href = URL.createObjectURL(new Blob([answers.csv()], { type: "text/csv;charset=utf-8" }));
  link.download = `helen-${form?.elements.check.value || $("answers").dataset.job || "answers"}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function begin() {
  try {
    tables = (await read("/api/v1/checks")).checks;
    let given = {};
    try { given = JSON.parse(form.dataset.args || "{}"); } catch { $("fault").textContent = "The arguments in the address are no JSON object."; }
    showArguments(given);
    foresee();
  } catch (error) { tellFault(error); }
}

$("group").addEventListener("change", () => answers && drawNow());
$("csv").addEventListener("click", () => answers && download());
$("stop")?.addEventListener("click", stop);
if (form) {
  form.addEventListener("input", ({ target }) => {
    if (target.name === "check") showArguments();
    clearTimeout(timer);
    timer = setTimeout(foresee, TYPED_MS);
  });
  form.addEventListener("submit", send);
  bind("a", "ask", () => form.requestSubmit());
  begin();
}
if ($("answers").dataset.job) {
  answers = new Answers();
  follow($("answers").dataset.job).catch((error) => tellFault(error, $("job-fault")));
}
