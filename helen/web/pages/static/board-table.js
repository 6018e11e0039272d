// Draws the rows of a board that are in sight, once a frame: what is not in sight has no element, and costs nothing.
import { safe, stateOf, styled as make } from "./dom.js";
import { shownCheck } from "./filters.js";
import { now, span } from "./time.js";

const PLAIN = 200;  // rows that are plain elements, so that the browser's own search finds them
const PLAIN_AGAIN = 150; // that a list which was longer has to come down to: else it would be made anew to and fro
const MARGIN = 12;  // rows above and below what is in sight
const FIRST_MARGIN = 4;  // below it in the first drawing: with those of the usual screen as many as the page comes with
const LONG_NAME = 18; // characters of an agent's name, from which on it may be cut off
const MARKS = { A: "acknowledged", D: "downtime", S: "silence", P: "a check that it depends on is bad", F: "flapping", R: "a new version is tried" };
const path = (text) => encodeURIComponent(text).replace(/^\.+$/, (dots) => "%2E".repeat(dots.length));
export const checkPath = (agent, check) => `/checks/${path(agent)}/${path(check)}`;

function stripOf(strip) {
  const name = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(name, "svg");
  svg.setAttribute("class", "strip");
  svg.setAttribute("viewBox", "0 0 48 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const run of strip.matchAll(/(.)\1*/g)) {
    const rect = document.createElementNS(name, "rect");
    for (const [key, value] of [["x", run.index], ["width", run[0].length], ["height", 10], ["class", `s${run[1]}`]]) rect.setAttribute(key, value);
    svg.append(rect);
  }
  return svg;
}

function link(address, text) {
  const made = make("a", "", text);
  made.href = address;
  return made;
}

function build(row, isPicked) {
  const element = make("tr");
  element.dataset.agent = row.agent;
  element.dataset.check = row.check;
  const pick = make("td", "pick");
  if (isPicked) {
    const box = make("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", `Choose ${row.agent} ${shownCheck(row.check)}`);
    pick.append(box);
  }
  element.append(pick, make("td", "how"), make("td", "agent", link(`/agents/${path(row.agent)}`, row.agent)),
    make("td", "check", link(checkPath(row.agent, row.check), shownCheck(row.check))), make("td", "since"),
    make("td", "said"), make("td", "strip-cell"));
  if (row.agent.length > LONG_NAME) element.cells[2].title = safe(row.agent);
  return element;
}

function fill(element, row) {
  const [, how, , , since, said, strip] = element.cells;
  const marks = [...row.marks].flatMap((mark) => {
    const made = make("abbr", "", mark);
    made.title = MARKS[mark] ?? mark;
    return [" ", made];
  });
  how.replaceChildren(stateOf(row.status), ...(row.soft ? [" ", make("span", "quiet", row.soft)] : []), ...marks);
  const age = make("time", "ago", span(now() - row.since));
  age.dateTime = new Date(row.since * 1000).toISOString();
  age.dataset.ago = row.since;
  since.replaceChildren(age);
  said.replaceChildren(make("span", "cut", row.summary));
  said.title = safe(row.summary);
  if (row.strip && element.dataset.strip !== row.strip) {
    element.dataset.strip = row.strip;
    strip.replaceChildren(stripOf(row.strip));
  }
}

function makeGap() {
  const cell = make("td");
  cell.colSpan = 7;
  const element = make("tr", "gap", cell);
  element.setAttribute("aria-hidden", "true");
  return element;
}

function stretch(gap, height) {
  const wanted = String(Math.round(height));
  if (gap.cells[0].getAttribute("height") !== wanted) gap.cells[0].setAttribute("height", wanted);
}

export class Table {
  // drawn() is called after each drawing; isPicked: rows have a box.
  constructor(table, rows, isPicked, drawn) {
    Object.assign(this, { table, rows, isPicked, drawn });
    this.elements = new Map();
    this.changed = new Set();  // rows to be written anew
    this.chosen = new Set();
    this.at = null;            // the key of the row that keys act on
    this.height = 0;           // pixels of a row; 0: to be measured
    this.top = 0;              // pixels of the table above the window
    this.isLong = false;
    this.isDue = false;
    this.isScrolled = true;
    this.isFirst = true;
    this.gaps = [makeGap(), makeGap()];
    this.served = new Map([...table.tBodies[0].rows].map((each) => [`${each.dataset.agent}\n${each.dataset.check}`, each]));
    this.servedAt = Number(table.dataset.at.split(".")[1]);
    const look = () => { if (this.isLong) { this.isScrolled = true; this.drawSoon(); } };
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", () => { this.height = 0; look(); });
  }

  // One drawing a frame, however many changes come until then; a tab that is not seen draws when it is.
  drawSoon() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => { if (this.isDue) this.draw(); });
  }

  write(key) {
    if (this.elements.has(key)) this.changed.add(key);
    this.drawSoon();
  }

  // Asks the browser for a layout: when something was scrolled, not when a row has changed.
  measure() {
    if (!this.height) {
      const first = [...this.table.tBodies[0].rows].find((each) => !each.classList.contains("gap"));
      this.height = first?.getBoundingClientRect().height || 36;
      this.seen = innerHeight;
    }
    this.top = Math.max(0, -this.table.getBoundingClientRect().top);
    this.isScrolled = false;
  }

  draw() {
    this.isDue = false;
    const { order } = this.rows;
    this.isLong = order.length > (this.isLong ? PLAIN_AGAIN : PLAIN);
    let [from, to] = [0, order.length];
    if (this.isLong) {
      if (!this.height || this.isScrolled) this.measure();
      const first = Math.min(order.length, Math.floor(this.top / this.height));
      from = Math.max(0, first - MARGIN);
      to = Math.min(order.length, first + Math.ceil(this.seen / this.height) + (this.isFirst ? FIRST_MARGIN : MARGIN));
      this.table.setAttribute("aria-rowcount", order.length + 1);
    } else this.table.removeAttribute("aria-rowcount");
    // A row that has gone while the order is held has no data any more, but stays where somebody points at it
    const keys = order.slice(from, to).filter((key) => this.elements.has(key) || this.rows.get(key));
    this.place(keys, from);
    for (const key of this.changed) this.renew(key);
    this.changed.clear();
    if (this.isFirst && this.isLong) (window.requestIdleCallback ?? setTimeout)(() => this.drawSoon(), { timeout: 1000 });
    this.isFirst = false;
    this.drawn();
  }

  // Moves only what is not in its place: the browser lays out anew what is moved.
  place(keys, from) {
    const body = this.table.tBodies[0];
    const shown = new Set(keys);
    const active = document.activeElement;
    for (const [key, element] of this.elements) {
      if (!shown.has(key)) { element.remove(); this.elements.delete(key); }
    }
    const [above, below] = this.gaps;
    let next = body.firstElementChild;  // the text between the rows of a page is none, else each row would be moved
    const put = (element) => {
      if (element === next) next = next.nextElementSibling; else body.insertBefore(element, next);
    };
    if (from > 0) { stretch(above, from * this.height); put(above); }
    keys.forEach((key, index) => {
      const element = this.elements.get(key) ?? this.build(key);
      put(element);
      const place = this.isLong ? String(from + index + 2) : null;
      if (element.getAttribute("aria-rowindex") === place) return;
      if (place) element.setAttribute("aria-rowindex", place); else element.removeAttribute("aria-rowindex");
    });
    const left = this.rows.order.length - from - keys.length;
    if (this.isLong && left > 0) { stretch(below, left * this.height); put(below); }
    while (next) { const gone = next; next = next.nextElementSibling; gone.remove(); }
    if (active !== document.activeElement && active.isConnected) active.focus({ preventScroll: true });
  }

  build(key) {
    const row = this.rows.get(key);
    let element = this.served.get(key);
    if (element) this.served.delete(key);
    if (!element || row.at > this.servedAt) {
      element = build(row, this.isPicked);
      fill(element, row);
    }
    this.elements.set(key, element);
    this.mark(key);
    return element;
  }

  renew(key) {
    const [element, row] = [this.elements.get(key), this.rows.get(key)];
    if (!element || !row) return;
    fill(element, row);
    element.classList.remove("flash");
    requestAnimationFrame(() => element.classList.add("flash"));
  }

  // Shows if a row is chosen, and if keys act on it.
  mark(key) {
    const element = this.elements.get(key);
    if (!element) return;
    element.classList.toggle("at", this.at === key);
    const box = element.cells[0].firstElementChild;
    if (box) box.checked = this.chosen.has(key);
  }

  // Brings a row into sight, and the focus to it.
  go(key) {
    const before = this.at;
    this.at = key;
    if (before !== null) this.mark(before);
    if (this.isLong) {
      if (!this.height) this.measure();
      scrollTo({ top: this.table.offsetTop + this.rows.order.indexOf(key) * this.height - innerHeight / 2 });
      this.isScrolled = true;
    }
    this.draw();
    this.mark(key);
    const element = this.elements.get(key);
    element?.scrollIntoView({ block: "nearest" });
    element?.querySelector(".check a")?.focus({ preventScroll: true });
  }
}
