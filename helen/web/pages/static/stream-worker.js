// Holds the one event stream of this browser, for all of its tabs.
import { isWanted, Stream, union } from "./stream.js";

const ports = new Map();
let state = { type: "state", state: "connecting" };
const stream = new Stream((message) => {
  if (message.type === "state") state = message;
  for (const [port, wants] of ports) {
    if (message.type !== "event" || wants.some((want) => isWanted(want, message.kind))) port.postMessage(message);
  }
});

function renew() { stream.want(union([...ports.values()].flat())); }

self.onconnect = ({ ports: [port] }) => {
  ports.set(port, []);
  port.onmessage = ({ data }) => {
    if (data.type === "gone") ports.delete(port);
    else ports.set(port, data.wants);
    renew();
  };
  port.postMessage(state);
};
