// Keys of all pages, the list of them, and "go to". Pages add their own with bind(); none uses a modifier of the browser.
import { keep, nextTheme } from "./theme.js";
import { switchZone } from "./time.js";

const bound = new Map();
const isOn = () => document.documentElement.dataset.keys !== "off";

// bind("e", "acknowledge", call, where): `where` groups keys in the list.
export function bind(key, what, call, where = "This page") { bound.set(key, { what, call, where }); }

function isTyping(target) {
  return target.closest?.("input, textarea, select, [contenteditable], .cm-editor") || target.shadowRoot?.activeElement;
}

addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    event.preventDefault();
    return goTo();
  }
  if (!isOn() || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const found = bound.get(event.key);
  if (!found) return;
  event.preventDefault();
  found.call(event);
});

// ---------------------------------------------------------------------------------------------- dialogs

// Opens a dialog made of nodes; it is removed when it is closed. Returns it.
export function openDialog(title, ...nodes) {
  const dialog = document.createElement("dialog");
  const heading = document.createElement("h2");
  heading.textContent = title;
  heading.id = `d${Math.floor(performance.now())}`;
  dialog.setAttribute("aria-labelledby", heading.id);
  dialog.append(heading, ...nodes);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  return dialog;
}

function showKeys() {
  const table = document.createElement("table");
  const body = table.createTBody();
  let last = "";
  for (const [key, { what, where }] of [...bound].sort((a, b) => a[1].where.localeCompare(b[1].where))) {
    if (where !== last) {
      const head = document.createElement("th");
      head.colSpan = 2;
      head.scope = "rowgroup";
      head.textContent = last = where;
      body.insertRow().append(head);
    }
    const row = body.insertRow();
    const name = document.createElement("kbd");
    name.textContent = key;
    row.insertCell().append(name);
    row.insertCell().textContent = what;
  }
  const close = document.createElement("button");
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  const dialog = openDialog("Keys", table, close);
}

// ---------------------------------------------------------------------------------------------- go to

const PAGES = [["Board", "/"], ["Agents", "/agents"], ["Meshes", "/mesh"], ["Checks", "/checks"], ["Rollouts", "/rollouts"],
  ["Downtimes", "/windows"], ["Ask", "/ask"], ["About", "/about"]];

async function goTo() {
  const field = document.createElement("input");
  field.type = "search";
  field.setAttribute("aria-label", "Agent, check or page");
  field.placeholder = "agent, check or page";
  const list = document.createElement("ul");
  list.className = "rows";
  const dialog = openDialog("Go to", field, list);
  let targets = PAGES;
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = targets.filter(([name]) => words.every((word) => name.toLowerCase().includes(word))).slice(0, 12);
    list.replaceChildren(...fits.map(([name, address]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = address;
      link.textContent = name;
      item.append(link);
      return item;
    }));
  };
  field.addEventListener("input", show);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list.querySelector("a")?.click();
    if (event.key === "ArrowDown") { event.preventDefault(); list.querySelector("a")?.focus(); }
  });
  list.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") { event.preventDefault(); links[at + 1]?.focus(); }
    if (event.key === "ArrowUp") { event.preventDefault(); (links[at - 1] ?? field).focus(); }
  });
  show();
  field.focus();
  try {
    const answer = await fetch("/api/v1/states?all=true&limit=1000", { credentials: "same-origin" });
    if (!answer.ok || !dialog.open) return;
    const { states } = await answer.json();
    const agents = [...new Set(states.map((each) => each.agent))];
    targets = [...PAGES, ...agents.map((name) => [name, `/agents/${encodeURIComponent(name)}`]),
      ...states.map((each) => [`${each.agent} ${each.check_id}`,
        `/checks/${encodeURIComponent(each.agent)}/${encodeURIComponent(each.check_id)}`])];
    show();
  } catch { /* the pages are still there to go to */ }
}

// ---------------------------------------------------------------------------------------------- the menu

const acts = {
  theme: nextTheme,
  zone: switchZone,
  keys(button) {
    keep("keys", isOn() ? "off" : "on");
    button?.setAttribute("aria-pressed", String(isOn()));
  },
};
document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-act]");
  if (button && acts[button.dataset.act]) acts[button.dataset.act](button);
  const copied = target.closest?.("[data-copy]");
  if (copied) copy(copied);
});

// Copies a command; where a page may not, the text is chosen so that the reader can.
async function copy(button) {
  const text = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const source = button.parentElement.querySelector("code");
    if (source) getSelection().selectAllChildren(source);
    button.textContent = "Chosen: copy it";
  }
}

bind("?", "these keys", showKeys, "All pages");
bind("t", "light or dark", nextTheme, "All pages");
bind("/", "to the filter", () => document.querySelector("[data-filter]")?.focus(), "All pages");
