// Keeps the answers to one question: which targets are accounted for, which answers are equal, and all of it as CSV. Pure.
import { safe } from "./dom.js";

export const OUTCOMES = ["answered", "failed", "refused", "offline", "expired"];
export const OUTCOME_WORDS = { expired: "gone, no answer in time" };
const STATUSES = ["ok", "warning", "critical", "unknown"];
const NAMED = 5;
const COLUMNS = ["agent", "outcome", "status", "reason", "summary", "why", "output"];

export class Answers {
  constructor(expected = []) {
    this.expected = expected; // names by the dry run, as far as they are known
    this.targets = null;      // the number that Helen has asked
    this.byAgent = new Map();
    this.end = null;          // null: it goes on; "whole", "stopped", "lost"
  }

  take(line) {
    if (line.agent !== undefined) this.byAgent.set(line.agent, line);
    else if (line.targets !== undefined) this.targets = line.targets;
  }

  // Without a word from Helen that all are there, they are not: the lines may have ended early.
  finish(how = "whole") { this.end = how === "whole" && !this.isWhole ? "lost" : how; }

  get accounted() { return this.byAgent.size; }
  get isWhole() { return this.targets !== null && this.accounted === this.targets; }

  counts() {
    const counts = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, 0]));
    for (const { outcome } of this.byAgent.values()) counts[outcome] = (counts[outcome] ?? 0) + 1;
    return counts;
  }

  statuses() {
    const counts = {};
    for (const each of this.byAgent.values()) if (each.result && each.outcome === "answered") counts[each.result.status] = (counts[each.result.status] ?? 0) + 1;
    return Object.fromEntries(["critical", "unknown", "warning", "ok"].filter((name) => counts[name]).map((name) => [name, counts[name]]));
  }

  proof() {
    const parts = Object.entries(this.counts()).filter(([, number]) => number).map(([outcome, number]) => `${number} ${OUTCOME_WORDS[outcome] ?? outcome}`);
    const said = parts.length ? `: ${parts.join(", ")}` : "";
    if (this.targets === null) return this.end ? "Helen gave no answer: nothing is known of what was asked." : "Asking ...";
    if (this.isWhole) return `All ${this.targets} accounted for${said}.`;
    return `${this.accounted} of ${this.targets} accounted for${said}; ${this.targets - this.accounted} ${this.end ? "not" : "to come"}.`;
  }

  // Why the bar is not full, once no line comes any more.
  trouble() {
    if (!this.end || this.isWhole) return "";
    const missing = this.expected.filter((name) => !this.byAgent.has(name));
    const isNamed = this.targets !== null && missing.length === this.targets - this.accounted;
    const names = isNamed ? `: ${missing.slice(0, NAMED).join(", ")}${missing.length > NAMED ? ` and ${missing.length - NAMED} more` : ""}` : "";
    const left = this.targets === null ? "any agent" : `${this.targets - this.accounted} of ${this.targets}${names}`;
    return this.end === "stopped" ? `You stopped it. Nothing is known of ${left}.` : `Helen went away. Nothing is known of ${left}. Ask again.`;
  }

  // Groups of equal answers, the odd ones first: the smallest, then the worst.
  groups(isTogether = true) {
    const found = new Map();
    for (const line of this.byAgent.values()) {
      const said = saidOf(line);
      const key = isTogether ? JSON.stringify([line.outcome, statusOf(line), said]) : line.agent;
      const group = found.get(key) ?? { outcome: line.outcome, status: statusOf(line), said, lines: [] };
      group.lines.push(line);
      found.set(key, group);
    }
    const groups = [...found.values()];
    for (const group of groups) group.lines.sort((a, b) => (a.agent < b.agent ? -1 : 1));
    return groups.sort((a, b) => a.lines.length - b.lines.length || severity(b) - severity(a) || (a.lines[0].agent < b.lines[0].agent ? -1 : 1));
  }

  csv() {
    const rows = [...this.byAgent.values()].sort((a, b) => (a.agent < b.agent ? -1 : 1)).map((line) => [
      line.agent, line.outcome, statusOf(line), line.result?.reason, line.result?.summary, line.why, line.result?.output,
    ]);
    return [COLUMNS, ...rows].map((row) => row.map((value) => quoted(cell(value ?? ""))).join(",")).join("\n") + "\n";
  }
}

export const statusOf = (line) => (line.outcome === "answered" ? line.result?.status ?? "" : "");
export const saidOf = (line) => (line.outcome === "answered" ? line.result?.summary || line.result?.reason || "" : line.why ?? "");
const severity = (group) => (group.status ? [0, 1, 3, 2][STATUSES.indexOf(group.status)] : 4);

// ---------------------------------------------------------------------------------------------- CSV

const FORMULA = /^(?=[\t\n])|(?:^|(?<=[;\t\n]))(?=[ "]*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212])/g;

// As cells of Helen's own CSV: what a spreadsheet would take for a formula gets a quote in front.
export function cell(value) {
  return safe(String(value)).replace(FORMULA, "'");
}

const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
