// The filter language of the board, as helen/web/rows/filters.py has it: one table of cases is run in both.
export const STATUSES = ["ok", "warning", "critical", "unknown"];
const LINK = "equus:link";
export const shownCheck = (check) => (check === LINK ? "(link)" : check);

const UNITS = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600, d: 86400, w: 604800 };

function duration(text) {
  let total = 0;
  const rest = text.trim().replace(/(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)/g, (all, number, unit) => {
    total += Number(number) * UNITS[unit];
    return "";
  });
  if (/^\d+(\.\d+)?$/.test(rest.trim()) && total === 0) return Number(rest);
  if (rest.trim() || !text.trim()) throw new Error(`since:${text}: a duration is such as 90s, 5m, 2h or 1d`);
  return total;
}

// Python's fnmatchcase: * ? [seq] [!seq]
export function matches(text, pattern) {
  let source = "";
  for (let at = 0; at < pattern.length; at++) {
    const letter = pattern[at];
    if (letter === "*") source += "[^]*";
    else if (letter === "?") source += "[^]";
    else if (letter === "[") {
      let end = at + 1;
      if (pattern[end] === "!") end++;
      if (pattern[end] === "]") end++;
      while (end < pattern.length && pattern[end] !== "]") end++;
      if (end >= pattern.length) { source += "\\["; continue; }
      const inside = pattern.slice(at + 1, end).replace(/\\/g, "\\\\").replace(/^!/, "^").replace(/\]/g, "\\]").replace(/\[/g, "\\[");
      source += `[${inside}]`;
      at = end;
    } else source += letter.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  }
  return new RegExp(`^${source}$`, "u").test(text);
}

const FLAGS = {
  soft: (row) => Boolean(row.soft),
  acked: (row) => row.marks.includes("A"),
  held: (row) => /[DSP]/.test(row.marks),
  flapping: (row) => row.marks.includes("F"),
  stale: (row) => row.reason === "stale",
  away: (row) => row.reason === "agent-away",
  open: (row) => row.status !== "ok" && !row.marks.replace(/^F+|F+$/g, ""),
};

function statuses(value) {
  return new Set(value.toLowerCase().split(",").flatMap((word) => {
    if (word === "problem") return STATUSES.filter((status) => status !== "ok");
    const found = STATUSES.filter((status) => word && status.startsWith(word));
    if (!found.length) throw new Error(`state:${word}: there are ok, warning, critical, unknown and problem`);
    return found;
  }));
}

function test(word) {
  const colon = word.indexOf(":");
  const [name, value] = colon < 0 ? ["", ""] : [word.slice(0, colon), word.slice(colon + 1)];
  switch (name) {
    case "state": { const wanted = statuses(value); return (row) => wanted.has(row.status); }
    case "is": {
      if (!Object.hasOwn(FLAGS, value)) throw new Error(`is:${value}: there are ${Object.keys(FLAGS).join(", ")}`);
      return FLAGS[value];
    }
    case "since": { const lasting = duration(value); return (row, now) => now - row.since <= lasting; }
    case "agent": return (row) => matches(row.agent, value);
    case "check": return (row) => matches(shownCheck(row.check), value);
    default:
  }
  const equals = word.indexOf("=");
  if (equals > 0) {
    const [key, pattern] = [word.slice(0, equals), word.slice(equals + 1)];
    const fits = (row) => Object.hasOwn(row.labels ?? {}, key) && matches(row.labels[key], pattern);
    fits.label = true;
    return fits;
  }
  const wanted = word.toLowerCase();
  return (row) => `${row.agent}/${shownCheck(row.check)} ${row.summary}`.toLowerCase().includes(wanted);
}

// Returns fits(row, now); its `labels` says that rows need the labels of their agents. Throws an Error with a sentence.
export function readFilter(text) {
  const tests = text.split(/\s+/).filter(Boolean).map(test);
  const fits = (row, now) => tests.every((each) => each(row, now));
  fits.labels = tests.some((each) => each.label);
  return fits;
}

const RANK = { critical: 0, unknown: 1, warning: 2, ok: 3 };
const byName = (a, b) => (a.agent < b.agent ? -1 : a.agent > b.agent ? 1 : a.check < b.check ? -1 : a.check > b.check ? 1 : 0);
export const isUnwell = (row) => row.status !== "ok" || Boolean(row.soft) || row.marks.includes("F");

export const ORDERS = {
  problems: (a, b) => RANK[a.status] - RANK[b.status] || /^[ADSP]/.test(a.marks) - /^[ADSP]/.test(b.marks)
    || b.since - a.since || byName(a, b),
  agent: byName,
  check: (a, b) => (a.check < b.check ? -1 : a.check > b.check ? 1 : byName(a, b)),
  since: (a, b) => b.since - a.since || byName(a, b),
  heard: (a, b) => (a.heard ?? 0) - (b.heard ?? 0) || byName(a, b),
};
