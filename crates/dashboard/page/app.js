// The live view. Text from the web is set as text; nothing here parses markup.
"use strict";

const OUTCOMES = [
  ["ok", "ok"], ["not_modified", "not modified"], ["redirect", "redirects"], ["http_error", "HTTP errors"],
  ["failed", "failed"], ["robots", "robots.txt"], ["refused", "refused"],
];
const WAITS = {
  crawl_delay: "Crawl-delay", delay: "delay", retry_after: "Retry-After", back_off: "back-off", retry: "retry",
  rate: "rate limit", responses: "responses", dns: "DNS",
};
const WIDTHS = {
  opening: "opening", limit: "at its limit", gentle: "gentle pace", crawl_delay: "Crawl-delay",
  machine: "this machine is the bottleneck", no_gain: "more requests make the host slower",
  slower: "the host became slower", refused: "the host refused more (429 or 503)", errors: "resets or time-outs",
};
const SVG = "http://www.w3.org/2000/svg";
const CHART_POINTS = 1440;

const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const setText = (id, text) => { const node = byId(id); if (node.textContent !== text) node.textContent = text; };

function formatBytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) { count /= 1000; unit += 1; }
  return `${unit === 0 ? whole.format(count) : short.format(count)} ${units[unit]}`;
}

/** Seconds as hours, minutes and seconds. */
function formatClock(seconds) {
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  return `${hours > 0 ? `${hours}:` : ""}${two((seconds / 60) % 60)}:${two(seconds % 60)}`;
}

function formatDuration(seconds) {
  return seconds < 1 ? `${whole.format(seconds * 1000)} ms` : `${short.format(seconds)} s`;
}

function svgNode(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// --- the view ---

let samples = [];
let status = null;

function show(next) {
  status = next;
  const running = status !== null;
  for (const id of ["pause", "resume", "stop", "pace", "rate", "exclude"]) byId(id).disabled = !running;
  for (const button of document.querySelectorAll(".controls form button")) button.disabled = !running;
  const badge = byId("state");
  const state = running ? status.state : "not running";
  if (badge.textContent !== state) { badge.textContent = state; badge.className = `badge ${state}`; }
  byId("ended").hidden = running;
  if (!running) return;
  byId("pause").disabled = status.state !== "running";
  byId("resume").disabled = status.state !== "paused";
  byId("stop").disabled = status.state === "draining";
  const { outcomes } = status;
  setText("elapsed", formatClock(status.elapsed_seconds));
  setText("pages", whole.format(status.pages));
  setText("speed", short.format(status.pages_per_second));
  setText("in-flight", whole.format(status.in_flight));
  setText("queued", whole.format(status.queued));
  setText("hosts", whole.format(status.hosts));
  setText("bytes", formatBytes(status.bytes));
  setText("memory", status.memory_bytes > 0 ? formatBytes(status.memory_bytes) : "–");
  setText("disk", status.disk_bytes > 0 ? formatBytes(status.disk_bytes) : "–");
  const { waiting } = status;
  const next_in = waiting && waiting.next_in_seconds > 0 ? `, next request in ${formatDuration(waiting.next_in_seconds)}` : "";
  setText("waiting", waiting ? `Waiting for ${waiting.host}: ${WAITS[waiting.reason] ?? waiting.reason}${next_in}` : "");
  if (document.activeElement !== byId("pace")) byId("pace").value = status.pace;
  byId("rate").placeholder = status.rate === undefined ? "no limit" : short.format(status.rate);
  showOutcomes(outcomes);
  showHosts(status.busiest);
  showErrors(status.errors);
  showExcludes(status.excludes);
  showFleet(status.fleet);
  samples.push({ at: status.elapsed_seconds, speed: status.pages_per_second });
  // Beyond the limit, every other sample is dropped.
  if (samples.length > CHART_POINTS) samples = samples.filter((_, index) => index % 2 === 1);
  showChart();
}

function showOutcomes(outcomes) {
  const total = OUTCOMES.reduce((sum, [key]) => sum + outcomes[key], 0) || 1;
  let x = 0;
  const parts = [];
  const list = byId("outcomes");
  for (const [key, words] of OUTCOMES) {
    const width = (outcomes[key] / total) * 1000;
    if (width > 0) parts.push(svgNode("rect", { class: key, x, y: 0, width, height: 24 }));
    x += width;
    let item = list.querySelector(`[data-key="${key}"]`);
    if (!item) {
      item = document.createElement("li");
      item.dataset.key = key;
      const swatch = document.createElement("span");
      swatch.className = `swatch ${key}`;
      const label = document.createElement("span");
      label.textContent = words;
      item.append(swatch, label, document.createElement("b"));
      list.append(item);
    }
    item.lastChild.textContent = whole.format(outcomes[key]);
  }
  byId("bar").replaceChildren(...parts);
}

/** Gives the table body one row per entry, and calls `fill` to write its cells. */
function fillRows(body, entries, columns, fill) {
  while (body.rows.length > entries.length) body.deleteRow(-1);
  entries.forEach((entry, index) => {
    let row = body.rows[index];
    if (!row) {
      row = body.insertRow();
      for (const kind of columns) row.insertCell().className = kind;
    }
    fill(row.cells, entry);
  });
}

/** Sets the text of an element, unless it is the same: an unchanged element is not laid out again. */
function put(cell, text) {
  if (cell.textContent !== text) cell.textContent = text;
}

function showHosts(hosts) {
  fillRows(byId("host-rows"), hosts, ["", "n", "n", "", "n", "n", "", ""], (cells, host) => {
    put(cells[0], host.host);
    put(cells[1], whole.format(host.in_flight));
    put(cells[2], whole.format(host.width));
    const cap = host.rate_cap === undefined ? "" : `; at most ${short.format(host.rate_cap)} a second`;
    put(cells[3], `${WIDTHS[host.width_reason] ?? host.width_reason}${cap}`);
    put(cells[4], whole.format(host.queued));
    put(cells[5], host.mean_ttfb_seconds === undefined ? "–" : formatDuration(host.mean_ttfb_seconds));
    const wait = host.next_in_seconds > 0 ? `, ${formatDuration(host.next_in_seconds)}` : "";
    put(cells[6], host.reason ? `${WAITS[host.reason] ?? host.reason}${wait}` : "");
    let button = cells[7].firstChild;
    if (!button) {
      button = document.createElement("button");
      button.type = "button";
      button.textContent = "Exclude";
      // The row may show another host by the time of the click, so the question names the host.
      button.addEventListener("click", () => excludeHost(button.dataset.host));
      cells[7].append(button);
    }
    button.dataset.host = host.host;
    button.setAttribute("aria-label", `Exclude ${host.host}`);
  });
}

function showErrors(errors) {
  byId("no-errors").hidden = errors.length > 0;
  fillRows(byId("error-rows"), errors, ["n", "", "url"], (cells, error) => {
    put(cells[0], formatClock(error.at_seconds));
    put(cells[1], error.kind ?? (error.status === undefined ? error.outcome : String(error.status)));
    put(cells[2], error.url);
  });
}

function showExcludes(excludes) {
  byId("excludes-section").hidden = excludes.length === 0;
  const list = byId("excludes");
  while (list.children.length > excludes.length) list.lastChild.remove();
  excludes.forEach((pattern, index) => {
    const item = list.children[index] ?? list.appendChild(document.createElement("li"));
    put(item, pattern);
  });
}

/** Shows the processes that share the crawl. Hidden if one process crawls alone. */
function showFleet(fleet) {
  byId("fleet-section").hidden = fleet === undefined;
  if (fleet === undefined) return;
  const owned = fleet.buckets - fleet.free_buckets;
  const round = fleet.round > 1 ? `Round ${whole.format(fleet.round)}. ` : "";
  setText("fleet", `${round}${short.format(fleet.pages_per_second)} pages a second in all; ${whole.format(fleet.queued)} URLs queued, ${whole.format(fleet.leased)} leased, ${whole.format(fleet.settled)} settled; ${whole.format(owned)} of ${whole.format(fleet.buckets)} buckets have an owner.`);
  fillRows(byId("process-rows"), fleet.processes, ["", "n", "n", "n", "n", ""], (cells, process) => {
    put(cells[0], process.is_this ? `${process.id} (this one)` : process.id);
    put(cells[1], whole.format(process.buckets));
    put(cells[2], whole.format(process.pages));
    put(cells[3], short.format(process.pages_per_second));
    put(cells[4], `${formatDuration(process.silent_seconds)} ago`);
    const resting = process.resting > 0 ? `${whole.format(process.resting)} hosts in back-off` : "";
    put(cells[5], process.stalled ?? (process.silent_seconds > 5 ? "silent" : resting));
  });
}

function showChart() {
  const chart = byId("chart");
  if (samples.length < 2) return;
  // One unit is one pixel, so that the text keeps its size on narrow screens.
  const width = Math.max(280, chart.clientWidth);
  chart.setAttribute("viewBox", `0 0 ${width} 180`);
  const [left, right, top, bottom] = [48, width - 8, 8, 156];
  const first = samples[0].at;
  const last = Math.max(samples[samples.length - 1].at, first + 1);
  const maxSpeed = Math.max(1, ...samples.map((sample) => sample.speed));
  const x = (at) => left + ((at - first) / (last - first)) * (right - left);
  const y = (speed) => bottom - (speed / maxSpeed) * (bottom - top);
  const points = samples.map((sample) => `${x(sample.at).toFixed(1)},${y(sample.speed).toFixed(1)}`);
  chart.replaceChildren(
    svgNode("line", { class: "grid", x1: left, x2: right, y1: bottom, y2: bottom }),
    svgNode("line", { class: "grid", x1: left, x2: right, y1: top, y2: top }),
    svgNode("text", { x: left - 6, y: bottom + 4, "text-anchor": "end" }, "0"),
    svgNode("text", { x: left - 6, y: top + 8, "text-anchor": "end" }, short.format(maxSpeed)),
    svgNode("text", { x: left, y: 174 }, formatClock(first)),
    svgNode("text", { x: right, y: 174, "text-anchor": "end" }, formatClock(last)),
    svgNode("polygon", { class: "area", points: `${x(first)},${bottom} ${points.join(" ")} ${x(last)},${bottom}` }),
    svgNode("polyline", { class: "curve", points: points.join(" ") }),
  );
}

// --- the stream ---

function receive({ kind, data }) {
  if (kind === "start") {
    const start = JSON.parse(data);
    setText("name", `Crawl of ${start.name}`);
    setText("version", `Argiope ${start.version}`);
    document.title = `${start.name}: live crawl`;
    samples = start.samples.map((sample) => ({ at: sample.at_seconds, speed: sample.pages_per_second }));
  } else if (kind === "status") {
    show(JSON.parse(data));
  } else {
    const badge = byId("state");
    badge.textContent = "connection lost";
    badge.className = "badge";
  }
}

function connect() {
  if (typeof SharedWorker === "function") {
    const worker = new SharedWorker("/stream.js");
    worker.port.addEventListener("message", (message) => receive(message.data));
    worker.port.start();
    addEventListener("pagehide", () => worker.port.postMessage("leave"));
    // A page that is restored from the browser's cache has left the stream.
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  } else {
    const source = new EventSource("/api/v1/events");
    for (const kind of ["start", "status"]) {
      source.addEventListener(kind, (event) => receive({ kind, data: event.data }));
    }
    source.addEventListener("error", () => receive({ kind: "lost" }));
  }
}

// --- controls ---

/** Shows a message below the controls. */
function showMessage(text, isError) {
  const message = byId("message");
  message.textContent = text;
  message.classList.toggle("wrong", isError);
}

async function control(change) {
  try {
    const response = await fetch("/api/v1/control", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(change),
    });
    const answer = await response.json();
    showMessage(response.ok ? answer.done : answer.error, !response.ok);
  } catch {
    showMessage("The crawl could not be reached.", true);
  }
}

/** Shows the dialog with a question. Resolves to whether the user confirms. */
function confirmByUser(question) {
  const dialog = byId("confirm");
  setText("question", question);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

async function excludeHost(host) {
  if (await confirmByUser(`Fetch nothing from ${host} from now on?`)) control({ action: "exclude_host", host });
}

byId("pause").addEventListener("click", () => control({ action: "pause" }));
byId("resume").addEventListener("click", () => control({ action: "resume" }));
byId("stop").addEventListener("click", async () => {
  if (await confirmByUser("Stop the crawl? The same command resumes it.")) control({ action: "stop" });
});
byId("pace").addEventListener("change", (event) => control({ action: "pace", pace: event.target.value }));
byId("rate-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("rate").value.trim();
  if (text !== "" && !/^[0-9]*\.?[0-9]+(\/[smh])?$/.test(text)) {
    showMessage("Write a rate such as 5 or 30/m, or nothing for no limit.", true);
    return;
  }
  control({ action: "rate", rate: text === "" ? null : /\//.test(text) ? text : `${text}/s` });
  byId("rate").value = "";
});
byId("exclude-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const pattern = byId("exclude").value.trim();
  if (pattern === "") return;
  if (await confirmByUser(`Fetch no URL that matches ${pattern} from now on?`)) {
    control({ action: "exclude", pattern });
    byId("exclude").value = "";
  }
});
byId("explain-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const box = byId("explanation");
  box.hidden = false;
  box.textContent = "…";
  try {
    const response = await fetch(`/api/v1/explain?url=${encodeURIComponent(byId("explain-url").value)}`);
    const answer = await response.json();
    box.textContent = response.ok ? answer.text : answer.error;
  } catch {
    box.textContent = "The crawl could not be reached.";
  }
});

connect();
