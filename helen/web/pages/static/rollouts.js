// Keeps the newest rollout live while it is open, and pauses, resumes and takes back, each after its dry run.
import { ask, dryRun, Refused, write } from "./api.js";
import { plain as make } from "./dom.js";
import { bind, openDialog } from "./keys.js";
import { renew } from "./live.js";
import { walk } from "./walk.js";

const LOOK_MS = 2_000;
const part = document.getElementById("current");
const fault = document.getElementById("fault");

const head = () => part.querySelector("[data-last]");
const isOpen = () => ["open", "paused"].includes(head()?.dataset.state);
const renewAll = () => Promise.all([...document.querySelectorAll("[data-part]")].map(renew));

function showButtons() {
  for (const button of document.querySelectorAll("[data-do][hidden]")) button.hidden = false;
}
new MutationObserver(showButtons).observe(part, {
  childList: true, subtree: true, attributes: true, attributeFilter: ["hidden"], // which morphing takes back
});
showButtons();

// One document, and only while a rollout is open and the page is seen.
let tag = "";
async function look() {
  if (document.hidden || !isOpen()) return;
  try {
    const answer = await ask("GET", "/api/v1/rollouts/current", undefined, tag ? { "if-none-match": tag } : {});
    if (answer.status === 304) return;
    tag = answer.headers.get("etag") ?? "";
    await answer.text();
    await renew(part);
  } catch (error) {
    if (!(error instanceof Refused)) throw error; // the page says by itself that Helen is not heard
  }
}
setInterval(look, LOOK_MS);

// ---------------------------------------------------------------------------------------------- deeds

const places = (rings) => rings.map((ring) => `ring ${ring.number} (${ring.ring}) ${ring.state}`).join(", ");
const deeds = {
  pause: ["Pause", "/api/v1/rollouts/pause", (would) => `Version ${would.version} stays where it is: ${places(would.rings)}. Gates go on watching.`],
  resume: ["Resume", "/api/v1/rollouts/resume", (would) => `Version ${would.version} goes on: ${places(would.rings)}.`],
  undo: ["Undo", "/api/v1/rollouts/undo", (would) => `Version ${would.version} is taken back: all agents run version ${would.base} again.`],
  "push-undo": ["Go back", "/api/v1/push/undo", (would) => `The set before is published again, as version ${would.version}.`],
};

function openDeed(name) {
  const [verb, path, told] = deeds[name];
  const said = make("p", "Asking what it would do ...");
  said.setAttribute("role", "status");
  const trouble = make("p");
  trouble.className = "fault";
  trouble.setAttribute("role", "alert");
  const send = make("button", verb);
  send.className = "main";
  send.disabled = true;
  const cancel = make("button", "Cancel");
  cancel.type = "button";
  const form = make("form", said, trouble, send, " ", cancel);
  const dialog = openDialog(`${verb}?`, form);
  const refused = (error) => {
    if (!(error instanceof Refused)) throw error;
    trouble.textContent = error.message;
  };
  dryRun(path, {}).then((would) => { said.textContent = told(would); send.disabled = false; send.focus(); }, (error) => {
    said.textContent = "It cannot be done now.";
    refused(error);
  });
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    try {
      await write(path, {});
      dialog.close();
      await renewAll();
    } catch (error) {
      refused(error);
      send.disabled = false;
    }
  });
}

async function readmit(button) {
  button.disabled = true;
  fault.textContent = "";
  try {
    await write("/api/v1/rollouts/readmit", { agent: button.dataset.name });
    await renew(part);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    fault.textContent = error.message;
  }
  button.disabled = false;
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-do]");
  if (!button) return;
  if (deeds[button.dataset.do]) openDeed(button.dataset.do);
  if (button.dataset.do === "readmit") readmit(button);
});

walk("Rollouts");
for (const [key, what, names] of [["p", "pause or resume", ["pause", "resume"]], ["u", "take it back", ["undo", "push-undo"]]]) {
  bind(key, what, () => {
    for (const name of names) part.querySelector(`[data-do=${name}]`)?.click();
  }, "Rollouts");
}
