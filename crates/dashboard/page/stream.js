// A shared worker with one event stream for all tabs of a browser. A browser allows six connections to an origin, and
// each stream needs one.
"use strict";

const ports = new Set();
let source = null;
// The last message of each kind, for tabs that connect later.
let start = null;
let status = null;

function send(message) {
  for (const port of ports) port.postMessage(message);
}

function open() {
  source = new EventSource("/api/v1/events");
  source.addEventListener("start", (event) => send(start = { kind: "start", data: event.data }));
  source.addEventListener("status", (event) => send(status = { kind: "status", data: event.data }));
  source.addEventListener("error", () => {
    send(status = { kind: "lost" });
    if (source.readyState === EventSource.CLOSED) {
      // The server refused the connection; an immediate retry would not help.
      source = null;
      if (ports.size > 0) setTimeout(() => { if (ports.size > 0 && !source) open(); }, 5000);
    }
  });
}

self.addEventListener("connect", (event) => {
  const port = event.ports[0];
  ports.add(port);
  port.addEventListener("message", (message) => {
    if (message.data !== "leave") return;
    ports.delete(port);
    if (ports.size === 0 && source) {
      source.close();
      source = start = status = null;
    }
  });
  port.start();
  if (!source) open();
  if (start) port.postMessage(start);
  if (status) port.postMessage(status);
});
