// The rollout beside the editor: how far it has come, why it went back, pause, undo. Asked for each 2 s while it is open.
import { ask, dryRun, Refused, write } from "./api.js";
import { attempt, fill, make, many, stateOf } from "./dom.js";
import { say } from "./live.js";
import { openDialog } from "./keys.js";

const EVERY_MS = 2000;
const WORDS = { open: ["none", "under way"], paused: ["warning", "paused"], finished: ["ok", "out"], undone: ["critical", "taken back"] };
let timer = 0;
let tag = null;
let shown = null;
let drawn = "";
const place = document.getElementById("rollout-view");
const section = document.getElementById("rollout");
const fault = document.getElementById("rollout-fault");

// call(rollout) for each change of state.
let whenChanged = () => {};
export function onRollout(call) { whenChanged = call; }

export async function watchRollout() {
  clearTimeout(timer);
  section.hidden = false;
  if (!document.hidden) await look();
  if (!shown || ["open", "paused"].includes(shown.state)) timer = setTimeout(watchRollout, EVERY_MS);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden && !section.hidden) watchRollout(); });

async function look() {
  let answer;
  try {
    answer = await ask("GET", "/api/v1/rollouts/current", undefined, tag ? { "if-none-match": tag } : {});
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    fault.textContent = error.status === 404 ? "" : error.message;
    return;
  }
  fault.textContent = "";
  if (answer.status === 304) return;
  tag = answer.headers.get("etag");
  const before = shown;
  shown = await answer.json();
  draw();
  if (before?.version !== shown.version || before?.state !== shown.state) {
    whenChanged(shown, before);
    if (before) say(`Version ${shown.version} is ${(WORDS[shown.state] ?? [0, shown.state])[1]}. ${shown.state === "undone" ? shown.why : ""}`);
  }
}

function ringOf(ring) {
  const [size, here] = [ring.size, ring.here];
  const running = ring.confirmed !== undefined && size !== undefined ? `${Math.min(ring.confirmed, size)} of ${many(size, "agent")} run it${here !== undefined && here < size ? `, ${here} here` : ""}` : "";
  const refused = Object.entries(ring.refused ?? {}).flatMap(([file, said]) => Object.entries(said).map(([agent, why]) => `${agent}: ${file}: ${why}`));
  const why = ring.why === shown.why ? "" : ring.why ?? ""; // why it went back stands above
  const waits = ring.state === "open" && ring.waits_for ? `waits for ${ring.waits_for}` : why;
  return make("li", { class: `r-${ring.state.replaceAll(" ", "-")}` },
    make("b", {}, `Ring ${ring.number}`), ` (${ring.ring}) ${ring.state === "undone" ? "failed" : ring.state}${running ? `: ${running}` : ""}`,
    waits ? make("div", { class: ring.state === "undone" ? "fault" : "quiet" }, waits) : null,
    ...refused.map((text) => make("div", { class: "fault" }, text)));
}

function draw() {
  const [word, said] = WORDS[shown.state] ?? ["none", shown.state];
  const isOpen = ["open", "paused"].includes(shown.state);
  const key = JSON.stringify(shown);
  if (key === drawn) return;
  drawn = key;
  const held = document.activeElement?.closest("#rollout-view [data-step]")?.dataset.step;
  place.dataset.state = shown.state;
  place.dataset.version = shown.version;
  const kept = Object.entries(shown.kept_old ?? {});
  fill(place,
    make("p", { class: "head" }, stateOf(word, `Version ${shown.version} ${said}`), make("span", { class: "quiet" }, ` by ${shown.author}`)),
    shown.state === "undone" ? make("p", { class: "note critical wrap" }, `Taken back: ${shown.why}`) : null,
    make("p", { class: "wrap" }, `${shown.files}. `, make("span", { class: "quiet" }, `${shown.loaded} of ${many(shown.agents, "agent")} run version ${shown.newest}.`)),
    make("ol", { class: "rings", "aria-label": "Rings" }, ...shown.rings.map(ringOf)),
    kept.length ? make("p", { class: "note warning wrap" }, `Keep old files: ${kept.slice(0, 5).map(([agent, files]) => `${agent} (${Object.entries(files).map(([file, why]) => `${file}: ${why}`).join("; ")})`).join(", ")}`) : null,
    make("p", { class: "bar" },
      isOpen ? button(shown.state === "paused" ? "resume" : "pause", shown.state === "paused" ? "Resume" : "Pause") : null,
      isOpen ? button("undo", "Undo") : null,
      shown.state === "finished" && shown.newest === shown.version ? button("back", "Undo") : null,
      make("a", { href: "/rollouts" }, "All rollouts")));
  if (held) place.querySelector(`[data-step=${held}]`)?.focus();
}

function button(step, text) {
  const made = make("button", { type: "button", class: step === "undo" || step === "back" ? "danger" : "", "data-step": step }, text);
  made.addEventListener("click", () => attempt(made, fault, () => steps[step]()));
  return made;
}

const renew = () => { tag = null; return watchRollout(); };
const steps = {
  pause: async () => { await write("/api/v1/rollouts/pause", {}); await renew(); },
  resume: async () => { await write("/api/v1/rollouts/resume", {}); await renew(); },
  undo: async () => {
    await dryRun("/api/v1/rollouts/undo", {});
    sure(`Take version ${shown.version} back?`, "All agents get the files from before at once. The text stays in the folder, and is not tried again before it changes.", "/api/v1/rollouts/undo");
  },
  back: async () => {
    const { version } = await dryRun("/api/v1/push/undo", {});
    sure(`Take version ${shown.version} back?`, `All agents get the files from before, as version ${version}. The text stays in the folder, and is not tried again before it changes.`, "/api/v1/push/undo");
  },
};

function sure(title, text, path) {
  const go = make("button", { class: "danger" }, "Undo");
  const cancel = make("button", { type: "button" }, "Cancel");
  const refused = make("p", { class: "fault wrap", role: "alert" });
  const form = make("form", {}, make("p", {}, text), refused, go, " ", cancel);
  const dialog = openDialog(title, form);
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => place.querySelector("[data-step], a").focus());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(go, refused, async () => { await write(path, {}); dialog.close(); await renew(); });
  });
  go.focus();
}
