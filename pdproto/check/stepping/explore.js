
/* The page of `pdproto explore`. The path is the address: "#ask(c0,r0);give(c0,r0)". The server
   keeps nothing between two questions, so a link, Back and Forward need no more than the path. */

const SEPARATOR = ";";
const EFFECTS_SHOWN = 4;
const seen = { view: null, selected: 0, allValues: false };
const byId = (id) => document.getElementById(id);

function pathOf(hash) {
  const text = decodeURIComponent(hash.replace(/^#/, ""));
  return text ? text.split(SEPARATOR) : [];
}

function hashOf(path) {
  const text = path.map((label) => label.replaceAll(" ", "")).join(SEPARATOR);
  return `#${encodeURI(text)}`;
}

async function ask(question, body) {
  const response = await fetch(`/api/${question}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error), { stale: response.status === 409 });
  return answer;
}

/* The way through the history: a step is an entry, which remembers the path before it. */

function go(path) {
  const hash = hashOf(path);
  if (hash === (location.hash || "#")) return;
  history.pushState({ from: location.hash || "#" }, "", hash);
  load();
}

function undo() {
  const path = seen.view ? seen.view.path : pathOf(location.hash);
  if (!path.length) return;
  const before = hashOf(path.slice(0, -1));
  if (history.state && history.state.from === before) history.back();
  else go(path.slice(0, -1));
}

/* Keys that are pressed while an answer is on its way wait for it: they mean the state to come. */
let latest = 0;
let loading = false;
const waiting = [];

async function load() {
  const number = ++latest;
  loading = true;
  try {
    const view = await ask("view", { path: pathOf(location.hash) });
    if (number !== latest) return;
    seen.view = view;
    seen.selected = 0;
    show();
  } catch (error) {
    if (number !== latest) return;
    failed(error);
  }
  loading = false;
  while (waiting.length && !loading) pressed(waiting.shift());
}

function failed(error) {
  seen.view = null;
  const back = button("Go to the initial state", () => go([]));
  byId("choices").replaceChildren(make("div", "broken-path",
    make("h2", "", error.stale ? "The system has changed" : "This path is not possible"),
    make("p", "", error.message), back));
  byId("picture").replaceChildren();
  byId("inspector").replaceChildren();
}

function button(text, action, className = "") {
  const node = make("button", className, text);
  node.type = "button";
  node.addEventListener("click", action);
  return node;
}

function toast(text) {
  const node = byId("toast");
  node.textContent = text;
  node.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => node.classList.remove("shown"), 5000);
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    toast(said);
  } catch {
    toast("The browser does not let this page copy: select the text, and copy it.");
  }
}

/* What can happen here. */

function show() {
  const view = seen.view;
  byId("undo").disabled = !view.path.length;
  document.title = document.title.replace(/ \(\d+\)$/, "")
    + (view.path.length ? ` (${view.path.length})` : "");
  byId("choices").replaceChildren(...choices(view));
  byId("inspector").replaceChildren(...inspector(view));
  showPicture(view);
  select(0);
}

const fires = (row) => row.changes;

function choices(view) {
  const able = view.enabled.filter(fires);
  const idle = view.enabled.filter((row) => !fires(row));
  const nodes = [make("h2", "", able.length
    ? `Can fire here (${able.length})` : "Nothing can change the state")];
  if (view.end === "final") nodes.push(make("p", "good-note", "A run may end here."));
  if (view.end === "stuck") {
    nodes.push(make("p", "bad-note", "Deadlock: only faults could change the state, and no run may end here."));
  }
  nodes.push(...byLane(able));
  if (idle.length) {
    nodes.push(folded(`Can fire, and changes nothing (${idle.length})`, "idle",
      idle.map((row) => make("li", "", make("code", "", row.label), about(row)))));
  }
  if (view.disabled.length) {
    nodes.push(folded(`Cannot fire here (${view.disabled.length})`, "disabled",
      view.disabled.map(disabled)));
  }
  return nodes;
}

/* Rows of one process stand together; the numbers go on from one process to the next. */
function byLane(rows) {
  const lanes = new Map();
  rows.forEach((row) => lanes.set(row.lane, [...(lanes.get(row.lane) || []), row]));
  let number = 0;
  return [...lanes].flatMap(([lane, own]) => [
    make("h3", `lane-title ${own[0].colour}`, lane),
    ...own.map((row) => choice(row, number++)),
  ]);
}

function choice(row, index) {
  const node = button("", () => fire(row.label), `choice ${row.colour}`);
  node.dataset.label = row.label;
  node.title = row.place;
  const head = make("span", "choice-head",
    make("kbd", "", index < 9 ? String(index + 1) : "·"), make("code", "row", row.label));
  const told = [...row.effects];
  if (row.sends.length) told.push(`sends ${row.sends.join(", ")}`);
  if (row.loses.length) told.push(`loses ${row.loses.join(", ")}`);
  node.append(head, about(row), ...told.slice(0, EFFECTS_SHOWN).map((text) => make("span", "effect", text)));
  if (told.length > EFFECTS_SHOWN) {
    node.append(make("span", "effect muted", `and ${told.length - EFFECTS_SHOWN} more`));
  }
  if (row.why) node.append(make("span", "why", row.why));
  node.addEventListener("focus", () => mark(index));
  return node;
}

function about(row) {
  const node = make("span", "about");
  if (row.fault) node.append(make("span", "fault", `fault: ${row.fault}`), " ");
  node.append(row.trigger);
  return node;
}

function disabled(row) {
  const item = make("li", "", make("code", "", row.label),
    make("span", `machine ${row.colour}`, ` ${row.lane}`),
    make("ul", "failing", ...row.failing.map((one) => make("li", "",
      make("code", "", one.text), one.now ? make("span", "muted", `, but ${one.now}`) : ""))));
  if (row.others) {
    const more = button(
      row.others === 1 ? "1 other instance" : `${row.others} other instances`,
      () => instances(row, more), "more");
    item.append(more);
  }
  return item;
}

async function instances(row, more) {
  const answer = await ask("why", { path: seen.view.path, row: row.name });
  const others = answer.instances.filter((one) => one.label !== row.label);
  more.replaceWith(make("ul", "others", ...others.map((one) => disabled({ ...one, others: 0 }))));
}

function folded(title, name, items) {
  const node = make("details", name, make("summary", "", title), make("ul", "", ...items));
  node.open = sessionStorage.getItem(name) === "open";
  node.addEventListener("toggle", () => sessionStorage.setItem(name, node.open ? "open" : ""));
  return node;
}

const buttons = () => [...document.querySelectorAll("#choices .choice")];

function mark(index) {
  seen.selected = index;
  buttons().forEach((node, at) => node.classList.toggle("current", at === index));
}

function select(index, focus = false) {
  const nodes = buttons();
  if (!nodes.length) return;
  const at = Math.max(0, Math.min(index, nodes.length - 1));
  mark(at);
  if (focus) nodes[at].focus();
}

function fire(label) {
  go([...seen.view.path, label]);
}

/* The picture of the path: the very markup of the page of a result. */

function showPicture(view) {
  const parsed = new DOMParser().parseFromString(view.picture, "text/html");
  const picture = byId("picture");
  picture.replaceChildren(...parsed.body.children);
  const bands = [...picture.querySelectorAll(".band")];
  bands.forEach((band, step) => {
    band.classList.toggle("selected", step === view.path.length);
    band.addEventListener("click", (event) => {
      event.preventDefault();
      go(view.path.slice(0, step));
    });
  });
  if (bands.length) reveal(bands[bands.length - 1]);
}

/* The state: its last step, its properties, its messages, its values. */

function inspector(view) {
  const count = view.path.length;
  const step = count ? view.finding.trace[count - 1] : null;
  return [
    make("p", "muted position", count ? `After ${count === 1 ? "1 step" : `${count} steps`}` : "At the start"),
    ...(step ? facts(step) : [make("p", "row-name", "The initial state")]),
    ...standings(view),
    ...inFlight(view.finding, count),
    ...values(view),
  ];
}

const MARKS = {
  holds: "✓", violated: "✗", seen: "✓", "not seen yet": "○", owed: "…", "nothing owed": "✓",
};

/* What fails or is awaited comes first; many that simply hold are folded. */
const ORDER = ["violated", "owed", "not seen yet", "seen", "holds", "nothing owed"];
const SHOWN_MAX = 12;

function standings(view) {
  const rank = (one) => ORDER.indexOf(one.stands);
  const sorted = [...view.properties].sort((a, b) => rank(a) - rank(b));
  const plain = sorted.filter((one) => rank(one) >= ORDER.indexOf("holds") && !one.because.length);
  const folds = sorted.length > SHOWN_MAX && plain.length > 1;
  const told = folds ? sorted.filter((one) => !plain.includes(one)) : sorted;
  const nodes = [make("h3", "", "Properties"), make("ul", "standings", ...told.map(standing))];
  if (folds) {
    const rest = folded(`${plain.length} hold`, "holding", plain.map(standing));
    rest.querySelector("ul").className = "standings";
    nodes.push(rest);
  }
  return nodes;
}

function standing(one) {
  const told = one.stands === "holds" ? "" : one.stands;
  const item = make("li", one.stands.replaceAll(" ", "-"),
    make("span", "mark", MARKS[one.stands]),
    make("div", "", make("b", "", ...broken(one.name).flatMap((part) => [part, document.createElement("wbr")])),
      told ? make("small", "", told) : "",
      ...one.because.map((text) => make("p", "because", ...whole(text)))));
  item.title = [one.claim, one.why].filter(Boolean).join("\n");
  if (one.kind !== "leads_to" && !["violated", "seen"].includes(one.stands)) {
    const words = one.kind === "sometimes" ? "the way to it" : "the way to a violation";
    const find = button("→", () => findWay({ claim: one.name }), "find");
    find.title = `Find ${words}`;
    find.setAttribute("aria-label", `${one.name}: find ${words}`);
    item.append(find);
  }
  return item;
}

/* A line is broken between two values, and not within one. */
function whole(text) {
  const parts = text.split(/(?<=[,:]) (?![^()]*\))/);
  return parts.flatMap((part) => [make("span", "value", part), " "]);
}

function values(view) {
  const shown = (cell) => seen.allValues || cell.main || !cell.initial || cell.before !== null;
  const hidden = view.state.flatMap((lane) => lane.cells).filter((cell) => !shown(cell)).length;
  const nodes = [make("h3", "", "State")];
  for (const { lane, colour, cells } of view.state) {
    const list = make("dl", "state");
    cells.filter(shown).forEach((cell) => {
      const changed = cell.before === null ? "" : "changed";
      const was = cell.before === null ? [] : [make("span", "before", `${cell.before} → `)];
      list.append(make("dt", changed, cell.name), make("dd", changed, ...was, cell.value));
    });
    if (list.children.length) nodes.push(make("p", `lane-title ${colour}`, lane), list);
  }
  if (hidden || seen.allValues) {
    const rest = nodes.length > 1 ? `${hidden} more` : hidden;
    nodes.push(button(seen.allValues ? "Hide initial values" : `${rest} with the initial value`,
      toggleValues, "more"));
  }
  return nodes;
}

function toggleValues() {
  seen.allValues = !seen.allValues;
  if (seen.view) byId("inspector").replaceChildren(...inspector(seen.view));
}

/* Finding a way, the map, the test. */

async function findWay(target) {
  toast("Searching ...");
  const path = seen.view.path;
  const answer = await ask("way", { path, ...target });
  const states = answer.states === 1 ? "1 state" : `${answer.states.toLocaleString("en")} states`;
  if (answer.way === null) {
    toast(answer.complete
      ? `There is no way from here: all ${states} that can be reached were searched.`
      : `No way was found within ${states}.`);
  } else if (!answer.way.length) {
    toast("This state is such a state.");
  } else {
    toast(`The shortest way has ${answer.way.length === 1 ? "1 step" : `${answer.way.length} steps`}. Back returns.`);
    go([...path, ...answer.way]);
  }
}

async function submitFormula(event) {
  event.preventDefault();
  const formula = byId("formula").value.trim();
  if (!formula) return;
  byId("find-error").textContent = "";
  try {
    await findWay({ formula });
    byId("find-dialog").close();
  } catch (error) {
    byId("toast").classList.remove("shown");
    byId("find-error").textContent = error.message;
  }
}

const MAP_SMALL = 60;
const MAP_LARGE = 200;

async function openMap(states = MAP_SMALL) {
  if (!byId("map-dialog").open) byId("map-dialog").showModal();
  byId("map-body").replaceChildren(make("p", "muted", "Searching ..."));
  const answer = await ask("map", { path: seen.view.path, states });
  byId("map-body").replaceChildren(...drawnMap(answer, hashOf));
  const scroller = byId("map-body").querySelector(".map-scroller");
  scroller.scrollTop = (scroller.scrollHeight - scroller.clientHeight) / 2;
  if (!answer.complete && states < MAP_LARGE) {
    byId("map-body").append(button(`Show up to ${MAP_LARGE}`, () => act(() => openMap(MAP_LARGE)), "more"));
  }
  byId("map-body").querySelectorAll("a").forEach((link) => {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      byId("map-dialog").close();
      go(pathOf(link.getAttribute("href")));
    });
  });
}

function openTest() {
  byId("test-body").textContent = seen.view.test;
  byId("test-dialog").showModal();
}

const TOOLS = {
  undo,
  find: () => { byId("find-dialog").showModal(); byId("formula").select(); },
  map: () => openMap(),
  test: openTest,
  link: () => copy(location.href, "The link to this state is copied."),
  keys: () => byId("help").showModal(),
};

function toggle(name) {
  const node = document.querySelector(`details.${name}`);
  if (node) node.open = !node.open;
}

const MEANT = /^([1-9jkufmtdvc/?]|Arrow(Up|Down)|Enter|Backspace|Home)$/;

/* Return whether the key means something here. */
function pressed(key) {
  if (key === "?") return act(TOOLS.keys);
  if (!seen.view) return false;
  if (/^[1-9]$/.test(key)) {
    const node = buttons()[Number(key) - 1];
    return node ? act(() => fire(node.dataset.label)) : false;
  }
  switch (key) {
    case "ArrowDown": case "j": return act(() => select(seen.selected + 1, true));
    case "ArrowUp": case "k": return act(() => select(seen.selected - 1, true));
    case "Enter": {
      const node = buttons()[seen.selected];
      return node ? act(() => fire(node.dataset.label)) : false;
    }
    case "u": case "Backspace": return act(undo);
    case "Home": return act(() => go([]));
    case "/": case "f": return act(TOOLS.find);
    case "m": return act(TOOLS.map);
    case "t": return act(openTest);
    case "d": return act(() => toggle("disabled"));
    case "v": return act(toggleValues);
    case "c": return act(TOOLS.link);
    default: return false;
  }
}

function act(action) {
  const done = action();
  if (done instanceof Promise) done.catch((error) => toast(error.message));
  return true;
}

function start() {
  for (const [id, action] of Object.entries(TOOLS)) {
    byId(id).addEventListener("click", () => act(action));
  }
  document.querySelectorAll("dialog .close").forEach((node) => {
    node.addEventListener("click", () => node.closest("dialog").close());
  });
  byId("find-form").addEventListener("submit", submitFormula);
  byId("test-copy").addEventListener("click", () => copy(byId("test-body").textContent, "The test is copied."));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const open = document.querySelector("dialog[open]");
    if (open) {
      if (event.key === "?" && open.id === "help") open.close();
      return;
    }
    const inControl = event.target.closest("button:not(.choice), summary, a, input");
    if (inControl && (event.key === "Enter" || event.key === " ")) return;
    if (!MEANT.test(event.key)) return;
    if (loading) waiting.push(event.key);
    if (loading || pressed(event.key)) event.preventDefault();
  });
  addEventListener("popstate", load);
  load();
}

start();
