// The list of agents and the page of one: live, by keys; join lines; shutting an agent out, and forgetting it.
import { acknowledge, planDowntime, runNow } from "./acts.js";
import { plain as make } from "./dom.js";
import { dryRun, Refused, write } from "./api.js";
import { bind, openDialog } from "./keys.js";
import { hold, listen, release, renew } from "./live.js";
import { moment, now, span } from "./time.js";
import { current, mark, walk } from "./walk.js";

const TALLY_MS = 3_000; // between two looks at the counts of a list
const list = document.querySelector("[data-part=list]");
const head = document.getElementById("head");

function showButtons() {
  for (const button of document.querySelectorAll("[data-do][hidden]")) button.hidden = false;
  mark();
}
new MutationObserver(showButtons).observe(document.getElementById("main"), {
  childList: true, subtree: true, attributes: true, attributeFilter: ["hidden", "class"], // which morphing takes back
});
showButtons();

// ---------------------------------------------------------------------------------------------- joining

const join = document.getElementById("join");

async function makeLine() {
  const box = make("div");
  box.className = "join";
  join.hidden = false;
  try {
    const made = await write("/api/v1/tokens", {});
    const line = `equus --server ${made.address} --join ${made.token}`;
    const copy = make("button", "Copy");
    copy.type = "button";
    copy.dataset.copy = line;
    const place = make("div", make("pre", make("code", line)), copy);
    const said = make("p", `Good for one agent, for ${span(made.ttl)}. Waiting for it ...`);
    said.setAttribute("role", "status");
    said.id = "joined";
    box.append(make("h2", "Run this on the machine to watch"), place, said);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const fault = make("p", error.message);
    fault.className = "fault";
    fault.setAttribute("role", "alert");
    box.append(fault);
  }
  join.replaceChildren(box);
}

function hasJoined(name) {
  const said = document.getElementById("joined");
  if (!said) return;
  const link = make("a", name);
  link.href = `/agents/${encodeURIComponent(name)}`;
  said.replaceChildren(link, " has connected.");
}

if (list) {
  listen({ kinds: ["link"] }, (kind, { agent, document: change }) => {
    if (kind === "link" && change.event === "up" && agent) hasJoined(agent);
  });
  let due = 0;
  listen({ kinds: ["transition"] }, (kind, { agent }) => {
    const isShown = [...list.querySelectorAll("tr[data-agent]")].some((row) => row.dataset.agent === agent);
    if (isShown && !document.hidden) due ||= setTimeout(() => { due = 0; renew(list); }, TALLY_MS);
  });
}

// ---------------------------------------------------------------------------------------------- shutting out

// The name is typed: neither can be taken back. First Helen says what it would do.
function sureOf(title, verb, name, what, told, done) {
  const said = make("p", "Asking what it would do ...");
  said.setAttribute("role", "status");
  const fault = make("p");
  fault.className = "fault";
  fault.setAttribute("role", "alert");
  const field = make("input");
  field.autocomplete = "off";
  const label = make("label", make("span", `Type ${name} to go on`), field);
  label.className = "field";
  const send = make("button", verb);
  send.className = "danger";
  send.disabled = true;
  const cancel = make("button", "Cancel");
  cancel.type = "button";
  const form = make("form", said, label, fault, send, " ", cancel);
  const dialog = openDialog(title, form);
  let mayGo = false;
  const path = `/api/v1/agents/${encodeURIComponent(name)}/${what}`;
  const look = () => { send.disabled = !mayGo || field.value !== name; };
  const refused = (error) => {
    if (!(error instanceof Refused)) throw error;
    fault.textContent = error.message;
  };
  dryRun(path, {}).then((would) => { said.textContent = told(would); mayGo = true; look(); }, (error) => {
    said.textContent = "It cannot be done now.";
    refused(error);
  });
  field.addEventListener("input", look);
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (send.disabled) return;
    send.disabled = true;
    hold(); // else a part of an agent that is forgotten just now would be asked for
    try {
      await write(path, {});
      dialog.close();
      done();
    } catch (error) {
      release();
      refused(error);
      look();
    }
  });
  field.focus();
}

const certificates = (number) => `${number} certificate${number === 1 ? "" : "s"}`;
const revoke = (name) => sureOf(`Revoke ${name}`, "Revoke", name, "revoke",
  ({ revoked }) => `Shuts it out at once: ${certificates(revoked)} would be good no more, and what its checks said is forgotten. It needs a new token to come back.`,
  () => { release(); for (const part of document.querySelectorAll("[data-part]")) renew(part); });
const forget = (name) => sureOf(`Forget ${name}`, "Forget", name, "forget",
  () => "Takes it off all lists, with the states of its checks. Its history stays.",
  () => { location.href = "/agents"; });

async function readmit(name, button) {
  button.disabled = true;
  try {
    await write("/api/v1/rollouts/readmit", { agent: name });
    renew(head);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    button.after(` ${error.message}`);
  }
  button.disabled = false;
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-do]");
  if (!button) return;
  const { name } = button.dataset;
  if (button.dataset.do === "join") makeLine();
  if (button.dataset.do === "revoke") revoke(name);
  if (button.dataset.do === "forget") forget(name);
  if (button.dataset.do === "readmit") readmit(name, button);
});

// A run that was next when the page was made is not next for long.
function writeNextRuns() {
  for (const cell of document.querySelectorAll("[data-next]")) {
    const [next, every] = [Number(cell.dataset.next), Number(cell.dataset.every)];
    const later = next + Math.max(0, Math.ceil((now() - next) / every)) * every;
    const text = moment(later);
    const time = cell.querySelector("time");
    if (time && time.textContent !== text) { time.textContent = text; time.dataset.at = later; }
  }
}

// ---------------------------------------------------------------------------------------------- keys

walk(list ? "Agents" : "Agent");
document.querySelector("form.filter")?.addEventListener("change", ({ target }) => {
  if (target.tagName === "SELECT") target.form.requestSubmit();
});
if (head) {
  const chosen = (call) => () => {
    const row = current();
    if (row) call([[row.dataset.agent, row.dataset.check]]);
  };
  bind("e", "why it is so", () => {
    const link = current()?.querySelector(".check a");
    if (link) location.href = `${link.href}/why`;
  }, "Agent");
  if (head.dataset.acts) {
    bind("a", "acknowledge", chosen(acknowledge), "Agent");
    bind("d", "plan a downtime", chosen(planDowntime), "Agent");
    bind("r", "run now", chosen(runNow), "Agent");
  }
  for (const part of document.querySelectorAll("[data-at-once]")) renew(part);
  setInterval(writeNextRuns, 1_000);
}
