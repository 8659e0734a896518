// Draws one tree as SVG. All trees of a recording have the same layout; each shows its own numbers.

import { make, makeSvg, setAttribute, setText } from "/shared/dom.js";
import { BOX_HEIGHT, shortName } from "./layout.js";
import { edgeValue, moveLine, playerName, viewOfMover } from "./replay.js";
import { formatCount, formatExact, formatShort } from "./tables.js";

const MARK_SYMBOLS = { new: "✚", taken: "◆", outside: "⊘" };
const MARK_WORDS = { new: "new node", taken: "taken over by the later tree", outside: "outside the window" };
let treeViews = 0;

// Makes the drawing of a tree. `on` has the listeners `select(index)`, `hover(index)`, `open(parent)`
// and `key(event, view)`.
export function makeTreeView(replay, tree, name, camera, on) {
  const world = makeSvg("g", {});
  const svg = makeSvg("svg", { class: "dv-tree", role: "tree", tabindex: "0", "aria-label": `${name}: arrow keys choose a node` }, world);
  const view = { replay, tree, camera, svg, world, boxes: new Map(), layout: null, number: treeViews++ };
  view.place = () => setAttribute(world, "transform", `translate(${camera.x} ${camera.y}) scale(${camera.scale})`);
  camera.listeners.add(view.place);
  const itemAt = (event) => view.layout?.byKey.get(event.target.closest("[data-key]")?.dataset.key);
  svg.addEventListener("click", (event) => {
    const item = itemAt(event);
    if (item?.isSummary) on.open(item.parent);
    else if (item) on.select(item.node);
  });
  svg.addEventListener("pointerover", (event) => on.hover(itemAt(event)?.node ?? -1));
  svg.addEventListener("pointerleave", () => on.hover(-1));
  svg.addEventListener("keydown", (event) => on.key(event, view));
  return view;
}

export function sizeOfView(view) {
  return { width: view.svg.clientWidth || 600, height: view.svg.clientHeight || 400 };
}

// Places the boxes and edges of a new layout; `updateTree` fills the boxes.
export function setLayout(view, layout) {
  view.layout = layout;
  view.boxes = new Map(layout.items.map((item) => [item.key, makeBox(view, item)]));
  const boxes = [...view.boxes.values()];
  view.world.replaceChildren(makeSvg("g", {}, boxes.map(({ edge }) => edge)), makeSvg("g", {}, boxes.map(({ group }) => group)));
  view.place();
}

// Returns { group, edge, fill(content), shown }: the elements, and the content filled in last.
function makeBox(view, item) {
  const { children, fill } = item.isSummary ? makeSummary(view) : makeNode(view, item);
  const group = makeSvg("g", {
    id: `dv-${view.number}-${item.key}`, transform: `translate(${item.x} ${item.y})`, "data-key": item.key,
    "data-node": item.isSummary ? null : item.node, role: "treeitem", "aria-level": item.depth + 1,
  }, children);
  return { group, edge: makeEdge(view.layout, item), fill, shown: "" };
}

function makeEdge(layout, item) {
  const parent = layout.byKey.get(`n${item.parent}`);
  if (!parent) return null;
  const [x1, y1, x2, y2] = [parent.x + layout.boxWidth, parent.y + BOX_HEIGHT / 2, item.x, item.y + BOX_HEIGHT / 2];
  const middle = (x1 + x2) / 2;
  return makeSvg("path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
}

// Fills in the numbers of a frame; boxes that have not changed are left alone.
export function updateTree(view, frame, focus) {
  for (const item of view.layout.items) {
    const look = item.isSummary ? describeSummary(view, item, frame) : describeBox(view, item, frame, focus);
    const box = view.boxes.get(item.key);
    const shown = JSON.stringify(look);
    if (box.shown === shown) continue;
    box.shown = shown;
    box.fill(look.content);
    setAttribute(box.group, "aria-label", look.content.title);
    setAttribute(box.group, "aria-selected", item.node === focus.selected);
    setAttribute(box.group, "class", joinNames(look.kind));
    if (!box.edge) continue;
    setAttribute(box.edge, "class", joinNames(look.edge));
    setAttribute(box.edge, "stroke-width", (0.8 + 5 * Math.sqrt(look.share)).toFixed(2));
  }
  const selected = view.layout.byKey.get(`n${focus.selected}`);
  setAttribute(view.svg, "aria-activedescendant", selected ? `dv-${view.number}-${selected.key}` : "");
}

const joinNames = (names) => names.filter(Boolean).join(" ");

function describeSummary(view, item, frame) {
  const { recording, visits } = view.replay;
  const row = visits[view.tree];
  const count = item.below.filter((node) => recording.nodes[node].step < frame.position && row[node] > 0).length;
  const sum = formatCount(item.hidden.reduce((total, node) => total + row[node], 0));
  const isOnPath = frame.path.some((node) => item.below.includes(node));
  const kind = [!count && !isOnPath && "dv-hidden", isOnPath && "dv-on-path"];
  const title = `${count} more nodes below ${moveLine(recording, item.parent)}, with ${sum} visits. Click to open.`;
  const content = { text: `+${count} more, N ${sum}`, title };
  return { content, kind: ["dv-node", "dv-more", ...kind], edge: ["dv-edge", ...kind], share: 0 };
}

function describeBox(view, item, frame, focus) {
  const { replay, tree } = view;
  const { recording } = replay;
  const node = recording.nodes[item.node];
  const isHidden = node.step >= frame.position && item.node !== frame.created && "dv-hidden";
  const visits = replay.visits[tree][item.node];
  const isAbsent = !(visits > 0) && "dv-absent";
  const marks = frame.marks.get(item.node) ?? [];
  const reason = frame.edges.get(item.node);
  const content = {
    visits: visits > 0 ? visits : null, value: edgeValue(replay, tree, item.node),
    exact: (node.exact ?? null) === null ? null : viewOfMover(recording, node, node.exact),
    mark: (reason === "explore" ? "ε" : "") + marks.map((mark) => MARK_SYMBOLS[mark]).join(""),
  };
  content.title = describeNode(recording, node, content, marks);
  return {
    content, share: Math.min(1, visits / Math.max(1, replay.visits[tree][0])),
    kind: ["dv-node", isHidden, isAbsent, node.is_terminal && "dv-terminal", frame.path.includes(item.node) && "dv-on-path",
      frame.active === item.node && "dv-active", focus.selected === item.node && "dv-selected",
      focus.hovered === item.node && "dv-hovered", ...marks.map((mark) => `dv-${mark}`)],
    edge: ["dv-edge", isHidden, isAbsent, reason !== undefined && `dv-on-path dv-${reason}`],
  };
}

function describeNode(recording, node, { visits, value, exact }, marks) {
  const numbers = visits === null ? "not in this tree" : `${formatCount(visits)} visits, Q ${formatShort(value)}`;
  const result = exact === null ? "" : `, exact value ${formatExact(exact)}`;
  const words = [...(node.is_terminal ? ["end of the game"] : []), ...marks.map((mark) => MARK_WORDS[mark])];
  return [`${moveLine(recording, node.index)}: ${numbers}${result}`, ...words].join("; ");
}

const makeRect = (layout, kind, more) => makeSvg("rect", { class: kind, width: layout.boxWidth, height: BOX_HEIGHT, rx: 4, ...more });

function makeSummary({ layout }) {
  const [title, text] = [makeSvg("title"), makeSvg("text", { x: 8, y: 14, class: "dv-name" })];
  const fill = (content) => {
    setText(title, content.title);
    setText(text, content.text);
  };
  return { children: [title, makeRect(layout, "dv-box dv-summary", { rx: 9 }), text], fill };
}

function makeNode({ layout, replay: { recording } }, item) {
  const node = recording.nodes[item.node];
  const text = (x, kind, field) => makeSvg("text", { x, y: 14, class: kind, "text-anchor": "end", "data-field": field });
  const [visits, value] = [text(layout.visitsEnd, "dv-count", "visits"), text(layout.valueEnd, "dv-count", "q")];
  const [exact, mark] = [text(layout.boxWidth - 4, "dv-exact", "exact"), text(-3, "dv-mark", "mark")];
  const title = makeSvg("title");
  const ring = makeRect(layout, "", { x: -2.5, y: -2.5, width: layout.boxWidth + 5, height: BOX_HEIGHT + 5, rx: 6 });
  const tint = makeRect(layout, "");
  const disc = node.parent < 0 ? "dv-root-disc" : discOf(recording, recording.nodes[node.parent].side);
  const children = [title, ring, makeRect(layout, "dv-box"), tint,
    makeSvg("circle", { cx: 11, cy: BOX_HEIGHT / 2, r: 4.5, class: disc }),
    makeSvg("text", { x: 20, y: 14, class: "dv-name" }, shortName(node)), visits, value, exact, mark];

  function fill(content) {
    setText(title, content.title);
    setText(mark, content.mark);
    fillNumber(visits, content.visits, formatCount);
    fillNumber(value, content.value, formatShort);
    fillNumber(exact, content.exact, (result) => (result === null ? "" : `=${formatExact(result)}`));
    setAttribute(tint, "class", `dv-tint ${content.value < 0 ? "dv-bad" : "dv-good"}`);
    setAttribute(tint, "fill-opacity", (0.4 * Math.min(1, Math.abs(content.value ?? 0))).toFixed(3));
    const result = content.exact === null ? "" : content.exact > 0 ? "dv-win" : content.exact < 0 ? "dv-loss" : "dv-draw";
    setAttribute(ring, "class", `dv-ring ${result}`);
  }
  return { children, fill };
}

function fillNumber(text, value, format) {
  setText(text, format(value));
  setAttribute(text, "data-value", value ?? "");
}

// Returns the class of the disc of a side: the first side is black, but white in chess.
function discOf({ nodes }, side) {
  return (side === 0) === Boolean(nodes[0].picture?.is_chess) ? "dv-white" : "dv-black";
}

// Explains the symbols of the drawing.
export function makeLegend(recording) {
  const disc = (side) => makeSvg("svg", { class: "dv-disc", viewBox: "0 0 12 12", "aria-hidden": "true" },
    makeSvg("circle", { cx: 6, cy: 6, r: 4.5, class: discOf(recording, side) }));
  const entries = [
    ...[0, 1].map((side) => [disc(side), `${playerName(recording, side)} moved`]), ["■", "end of the game"], ["N", "visits"],
    ["±", "Q, the mean result for the side that moved; at the root, the value for the side to move"],
    ...Object.entries(MARK_SYMBOLS).map(([mark, symbol]) => [symbol, MARK_WORDS[mark]]), ["ε", "move drawn at random"],
    ["=", "exact value, with a ring: solid win, dashed loss, dotted draw"],
  ];
  return make("p", { class: "dv-legend" }, entries.map(([symbol, words]) => make("span", {}, make("b", {}, symbol), ` ${words}`)));
}
