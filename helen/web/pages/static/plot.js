// Draws a figure over time without lying: the mean as a line, the band from the lowest to the highest of each step, gaps
// hatched and never joined, thresholds, and marks of what happened. Each plot has a sentence and a table beside it.
import uPlot from "./vendor/uplot.js";
import { isUtc, moment, span } from "./time.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const resolved = (value) => {
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  probe.style.setProperty("color", value);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};
const ink = (name) => resolved(colour(name));

// Points further apart than 1.5 steps are not joined: a point without a value is put between them.
// points: [{at, mean, min, max, n}], in order; returns {data: [x, max, min, mean], gaps: [[from, to]]}
export function withGaps(points, step, from, to) {
  const data = [[], [], [], []];
  const gaps = [];
  const put = (at, point) => {
    data[0].push(at);
    data[1].push(point?.max ?? null);
    data[2].push(point?.min ?? null);
    data[3].push(point?.mean ?? null);
  };
  let last = null;
  for (const point of points) {
    if (last !== null && point.at - last > 1.5 * step) {
      put((last + point.at) / 2, null);
      gaps.push([last, point.at]);
    }
    put(point.at, point);
    last = point.at;
  }
  const first = points[0]?.at ?? to;
  if (first - from > 1.5 * step) gaps.unshift([from, first]);
  if (last !== null && to - last > 1.5 * step) gaps.push([last, to]);
  return { data, gaps };
}

// The edges of a range such as 80, 10:20, ~:5 or @1:2, where they are finite.
export function edgesOf(range) {
  if (!range) return [];
  const text = range.replace(/^@/, "");
  const parts = text.includes(":") ? text.split(":") : ["0", text];
  return parts.map(Number).filter((edge, index) => parts[index] !== "" && Number.isFinite(edge) && (text.includes(":") || index === 1));
}

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
export function figure(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "-";
  if (unit === "B" || unit === "bytes") {
    let size = Math.abs(value);
    let at = 0;
    while (size >= 1024 && at < BYTES.length - 1) { size /= 1024; at++; }
    return `${value < 0 ? "-" : ""}${Number(size.toPrecision(3))} ${BYTES[at]}`;
  }
  const shown = Math.abs(value) >= 1e6 || (value && Math.abs(value) < 1e-3) ? value.toExponential(2) : Number(value.toPrecision(4)).toString();
  return unit === "%" ? `${shown} %` : unit ? `${shown} ${unit}` : shown;
}

// The steps of an axis of bytes, so that its ticks are whole KiB, MiB or GiB; undefined for others: tens, as usual.
export function stepsOf(unit) {
  if (unit !== "B" && unit !== "bytes") return undefined;
  return Array.from({ length: 10 * BYTES.length }, (_, power) => 2 ** power);
}

function sentence(name, unit, points, step, gaps) {
  if (!points.length) return `${name}: nothing known in this span.`;
  const low = Math.min(...points.map((point) => point.min));
  const high = Math.max(...points.map((point) => point.max));
  const newest = points.at(-1);
  const missing = gaps.reduce((sum, [from, to]) => sum + to - from, 0);
  return `${name}: now ${figure(newest.mean, unit)}, between ${figure(low, unit)} and ${figure(high, unit)}`
    + `${missing > step ? `; nothing known for ${span(missing)}` : ""}.`;
}

function axis(from, to) {
  const day = to - from > 2 * 86400;
  return (_, splits) => splits.map((at) => (day ? moment(at, false).slice(5, 10) : moment(at, false).slice(11, 16)));
}

// figures: {name, unit, points, step, warn, crit, isSolid}; marks: [{at, letter, text, href}]
export function draw(target, { name, unit, points, step, warn, crit, isSolid = true }, from, to, marks, causes) {
  const box = document.createElement("figure");
  box.className = "plot";
  const caption = document.createElement("figcaption");
  const { data, gaps } = withGaps(points, step, from, to);
  const summary = sentence(name, unit, points, step, gaps);
  caption.textContent = summary;
  const canvas = document.createElement("div");
  canvas.className = "canvas";
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${summary} Left and right move the cursor.`);
  const said = document.createElement("p");
  said.className = "cursor quiet";
  said.setAttribute("aria-live", "polite");
  const table = tableOf(name, unit, points);
  box.append(caption, canvas, said, table);
  target.append(box);
  if (!points.length && !gaps.length) return null;
  const lines = [...edgesOf(warn).map((at) => [at, "warning"]), ...edgesOf(crit).map((at) => [at, "critical"])];
  const values = [...data[1], ...data[2], ...lines.map(([at]) => at)].filter((value) => value !== null);
  const low = Math.min(0, ...values);
  const most = Math.max(...values, low);
  const high = most > low ? most : low + 1;  // of zeros alone: an axis of billionths would say nothing
  const hatch = (plot, left, right) => {
    const { ctx } = plot;
    const { top, height } = plot.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, right - left, height);
    ctx.clip();
    ctx.strokeStyle = ink("line");
    ctx.lineWidth = 2;
    for (let x = left - height; x < right; x += 9) {
      ctx.beginPath();
      ctx.moveTo(x, top + height);
      ctx.lineTo(x + height, top);
      ctx.stroke();
    }
    ctx.restore();
  };
  const plot = new uPlot({
    width: canvas.clientWidth || 600, height: 190, legend: { show: false },
    tzDate: (at) => (isUtc() ? uPlot.tzDate(new Date(at * 1e3), "UTC") : new Date(at * 1e3)),
    scales: { x: { time: true, range: [from, to] }, y: { range: [low, high + (high - low) * 0.06] } },
    cursor: { drag: { x: false, y: false }, points: { size: 7 } },
    axes: [
      { stroke: ink("quiet"), grid: { stroke: ink("line"), width: 1 }, ticks: { stroke: ink("line") }, values: axis(from, to) },
      { stroke: ink("quiet"), grid: { stroke: ink("line"), width: 1 }, ticks: { stroke: ink("line") }, size: 78, incrs: stepsOf(unit), values: (_, splits) => splits.map((value) => figure(value, unit)) },
    ],
    series: [
      {},
      { stroke: "transparent", points: { show: false } },
      { stroke: "transparent", points: { show: false } },
      { stroke: ink("link"), width: 2, points: { show: points.length < 40, size: 4 } },
    ],
    bands: [{ series: [1, 2], fill: `color-mix(in srgb, ${ink("link")} 22%, transparent)` }],
    hooks: {
      drawAxes: [(each) => {
        for (const [start, end] of gaps) hatch(each, each.valToPos(start, "x", true), each.valToPos(end, "x", true));
      }],
      draw: [(each) => {
        const { ctx } = each;
        const { left, width, top, height } = each.bbox;
        ctx.save();
        for (const [value, status] of lines) {
          const y = each.valToPos(value, "y", true);
          ctx.strokeStyle = ink(status);
          ctx.lineWidth = 1.5;
          ctx.setLineDash(isSolid ? [] : [6, 5]);
          ctx.beginPath();
          ctx.moveTo(left, y);
          ctx.lineTo(left + width, y);
          ctx.stroke();
        }
        ctx.setLineDash([2, 3]);
        ctx.font = `${Math.round(11 * devicePixelRatio)}px sans-serif`;
        for (const each_ of marks) {
          if (each_.at < from || each_.at > to) continue;
          const x = each.valToPos(each_.at, "x", true);
          ctx.strokeStyle = ctx.fillStyle = ink("quiet");
          ctx.beginPath();
          ctx.moveTo(x, top);
          ctx.lineTo(x, top + height);
          ctx.stroke();
          ctx.fillText(each_.letter, x + 3, top + 12 * devicePixelRatio);
        }
        ctx.restore();
      }],
      setCursor: [(each) => { said.textContent = tell(each.cursor.idx); }],
    },
  }, data, canvas);
  const tell = (index) => {
    if (index === null || index === undefined) return "";
    const at = data[0][index];
    if (data[3][index] === null) return `${moment(at)}: nothing known${causes?.(at) ? `, ${causes(at)}` : ""}`;
    const point = points.find((each) => each.at === at);
    const range = point.max > point.min ? ` (${figure(point.min, unit)} to ${figure(point.max, unit)})` : "";
    return `${moment(at)}: ${point.n > 1 ? "mean " : ""}${figure(point.mean, unit)}${range}${point.n > 1 ? `, n ${point.n}` : ""}`;
  };
  let at = data[0].length - 1;
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: data[0].length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    at = Math.max(0, Math.min(data[0].length - 1, moves[event.key]));
    plot.setCursor({ left: plot.valToPos(data[0][at], "x"), top: 20 });
    said.textContent = tell(at);
  });
  new ResizeObserver(() => { if (canvas.clientWidth) plot.setSize({ width: canvas.clientWidth, height: 190 }); }).observe(canvas);
  return plot;
}

// The same figures as a table, for readers who don't see the plot, and to copy.
function tableOf(name, unit, points) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = "As a table";
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const table = document.createElement("table");
    const caption = table.createCaption();
    caption.textContent = `${name}${unit ? ` (${unit})` : ""}`;
    const head = table.createTHead().insertRow();
    for (const text of ["time", "mean", "lowest", "highest", "n"]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = text;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const point of points.slice(-500).reverse()) {
      const row = body.insertRow();
      for (const text of [moment(point.at), point.mean, point.min, point.max, point.n]) row.insertCell().textContent = text;
    }
    const scroll = document.createElement("div");
    scroll.className = "scroll tall";
    scroll.tabIndex = 0;
    scroll.append(table);
    details.append(scroll);
  }, { passive: true });
  return details;
}
