"use strict";

/* A run as steps: what both pages show of it, the page of a result and the page of `explore`. */

/* Return, for each lane in order of appearance, its variables and their values after `count`
   steps; a variable that the last of these steps changed also has the value it had before. */
function stateAfter(finding, count) {
  const lanes = new Map(finding.lanes.map((lane) => [lane.name, new Map()]));
  const set = (change, before) => {
    if (!lanes.has(change.lane)) lanes.set(change.lane, new Map());
    lanes.get(change.lane).set(change.variable, { value: change.after, before });
  };
  finding.start.forEach((change) => set(change, null));
  finding.trace.slice(0, count).forEach((step, index) => {
    step.changes.forEach((change) => set(change, index === count - 1 ? change.before : null));
  });
  return lanes;
}

function holdsAfter(finding, count) {
  return count === 0 ? finding.start_holds : finding.trace[count - 1].holds;
}

/* A counterexample to induction starts in a state that need not be reachable. */
function startName(finding) {
  return finding.supposed ? "A supposed state" : "The initial state";
}

/* Paths may be broken after a slash or an underscore. */
function broken(text) {
  return text.split(/(?<=[/_])/);
}

function rowOf(step) {
  return step.parameters ? `${step.row}(${step.parameters})` : step.row;
}

/* Return the messages that the first `count` steps have sent and not lost, in the order in which
   they were sent first; `taken` is the number of the last step that has received it, or 0. */
function messagesAfter(finding, count) {
  const found = new Map();
  finding.trace.slice(0, count).forEach((step, index) => {
    if (step.received && found.has(step.received.message)) {
      found.get(step.received.message).taken = index + 1;
    }
    step.lost.forEach((arrow) => found.delete(arrow.message));
    step.sent.forEach((arrow) => {
      const { message, sender, receivers } = arrow;
      found.set(message, { message, sender, receivers, taken: 0 });
    });
  });
  return [...found.values()];
}

/* Below here everything touches the document, and text goes in by textContent alone. */

function make(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  for (const child of children) {
    node.append(typeof child === "string" ? document.createTextNode(child) : child);
  }
  return node;
}

function facts(step) {
  const nodes = [make("p", "row-name", rowOf(step)), make("p", "", step.lane)];
  if (step.fault) nodes.push(make("p", "fault", `fault: ${step.fault}`));
  if (step.trigger) nodes.push(make("p", "muted", step.trigger));
  if (step.why) nodes.push(make("p", "why", step.why));
  const place = broken(`${step.place.path}:${step.place.line}`);
  nodes.push(make("p", "place", ...place.flatMap((part) => [part, document.createElement("wbr")])));
  return nodes;
}

function messages(step) {
  const told = [];
  const line = (verb, arrow, peers) => make(
    "p", "message", make("span", "verb", `${verb} `), make("code", "", arrow.message), peers);
  const received = step.received;
  if (received) told.push(line("receives", received, ` from ${received.sender}`));
  const to = (arrow) => (arrow.receivers.length ? ` to ${arrow.receivers.join(", ")}` : "");
  step.sent.forEach((arrow) => told.push(line("sends", arrow, to(arrow))));
  step.lost.forEach((arrow) => told.push(line("loses", arrow, to(arrow))));
  return told.length ? [make("h3", "", "Messages"), ...told] : [];
}

function properties(holds) {
  const items = Object.entries(holds).map(
    ([name, value]) => make("li", value ? "yes" : "no",
      make("span", "", value ? name : `${name} does not hold`)));
  return items.length ? [make("h3", "", "Properties"), make("ul", "properties", ...items)] : [];
}

function state(finding, count) {
  const nodes = [make("h3", "", count ? "State after this step" : startName(finding))];
  for (const [lane, variables] of stateAfter(finding, count)) {
    if (!variables.size) continue;
    const list = make("dl", "state");
    for (const [variable, { value, before }] of variables) {
      const changed = before === null ? "" : "changed";
      const was = before ? [make("span", "before", `${before} → `)] : [];
      list.append(make("dt", changed, variable), make("dd", changed, ...was, value));
    }
    nodes.push(make("p", `lane-title ${finding.colours[lane] || "m0"}`, lane), list);
  }
  return nodes;
}

/* The messages on their way after `count` steps: those first that nobody has received yet. */
function inFlight(finding, count) {
  const sent = messagesAfter(finding, count);
  const item = (one) => make("li", one.taken ? "taken" : "",
    make("code", "", one.message),
    make("span", "muted", one.receivers.length ? ` to ${one.receivers.join(", ")}` : ""),
    make("small", "", one.taken ? `received in step ${one.taken}` : "not received yet"));
  const waiting = sent.filter((one) => !one.taken);
  const taken = sent.filter((one) => one.taken);
  if (!sent.length) return [];
  return [make("h3", "", "Messages sent so far"),
    make("ul", "in-flight", ...waiting.map(item), ...taken.map(item))];
}

/* Scroll the picture, and nothing else, until the band and the card of its row are in view. */
function reveal(band) {
  const scroller = band.closest(".scroller");
  const view = scroller.getBoundingClientRect();
  const header = scroller.querySelector(".lane-header").offsetHeight;
  const story = band.querySelector(".story").offsetWidth;
  const margin = 12;
  const needed = (low, high, from, to) => (
    low < from || high - low > to - from ? low - from : Math.max(0, high - to));
  const rows = band.getBoundingClientRect();
  scroller.scrollTop += needed(
    rows.top - margin, rows.bottom + margin, view.top + header, view.bottom);
  const card = band.querySelector(".card:not(.aside)");
  if (!card) return;
  const columns = card.getBoundingClientRect();
  scroller.scrollLeft += needed(
    columns.left - margin, columns.right + margin, view.left + story, view.right);
}
