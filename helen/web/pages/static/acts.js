// What people do with checks: acknowledge, plan a downtime, run now. Each shows first what it would do.
import { dryRun, lines, Refused, write } from "./api.js";
import { fill, many, plain as make } from "./dom.js";
import { openDialog } from "./keys.js";
import { moment } from "./time.js";

const names = (targets) => (targets.length === 1 ? targets[0].join(" ") : many(targets.length, "check"));
const HOURS = [["1 h", 3600], ["4 h", 14400], ["24 h", 86400], ["7 d", 604800]];
const who = () => document.documentElement.dataset.actor;

function field(label, input) {
  const made = make("label", make("span", label), input);
  made.className = "field";
  return made;
}

function input(value = "", type = "text") {
  const made = make("input");
  made.type = type;
  made.value = value;
  return made;
}

function choice(options, selected) {
  const made = make("select");
  for (const [text, value] of options) {
    const option = make("option", text);
    option.value = value;
    option.selected = value === selected;
    made.append(option);
  }
  return made;
}

// A form in a dialog: its button is off until Helen has answered, and what was typed stays after a refusal.
function form(title, verb, fields, preview, submit) {
  const said = make("p");
  said.className = "quiet";
  said.setAttribute("role", "status");
  const fault = make("p");
  fault.className = "fault";
  fault.setAttribute("role", "alert");
  const send = make("button", verb);
  send.className = "main";
  const cancel = make("button", "Cancel");
  cancel.type = "button";
  const made = make("form", ...fields, said, fault, send, " ", cancel);
  const dialog = openDialog(title, made);
  cancel.addEventListener("click", () => dialog.close());
  let wait = 0;
  const look = async () => {
    if (!preview) return;
    try {
      said.textContent = await preview();
      fault.textContent = "";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      fault.textContent = error.message;
    }
  };
  made.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(look, 400); });
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    try {
      const done = await submit();
      if (done) said.textContent = done; else dialog.close();
      fault.textContent = "";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      fault.textContent = error.message;
    }
    send.disabled = false;
  });
  look();
  made.querySelector("input, select")?.focus();
  return dialog;
}

const untilOf = (select) => (select.value ? Date.now() / 1000 + Number(select.value) : null);

// targets: [[agent, check], ...]
export function acknowledge(targets) {
  const owner = input(who());
  const comment = input();
  const until = choice([["it changes", ""], ...HOURS], "");
  const sticky = input("", "checkbox");
  const body = () => ({
    keys: targets, owner: owner.value, until: untilOf(until), ...(comment.value ? { comment: comment.value } : {}),
    ...(sticky.checked ? { sticky: true } : {}),
  });
  const told = ({ set, refused }) => `${many(set, "check")} acknowledged${refused.length ? `; ${refused.slice(0, 5).map((each) => `${each.agent} ${each.check}: ${each.why}`).join("; ")}` : ""}.`;
  form(`Acknowledge ${names(targets)}`, "Acknowledge", [
    field("Who looks after it", owner), field("Comment", comment), field("Until", until),
    make("label", sticky, " also when it gets worse"),
  ], async () => `Would be ${told(await dryRun("/api/v1/acks/many", body()))}`, async () => {
    const done = await write("/api/v1/acks/many", body());
    return done.refused.length ? told(done) : "";
  });
}

export function planDowntime(targets) {
  const kind = choice([["downtime: planned, counted apart in reports", "downtime"], ["silence: only nobody is told", "silence"]], "downtime");
  const length = choice(HOURS, 3600);
  const comment = input();
  const body = () => ({
    kind: kind.value, keys: targets, until: Date.now() / 1000 + Number(length.value), author: who(), comment: comment.value,
  });
  form(`Downtime for ${names(targets)}`, "Open", [field("What", kind), field("For", length), field("Why", comment), ...moreLink(targets)],
    async () => {
      const { covers, not_ok: bad, window } = await dryRun("/api/v1/windows", body());
      return `Until ${moment(window.until)}. It covers ${many(covers.checks, "check")} on ${many(covers.agents, "agent")}; not ok now: ${bad.length || "none"}.`;
    }, async () => { await write("/api/v1/windows", body()); return ""; });
}

const MOST_ADDRESS = 8000; // characters of an address that names checks

// The page with all that a downtime can be: other times, days that recur, patterns, what it would have held.
function moreLink(targets) {
  const query = new URLSearchParams(targets.map((key) => ["keys", key.join("/")]));
  if (String(query).length > MOST_ADDRESS) return [];
  const link = make("a", "Later, or on some days, with all that it would have held");
  link.href = `/windows/new?${query}`;
  return [make("p", link)];
}

// Asks the agents of each check to run it now; a line for each answer.
export function runNow(targets) {
  const list = make("ul");
  list.className = "rows";
  const close = make("button", "Close");
  const stop = new AbortController();
  const dialog = openDialog(`Run ${names(targets)} now`, list, close);
  dialog.addEventListener("close", () => stop.abort());
  close.addEventListener("click", () => dialog.close());
  const byCheck = Map.groupBy ? Map.groupBy(targets, ([, check]) => check) : targets.reduce((map, each) => map.set(each[1], [...(map.get(each[1]) ?? []), each]), new Map());
  for (const [check, group] of byCheck) askOne(check, group.map(([agent]) => agent), list, stop.signal);
}

async function askOne(check, agents, list, signal) {
  const pending = new Map(agents.map((agent) => {
    const item = make("li", `${agent} ${check}: asked ...`);
    list.append(item);
    return [agent, item];
  }));
  try {
    for await (const line of lines("/api/v1/runs", { check: check.split("/")[0].split("@")[0], on: agents }, signal)) {
      const item = pending.get(line.agent);
      if (item) fill(item, `${line.agent} ${check}: ${line.status ?? line.outcome ?? ""} ${line.summary ?? line.why ?? ""}`);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    for (const item of pending.values()) item.append(` ${error.message}`);
  }
}
