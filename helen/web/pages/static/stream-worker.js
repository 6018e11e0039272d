// Holds the one event stream of this browser, for all of its tabs.
import { isWanted, sinceOf, Stream, union } from "./stream.js";

const MOST_KEPT = 40;  // frames of rows, ten seconds of them: for a tab that has read its rows and listens only now
const ports = new Map();  // what each tab wants; null: it has not said so yet
const kept = [];
let floor = null;  // the look after which all frames are kept; null: it is not known
let state = { type: "state", state: "connecting" };
const stream = new Stream((message) => {
  if (message.type === "state") state = message;
  if (message.type === "event") keep(message);
  for (const [port, wants] of ports) {
    if (message.type !== "event" || wants?.some((want) => isWanted(want, message.kind))) port.postMessage(message);
  }
});

function keep(message) {
  if (message.kind === "rows") {
    kept.push(message);
    if (kept.length > MOST_KEPT) floor = kept.shift().data.look;
  } else if (message.kind === "reset") {
    kept.length = 0;
    floor = null;
  }
}

function renew(since = null) {
  const isOpened = stream.want(union([...ports.values()].filter(Boolean).flat()), since);
  if (!isOpened) return false;
  kept.length = 0;
  floor = since;
  return true;
}

// A look is RUN.NUMBER; those of another run of Helen are never known here.
function isAfter(look, other) {
  const [[run, number], [otherRun, otherNumber]] = [look.split("."), other.split(".")];
  return run === otherRun && Number(number) > Number(otherNumber);
}

// Tells a new tab what has come since its rows were read; one that was made too long ago has to read them anew.
function tellMissed(port, since) {
  if (floor === null || (floor !== since && !isAfter(since, floor))) {
    port.postMessage({ type: "event", kind: "reset", id: stream.lastId, data: { why: "the page was made too long ago" } });
    return;
  }
  for (const message of kept) if (isAfter(message.data.look, since)) port.postMessage(message);
}

self.onconnect = ({ ports: [port] }) => {
  ports.set(port, null);
  port.onmessage = ({ data }) => {
    if (data.type === "gone") {
      ports.delete(port);
      renew();
      return;
    }
    const since = ports.get(port) ? undefined : sinceOf(data.wants);
    ports.set(port, data.wants);
    if (!renew(since) && since) tellMissed(port, since);
  };
  port.postMessage(state);
};
