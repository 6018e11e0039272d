// The author page: a draft that is judged as it is typed, tried on agents, pushed through rings, watched, taken back.
import { ask, read, Refused } from "./api.js";
import { showArguments } from "./author-args.js";
import { setUpDryRun } from "./author-dry.js";
import { setUpPush } from "./author-push.js";
import { onRollout, watchRollout } from "./author-rollout.js";
import { make, many, stateOf } from "./dom.js";
import { makeEditor, showDifference } from "./editor.js";
import { bind } from "./keys.js";
import { store, stored } from "./theme.js";
import { clock } from "./time.js";

const LINT_MS = 600;
const place = document.getElementById("author");
const { name, etag, published: publishedSha, version } = place.dataset;
const has = (what) => what in place.dataset;
const isLibrary = has("library");
const KEY = "helen.draft:";
const sources = [...place.querySelectorAll(".source")].map((each) => each.textContent);
const eol = sources.some((text) => text.includes("\r\n")) ? "\r\n" : "\n";
let table = null;
let calls = [];
let lintProblems = [];
let runProblems = [];

// What the author has read of the folder; a push is held to it.
const known = { text: has("new") ? "" : sources[0], tests: has("new") ? "" : sources[1] ?? "", etag };
const draft = savedDraft(name);
if (draft && draft.etag !== etag && (draft.base.text !== known.text || draft.base.tests !== known.tests)) {
  Object.assign(known, draft.base, { etag: draft.etag });
}
let before = publishedSha ? null : ""; // the published text, once it has been read
let atVersion = version;

// ---------------------------------------------------------------------------------------------- the editors

const panes = { text: document.getElementById("pane-text"), tests: document.getElementById("pane-tests"), diff: document.getElementById("pane-diff") };

function editorIn(pane, text, label) {
  const host = make("div");
  pane.replaceChildren(host);
  return makeEditor(host, { text, label, fixed: has("fixed"), onChange: changed, onRun: () => dry.run(), complete });
}

const editor = editorIn(panes.text, draft?.text ?? sources[0], `Text of ${name}`);
const tests = isLibrary ? null : editorIn(panes.tests, draft?.tests ?? sources[1] ?? "", `Tests of ${name}`);
const withEnds = (text) => (eol === "\n" ? text : text.replaceAll("\n", eol));
const page = {
  name, check: name.replace(/\.lua$/, ""), testName: isLibrary ? null : `tests/${name}`, known, signs: has("signs"),
  text: () => withEnds(editor.text),
  tests: () => (tests ? withEnds(tests.text) : ""),
  draftOf: (file) => savedDraft(file)?.text,
  mark(problems) { runProblems = problems; markAll(); },
  jump(line) { choose("text"); editor.jump(line); },
  note,
  published(now) { Object.assign(known, now); changed(); },
  watch: watchRollout,
  take(theirs) {
    Object.assign(known, theirs);
    editor.text = theirs.text;
    if (tests) tests.text = theirs.tests;
    note("The text of the folder is here now.");
  },
  keepMine(theirs) {
    Object.assign(known, theirs);
    changed();
    note("Yours is kept. A push puts it in the place of what is there now; look at the difference first.");
    before = theirs.text;
    choose("diff");
  },
};

// ---------------------------------------------------------------------------------------------- tabs

const tabs = [...document.querySelectorAll("[role=tab]")];
const nameOf = (tab) => tab.id.slice("tab-".length);

function choose(which) {
  for (const tab of tabs) {
    const isChosen = nameOf(tab) === which;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    panes[nameOf(tab)].hidden = !isChosen;
  }
  if (which === "diff") showDiff();
}

tabs.forEach((tab, at) => {
  tab.addEventListener("click", () => choose(nameOf(tab)));
  tab.addEventListener("keydown", ({ key }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!step) return;
    const next = tabs[(at + step + tabs.length) % tabs.length];
    choose(nameOf(next));
    next.focus();
  });
});

async function showDiff() {
  if (before === null) {
    try {
      before = (await read(`/api/v1/code/${publishedSha}`)).text;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      panes.diff.replaceChildren(make("p", { class: "empty" }, error.message));
      return;
    }
  }
  if (before === page.text()) {
    panes.diff.replaceChildren(make("p", { class: "empty" }, `Nothing differs${atVersion ? ` from version ${atVersion}` : ""}.`));
    return;
  }
  const host = make("div");
  panes.diff.replaceChildren(host);
  showDifference(host, before, page.text(), `${name}: what changes`);
}

// ---------------------------------------------------------------------------------------------- drafts

function savedDraft(file) {
  try {
    const found = JSON.parse(stored(KEY + file, "null"));
    return found && typeof found.text === "string" && found.base ? found : null;
  } catch {
    return null;
  }
}

const isChanged = () => page.text() !== known.text || page.tests() !== known.tests;

function keepDraft() {
  if (!isChanged()) {
    try { localStorage.removeItem(KEY + name); } catch { /* private windows keep nothing */ }
    return;
  }
  const { text, tests: cases, etag: tag } = known;
  store(KEY + name, JSON.stringify({ etag: tag, base: { text, tests: cases }, text: page.text(), tests: page.tests(), at: Date.now() / 1000 }));
}

const dropButton = document.querySelector("[data-do=drop]");
dropButton.addEventListener("click", () => {
  editor.text = known.text;
  if (tests) tests.text = known.tests;
  note("Your changes are dropped.");
});

function note(text) {
  const said = document.getElementById("note");
  said.textContent = text;
  said.hidden = !text;
}

function showState() {
  const isDraft = isChanged();
  dropButton.hidden = !isDraft || has("new");
  const was = atVersion && (publishedSha || before) ? `version ${atVersion}` : "not published";
  document.getElementById("state").textContent = isDraft ? `changed, kept in this browser; ${was}` : was;
}

// ---------------------------------------------------------------------------------------------- lint

let timer = 0;
let asking = null;

function changed() {
  clearTimeout(timer);
  runProblems = [];
  timer = setTimeout(() => { keepDraft(); lint(); }, LINT_MS);
  showState();
}

async function lint() {
  asking?.abort();
  const mine = asking = new AbortController();
  const verdict = document.getElementById("verdict");
  const body = { files: { [name]: page.text() }, ...(isLibrary ? {} : { tests: { [name]: page.tests() } }) };
  try {
    const found = await (await ask("POST", "/api/v1/checks/lint", body, {}, mine.signal)).json();
    if (asking === mine) showFindings(found);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refused)) throw error;
    verdict.textContent = error.message;
  }
}

const isOfTest = ({ text }) => /^test '.*' \(tests\/.*\) fails: /s.test(text);

function showFindings(found) {
  const mine = found.files[name] ?? { table: null, problems: [] };
  lintProblems = mine.problems.filter((each) => !isOfTest(each));
  table = mine.table ?? table;
  const args = document.getElementById("args");
  if (args) showArguments(args, mine.table);
  const others = Object.entries(found.files).filter(([file]) => file !== name)
    .flatMap(([file, { problems }]) => problems.filter((each) => !isOfTest(each)).map((each) => ({ file, ...each })));
  const failed = found.tests.filter(({ ok }) => !ok);
  document.getElementById("problems").replaceChildren(...[...lintProblems, ...others].map(problemItem));
  document.getElementById("tests").replaceChildren(...failed.map(testItem));
  document.getElementById("verdict").replaceChildren(...verdictOf([...lintProblems, ...others], found.tests, failed));
  tests?.mark([
    ...others.filter(({ file }) => file === `tests/${name}`),
    ...failed.map(({ line, name: test, said }) => ({ line, severity: "error", text: `${test}: ${said}` })),
  ]);
  markAll();
}

function verdictOf(problems, all, failed) {
  const errors = problems.filter(({ severity }) => severity === "error").length;
  const warnings = problems.length - errors;
  const words = [errors && many(errors, "error"), warnings && many(warnings, "warning"), failed.length && `${failed.length} of ${many(all.length, "test")} fail`].filter(Boolean);
  if (!failed.length && all.length) words.push(all.length === 1 ? "its test passes" : `all ${all.length} tests pass`);
  const worst = errors || failed.length ? "critical" : warnings ? "warning" : "ok";
  return [stateOf(worst, errors || warnings || failed.length ? words.join(", ") : ["no problem", ...words].join(", "))];
}

function problemItem({ file, line, severity, text }) {
  const jump = make("button", { type: "button", class: "jump" }, file ? `${file}:${line}` : `line ${line}`);
  jump.addEventListener("click", () => {
    if (!file) page.jump(line);
    else if (file === `tests/${name}`) { choose("tests"); tests.jump(line); } else location.href = `/author/${file}#L${line}`;
  });
  return make("li", {}, stateOf(severity === "error" ? "critical" : "warning", severity), jump, make("span", {}, text));
}

function testItem({ name: test, line, said }) {
  const jump = make("button", { type: "button", class: "jump" }, `test, line ${line}`);
  jump.addEventListener("click", () => { choose("tests"); tests.jump(line); });
  return make("li", {}, stateOf("critical", "fails"), jump, make("span", {}, make("b", {}, test), `: ${said}`));
}

function markAll() { editor.mark([...lintProblems, ...runProblems]); }

// ---------------------------------------------------------------------------------------------- completion

function complete(line, isAsked) {
  const call = line.match(/\bhost\.([\w.]*)$/);
  if (call) {
    return { back: call[1].length, options: calls.map((each) => ({
      label: each.name, type: "function", detail: each.needs ? `needs ${each.needs}` : "", info: `${each.call}\n\n${each.about}`,
    })) };
  }
  const argument = line.match(/\bargs\.(\w*)$/);
  if (argument && table?.args) {
    return { back: argument[1].length, options: Object.entries(table.args).map(([label, { type, help }]) => ({ label, type: "property", detail: type, info: help })) };
  }
  return isAsked && /(^|[^\w.])$/.test(line) ? { back: 0, options: [{ label: "host.", type: "namespace" }, { label: "args.", type: "namespace" }] } : null;
}

read(new URL("./host-calls.json", import.meta.url).pathname).then((found) => { calls = found; }).catch(() => { /* without completion */ });

// ---------------------------------------------------------------------------------------------- begin

for (const each of [document.querySelector(".tabs"), document.querySelector(".doing"), document.getElementById("findings"), document.querySelector(".keys")]) each.hidden = false;
choose("text");
const dry = setUpDryRun(page);
setUpPush(page);
onRollout(async (rollout) => {
  if (rollout.state === "open" || rollout.state === "paused") return;
  const { checks, version: now } = await read("/api/v1/checks");
  atVersion = now ?? atVersion;
  document.querySelector("#tab-diff .to").textContent = ` to version ${atVersion}`;
  const sha256 = checks.find((each) => `${each.name}.lua` === name)?.sha256;
  before = sha256 ? (await read(`/api/v1/code/${sha256}`)).text : before;
  showState();
  if (panes.diff.hidden === false) showDiff();
});
if (has("rollout")) watchRollout();
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    dry.run();
  }
});
addEventListener("pagehide", () => { clearTimeout(timer); keepDraft(); });
bind("e", "to the editor", () => { choose("text"); editor.view.focus(); }, "Author");
bind("d", "difference to what is published", () => choose("diff"), "Author");
bind("p", "push", () => document.querySelector("#push button").focus(), "Author");
if (draft) note(`Your changes of ${clock(draft.at)} are here again.${known.etag === etag ? "" : " The file in the folder has changed since: a push shows the difference first."}`);
const line = location.hash.match(/^#L(\d+)$/);
if (line) page.jump(Number(line[1]));
showState();
lint();
