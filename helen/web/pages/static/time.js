// Writes times in the reader's zone, or in UTC if the address says tz=UTC, and keeps "4 min ago" true.
const inUtc = new URLSearchParams(location.search).get("tz") === "UTC";
export const isUtc = () => inUtc;

// To make one takes longer than a thousand times to use it.
const formats = new Map();
function format(locale, options) {
  const key = `${locale} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locale, options));
  return formats.get(key);
}

// The offset is named by its letters where the zone has some, else as UTC+5.
export function zoneName(at = Date.now()) {
  if (inUtc) return "UTC";
  const parts = format("en-GB", { timeZoneName: "short" }).formatToParts(at);
  return parts.find((part) => part.type === "timeZoneName").value;
}

// ISO order, seconds, and the name of the zone: 2026-11-28 13:58:10 CET.
export function moment(seconds, withZone = true) {
  const at = new Date(seconds * 1000);
  const text = format("sv-SE", { dateStyle: "short", timeStyle: "medium", ...(inUtc ? { timeZone: "UTC" } : {}) }).format(at);
  return withZone ? `${text} ${zoneName(at)}` : text;
}

export const clock = (seconds) => moment(seconds, false).slice(11);

// Two units at most, as Helen's own texts have it: 160 s, 10 min, 26 h, 3 d 4 h (groundwork/durations.py).
export function span(seconds) {
  const size = Math.round(Math.max(0, seconds));
  if (size < 180) return `${size} s`;
  const [whole, rest, unit, smaller] = Math.round(size) < 3600 ? [...split(size, 60), "min", "s"]
    : Math.round(size / 60) < 2880 ? [...split(size / 60, 60), "h", "min"] : [...split(size / 3600, 24), "d", "h"];
  return `${whole} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
}

const split = (size, base) => [Math.floor(Math.round(size) / base), Math.round(size) % base];

export function writeTimes(root = document) {
  for (const each of root.querySelectorAll("time[data-at]")) each.textContent = moment(Number(each.dataset.at));
  writeAges(root);
}

export function writeAges(root = document) {
  const now = Date.now() / 1000 + offset;
  for (const each of root.querySelectorAll("time[data-ago]")) {
    const text = span(now - Number(each.dataset.ago));
    if (each.textContent !== text) each.textContent = text;
  }
}

// The moment of an age is written when somebody points at it: to write that of each row was most of what a board's
// scripts did before its rows were ready.
addEventListener("pointerover", ({ target }) => {
  const age = target.closest?.("time[data-ago]");
  if (age) age.title = moment(Number(age.dataset.ago));
});

// Helen's clock against this browser's, in seconds, as each answer tells it.
let offset = 0;
export function learnClock(serverSeconds) { offset = serverSeconds - Date.now() / 1000; }
export const now = () => Date.now() / 1000 + offset;

export function switchZone() {
  const address = new URL(location.href);
  if (isUtc()) address.searchParams.delete("tz"); else address.searchParams.set("tz", "UTC");
  location.replace(address);
}
