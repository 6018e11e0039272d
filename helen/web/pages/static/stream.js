// Reads one event stream of Helen by fetch, so that its comments count as signs of life, and comes back with its last id.
const WAITS = [1, 2, 4, 8, 10];
export const SILENT_SECONDS = 12;

export class Stream {
  // tell(message): {type: "event", kind, id, data}, {type: "heard"}, or {type: "state", state, retry}
  constructor(tell) {
    this.tell = tell;
    this.query = null;
    this.lastId = "";
    this.rowsSince = null; // the look of the rows that a page has read, until frames say how far it has come
    this.tries = 0;
    this.abort = null;
  }

  // Opens the stream anew if another query is wanted; null closes it. The place in the events stays. With `since`, a
  // look, rows that were found after it come as well. Returns true if it is opened.
  want(query, since = null) {
    if (query === this.query) return false;
    this.query = query;
    this.rowsSince = since;
    this.abort?.abort();
    clearTimeout(this.timer);
    if (query !== null) this.open();
    return query !== null;
  }

  async open() {
    const query = this.query;
    const since = this.rowsSince ? `&rows_since=${this.rowsSince}` : "";
    this.abort = new AbortController();
    try {
      const answer = await fetch(`/api/v1/events${query}${since}`, {
        signal: this.abort.signal, cache: "no-store", credentials: "same-origin",
        headers: { accept: "text/event-stream", ...(this.lastId ? { "last-event-id": this.lastId } : {}) },
      });
      if (!answer.ok) {
        this.tell({ type: "state", state: answer.status === 401 ? "out" : "lost" });
        return this.again(query, Number(answer.headers.get("retry-after")) || 0);
      }
      this.tries = 0;
      this.tell({ type: "state", state: "live" });
      await this.readAll(answer.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch { /* cut, or another query is wanted */ }
    if (query === this.query) {
      this.tell({ type: "state", state: "lost" });
      this.again(query, 0);
    }
  }

  again(query, atLeast) {
    const wait = Math.max(atLeast, WAITS[Math.min(this.tries++, WAITS.length - 1)]);
    this.timer = setTimeout(() => { if (query === this.query && query !== null) this.open(); }, wait * 1000);
  }

  async readAll(reader) {
    let held = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.tell({ type: "heard" });
      held += value;
      const frames = held.split("\n\n");
      held = frames.pop();
      for (const frame of frames) this.take(frame);
    }
  }

  take(frame) {
    let kind = "message";
    let data = "";
    for (const line of frame.split("\n")) {
      if (line.startsWith("id: ")) {
        this.lastId = line.slice(4);
        this.rowsSince = null;
      } else if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (data) this.tell({ type: "event", kind, id: this.lastId, data: JSON.parse(data) });
  }
}

// Returns true if a page that wants {kinds, rows, results} is to be told of an event.
export function isWanted(want, kind) {
  return kind === "reset" || (want.kinds ?? []).includes(kind)
    || (Boolean(want.rows) && kind === "rows") || (Boolean(want.results) && kind === "result");
}

// The look of the rows that a page had when it began to listen; undefined if it shows none.
export const sinceOf = (wants) => wants.map((want) => want.since).find(Boolean);

// One query for what several pages want. A page may get more than it asked for, and passes over what is not its own.
export function union(wants) {
  if (!wants.length) return null;
  const query = new URLSearchParams();
  for (const kind of new Set(wants.flatMap((want) => want.kinds ?? []))) query.append("kind", kind);
  if (!query.size) query.append("kind", "none");
  const rows = wants.filter((want) => want.rows);
  if (rows.length) {
    query.append("view", "rows");
    if (rows.some((want) => want.rows === "all")) query.append("all", "1");
  }
  const results = wants.filter((want) => want.results).map((want) => want.results);
  if (results.length) {
    query.append("results", "1");
    for (const agent of [...new Set(results)].slice(0, 20)) query.append("result_of", agent);
  }
  query.sort();
  return `?${query}`;
}
