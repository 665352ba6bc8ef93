
/* The map: the states around one, in columns by their distance, as links that the keyboard reaches. */

/* Lengths in pixels; `text` in characters, of which one is `letter` wide. */
const MAP = { column: 220, row: 26, left: 24, top: 24, radius: 7, text: 22, letter: 6.7 };

/* Return the nodes of each distance in an order that keeps each near those that lead to it. */
function columnsOf(nodes, edges) {
  const columns = [];
  const place = new Map();
  nodes.forEach((node, number) => {
    (columns[node.depth] = columns[node.depth] || []).push(number);
  });
  columns.forEach((column, depth) => {
    if (depth) {
      const weight = new Map(column.map((number) => {
        const from = edges.filter(([a, b]) => b === number && nodes[a].depth === depth - 1);
        return [number, from.reduce((sum, [a]) => sum + place.get(a), 0) / Math.max(1, from.length)];
      }));
      column.sort((a, b) => weight.get(a) - weight.get(b));
    }
    column.forEach((number, at) => place.set(number, at));
  });
  return columns;
}

function svg(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shortened(text) {
  return text.length > MAP.text ? `${text.slice(0, MAP.text - 1)}…` : text;
}

function drawnMap(map, hashOf) {
  const columns = columnsOf(map.nodes, map.edges);
  const tallest = Math.max(...columns.map((column) => column.length));
  const height = MAP.top * 2 + (tallest - 1) * MAP.row;
  const width = MAP.left + columns.length * MAP.column;
  const at = new Map();
  columns.forEach((column, depth) => column.forEach((number, index) => at.set(number, {
    x: MAP.left + depth * MAP.column,
    y: height / 2 + (index - (column.length - 1) / 2) * MAP.row,
  })));
  map.nodes.forEach((node, number) => {
    const place = at.get(number);
    place.end = place.x + MAP.radius + 9 + shortened(node.label).length * MAP.letter;
  });
  const lines = map.edges.map(([from, to, label]) => edge(at.get(from), at.get(to), label));
  const dots = map.nodes.map((node, number) => dot(node, at.get(number), hashOf));
  const told = map.complete
    ? `All ${map.nodes.length} states that can be reached from here.`
    : `The nearest ${map.nodes.length} states; a dashed circle leads further.`;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "map" },
    ...lines, ...dots);
  return [make("p", "muted", told, " Choose one to go there."), make("div", "map-scroller", picture)];
}

/* An edge to the next column begins behind the label, so that it strikes none through. */
function edge(from, to, label) {
  const forward = to.x > from.x;
  const bend = forward ? (to.x - from.end) / 2 : 40;
  const curve = forward
    ? `M${from.end} ${from.y} C${from.end + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`
    : `M${from.x} ${from.y} C${from.x + bend} ${from.y - bend} ${to.x - bend} ${to.y - bend} ${to.x} ${to.y}`;
  const path = svg("path", { d: curve, class: forward ? "edge" : "edge back" });
  path.append(svg("title", {}, label));
  return path;
}

function dot(node, place, hashOf) {
  const classes = ["node", node.depth ? "" : "here", node.violated.length ? "violated" : "",
    node.cut ? "cut" : ""].filter(Boolean).join(" ");
  const told = [node.path.length ? `after ${node.path[node.path.length - 1]}` : "the initial state",
    node.depth ? `${node.depth} from here` : "here", ...node.violated.map((name) => `✗ ${name}`)];
  return svg("a", { href: hashOf(node.path), class: classes, "aria-label": told.join(", ") },
    svg("title", {}, told.join("\n")),
    svg("circle", { cx: place.x, cy: place.y, r: MAP.radius }),
    svg("text", { x: place.x + MAP.radius + 5, y: place.y + 4 }, shortened(node.label)));
}
