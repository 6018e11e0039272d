// Keys that walk through the rows of a table marked data-walk: j k g G, and Enter for the row's own link.
import { bind } from "./keys.js";

let at = null; // the row's own name, which survives that the table is made anew

const rows = () => [...document.querySelectorAll("[data-walk] tbody tr")];
const nameOf = (row) => `${row.dataset.agent ?? ""}\n${row.dataset.check ?? row.dataset.version ?? ""}`;

// The row that keys act on; null without one.
export const current = () => rows().find((row) => nameOf(row) === at) ?? null;

function go(index) {
  const all = rows();
  if (!all.length) return;
  const row = all[Math.max(0, Math.min(all.length - 1, index))];
  at = nameOf(row);
  mark();
  row.scrollIntoView({ block: "nearest" });
  row.querySelector("a")?.focus({ preventScroll: true });
}

export function mark() {
  for (const row of rows()) {
    const isIt = nameOf(row) === at;
    if (row.classList.contains("at") !== isIt) row.classList.toggle("at", isIt);
  }
}

const place = () => rows().findIndex((row) => nameOf(row) === at);

export function walk(where) {
  bind("j", "next row", () => go(place() + 1), where);
  bind("k", "row before", () => go(place() - 1), where);
  bind("g", "first row", () => go(0), where);
  bind("G", "last row", () => go(rows().length - 1), where);
  bind("Enter", "open it", (event) => {
    const own = event.target.closest?.("a, button, summary");
    (own ?? current()?.querySelector("a"))?.click();
  }, where);
}
