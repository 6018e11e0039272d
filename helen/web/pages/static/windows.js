// Cancels a downtime or a silence, and says before of what people are told at once by that.
import { ask, dryRun, Refused, write } from "./api.js";
import { bind, openDialog } from "./keys.js";

const NAMES = 12;

function paragraph(text, kind = "") {
  const made = document.createElement("p");
  made.textContent = text;
  made.className = kind;
  return made;
}

export function toldWords({ checks, names }) {
  if (!checks) return "Nobody is told of anything by that: nothing that it covers is broken, or something else holds it back.";
  const left = checks - Math.min(checks, NAMES);
  const all = `${names.slice(0, NAMES).join(", ")}${left ? ` and ${left} more` : ""}`;
  return `People are told at once of ${checks.toLocaleString("en")} ${checks === 1 ? "check that is" : "checks that are"} still not ok: ${all}.`;
}

async function cancel(button) {
  const { cancel: name, what } = button.dataset;
  const address = `/api/v1/windows/${encodeURIComponent(name)}`;
  const said = paragraph("Looking at what that would do ...");
  said.setAttribute("role", "status");
  const fault = paragraph("", "fault");
  fault.setAttribute("role", "alert");
  const send = document.createElement("button");
  send.className = "danger";
  send.textContent = "Cancel it";
  send.disabled = true;
  const keep = document.createElement("button");
  keep.textContent = "Keep it";
  const dialog = openDialog(`Cancel ${what}?`, said, fault, send, " ", keep);
  keep.addEventListener("click", () => dialog.close());
  keep.focus();
  const author = document.documentElement.dataset.actor;
  let tag = "";
  const refused = (error) => {
    if (!(error instanceof Refused)) throw error;
    fault.textContent = error.status === 412 ? "It was changed meanwhile: close this, and look at it again." : error.message;
  };
  send.addEventListener("click", async () => {
    send.disabled = true;
    try {
      await write(`${address}/cancel`, { author }, { headers: tag ? { "if-match": tag } : {} });
      dialog.close();
      if (location.pathname !== "/windows") location.assign("/windows");
    } catch (error) { refused(error); send.disabled = false; }
  });
  try {
    tag = (await ask("GET", address)).headers.get("etag") ?? "";
    said.textContent = toldWords((await dryRun(`${address}/cancel`, { author })).tells);
    send.disabled = false;
  } catch (error) { said.textContent = ""; refused(error); }
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-cancel]");
  if (button) cancel(button);
});
bind("n", "plan a downtime", () => document.querySelector("a[href='/windows/new']")?.click());
