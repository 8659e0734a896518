// Draws one tree as SVG. All trees of a recording have the same layout; each shows its own numbers.

import { make, makeSvg, setAttribute, setText } from "/shared/dom.js";
import { BOX_HEIGHT, shortName } from "./layout.js";
import { edgeValue, moveLine, playerName, viewOfMover } from "./replay.js";
import { formatCount, formatExact, formatShort } from "./tables.js";

const MARK_SYMBOLS = { new: "✚", taken: "◆", outside: "⊘" };
export const MARK_WORDS = { new: "new node", taken: "taken over by the later tree", outside: "outside the window" };
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
  svg.addEventListener("click", (event) => clickItem(itemAt(event), on));
  svg.addEventListener("pointerover", (event) => on.hover(itemAt(event)?.node ?? -1));
  svg.addEventListener("pointerleave", () => on.hover(-1));
  svg.addEventListener("keydown", (event) => on.key(event, view));
  return view;
}

function clickItem(item, on) {
  if (!item) return;
  if (item.isSummary) on.open(item.parent);
  else on.select(item.node);
}

export function sizeOfView(view) {
  return { width: view.svg.clientWidth || 600, height: view.svg.clientHeight || 400 };
}

// Draws the boxes and edges of a new layout; `updateTree` fills in the numbers.
export function setLayout(view, layout) {
  view.layout = layout;
  view.boxes.clear();
  const [edges, boxes] = [makeSvg("g", {}), makeSvg("g", {})];
  for (const item of layout.items) {
    const box = item.isSummary ? makeSummaryBox(view, item) : makeNodeBox(view, item);
    box.edge = makeEdge(layout, item);
    view.boxes.set(item.key, box);
    boxes.append(box.group);
    if (box.edge) edges.append(box.edge);
  }
  view.world.replaceChildren(edges, boxes);
  view.place();
}

function makeEdge(layout, item) {
  const parent = layout.byKey.get(`n${item.parent}`);
  if (!parent) return null;
  const [x1, y1, x2, y2] = [parent.x + layout.boxWidth, parent.y + BOX_HEIGHT / 2, item.x, item.y + BOX_HEIGHT / 2];
  const middle = (x1 + x2) / 2;
  return makeSvg("path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, class: "dv-edge" });
}

function makeNodeBox(view, item) {
  const { layout, replay } = view;
  const node = replay.recording.nodes[item.node];
  const text = (x, kind, field, anchor = "end") => makeSvg("text", { x, y: 14, class: kind, "data-field": field, "text-anchor": anchor });
  const box = {
    shown: "", title: makeSvg("title"), exactRing: makeRing(layout),
    tint: makeSvg("rect", { class: "dv-tint", width: layout.boxWidth, height: BOX_HEIGHT, rx: 4 }),
    visits: text(layout.visitsEnd, "dv-count", "visits"), value: text(layout.valueEnd, "dv-count", "q"),
    exact: text(layout.boxWidth - 4, "dv-exact", "exact"), mark: text(-3, "dv-mark", "mark"),
  };
  const mover = replay.recording.nodes[node.parent]?.side ?? node.side;
  const disc = makeSvg("circle", { cx: 11, cy: BOX_HEIGHT / 2, r: 4.5, class: node.parent < 0 ? "dv-root-disc" : discOf(replay.recording, mover) });
  const name = makeSvg("text", { x: 20, y: 14, class: "dv-name" }, shortName(node));
  box.group = makeGroup(view, item, box.title, box.exactRing,
    makeSvg("rect", { class: "dv-box", width: layout.boxWidth, height: BOX_HEIGHT, rx: 4 }),
    box.tint, disc, name, box.visits, box.value, box.exact, box.mark);
  box.group.dataset.node = item.node;
  return box;
}

function makeRing(layout) {
  return makeSvg("rect", { class: "dv-ring", x: -2.5, y: -2.5, width: layout.boxWidth + 5, height: BOX_HEIGHT + 5, rx: 6 });
}

function makeSummaryBox(view, item) {
  const box = { shown: "", title: makeSvg("title"), text: makeSvg("text", { x: 8, y: 14, class: "dv-name" }) };
  box.group = makeGroup(view, item, box.title,
    makeSvg("rect", { class: "dv-box dv-summary", width: view.layout.boxWidth, height: BOX_HEIGHT, rx: 9 }), box.text);
  return box;
}

function makeGroup(view, item, ...children) {
  return makeSvg("g", { id: `dv-${view.number}-${item.key}`, transform: `translate(${item.x} ${item.y})`, "data-key": item.key,
    role: "treeitem", "aria-level": item.depth + 1 }, ...children);
}

// Fills in the numbers of a frame; boxes that have not changed are left alone.
export function updateTree(view, frame, focus) {
  for (const item of view.layout.items) {
    const look = item.isSummary ? describeSummary(view, item, frame) : describeBox(view, item, frame, focus);
    const box = view.boxes.get(item.key);
    const shown = JSON.stringify(look);
    if (box.shown === shown) continue;
    box.shown = shown;
    if (item.isSummary) setText(box.text, look.text);
    else fillBox(box, look);
    setText(box.title, look.title);
    setAttribute(box.group, "aria-label", look.title);
    setAttribute(box.group, "aria-selected", Boolean(look.isSelected));
    setAttribute(box.group, "class", look.kind);
    if (box.edge) setEdge(box.edge, look);
  }
  const selected = view.layout.byKey.get(`n${focus.selected}`);
  setAttribute(view.svg, "aria-activedescendant", selected ? `dv-${view.number}-${selected.key}` : "");
}

function setEdge(edge, look) {
  setAttribute(edge, "class", look.edge);
  setAttribute(edge, "stroke-width", (0.8 + 5 * Math.sqrt(look.share)).toFixed(2));
}

function describeSummary(view, item, frame) {
  const { recording, visits } = view.replay;
  const row = visits[view.tree];
  const count = item.below.filter((node) => recording.nodes[node].step < frame.position && row[node] > 0).length;
  const sum = item.hidden.reduce((total, node) => total + row[node], 0);
  const isOnPath = frame.path.some((node) => item.below.includes(node));
  const kind = `dv-node dv-more${count ? "" : isOnPath ? "" : " dv-hidden"}${isOnPath ? " dv-on-path" : ""}`;
  const text = `+${count} more, N ${formatCount(sum)}`;
  const title = `${count} more nodes below ${moveLine(recording, item.parent)}, with ${formatCount(sum)} visits. Click to open.`;
  return { text, title, kind, edge: `dv-edge${count || isOnPath ? "" : " dv-hidden"}${isOnPath ? " dv-on-path" : ""}`, share: 0 };
}

function describeBox(view, item, frame, focus) {
  const { replay, tree } = view;
  const node = replay.recording.nodes[item.node];
  const exists = node.step < frame.position || item.node === frame.created;
  const visits = replay.visits[tree][item.node];
  const marks = frame.marks.get(item.node) ?? [];
  const reason = frame.edges.get(item.node);
  const kinds = ["dv-node", exists ? "" : "dv-hidden", visits > 0 ? "" : "dv-absent", node.is_terminal ? "dv-terminal" : "",
    frame.path.includes(item.node) ? "dv-on-path" : "", frame.active === item.node ? "dv-active" : "",
    focus.selected === item.node ? "dv-selected" : "", focus.hovered === item.node ? "dv-hovered" : "", ...marks.map((mark) => `dv-${mark}`)];
  const onEdge = reason !== undefined ? ` dv-on-path dv-${reason}` : "";
  const exact = isExactShown(node) ? viewOfMover(replay.recording, node, node.exact) : null;
  const look = { visits: visits > 0 ? visits : null, value: edgeValue(replay, tree, item.node), exact,
    mark: (reason === "explore" ? "ε" : "") + marks.map((mark) => MARK_SYMBOLS[mark]).join(""), isSelected: focus.selected === item.node,
    kind: kinds.filter(Boolean).join(" "), edge: `dv-edge${exists ? "" : " dv-hidden"}${visits > 0 ? "" : " dv-absent"}${onEdge}`,
    share: Math.min(1, visits / Math.max(1, replay.visits[tree][0])) };
  return { ...look, title: describeNode(replay.recording, item.node, look, marks) };
}

function isExactShown(node) {
  return node.exact !== null && node.exact !== undefined;
}

function describeNode(recording, index, look, marks) {
  const node = recording.nodes[index];
  const exact = look.exact === null ? "" : `, exact value ${formatExact(look.exact)}`;
  const numbers = look.visits === null ? "not in this tree" : `${formatCount(look.visits)} visits, Q ${formatShort(look.value)}`;
  const words = [node.is_terminal ? "end of the game" : "", ...marks.map((mark) => MARK_WORDS[mark])].filter(Boolean);
  return [`${moveLine(recording, index)}: ${numbers}${exact}`, ...words].join("; ");
}

function fillBox(box, look) {
  fillNumber(box.visits, look.visits, formatCount);
  fillNumber(box.value, look.value, formatShort);
  fillNumber(box.exact, look.exact, (value) => (value === null ? "" : `=${formatExact(value)}`));
  setText(box.mark, look.mark);
  const tint = look.value === null ? 0 : Math.min(1, Math.abs(look.value));
  setAttribute(box.tint, "class", `dv-tint ${look.value < 0 ? "dv-bad" : "dv-good"}`);
  setAttribute(box.tint, "fill-opacity", (0.4 * tint).toFixed(3));
  const ring = look.exact === null ? "" : look.exact > 0 ? " dv-win" : look.exact < 0 ? " dv-loss" : " dv-draw";
  setAttribute(box.exactRing, "class", `dv-ring${ring}`);
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
  const entries = [...[0, 1].map((side) => [disc(side), `${playerName(recording, side)} moved`]), ["■", "end of the game"], ["N", "visits"], ["±", "Q, the mean result for the side that moved; at the root, the value for the side to move"],
    ["✚", MARK_WORDS.new], ["◆", MARK_WORDS.taken], ["⊘", MARK_WORDS.outside], ["ε", "move drawn at random"],
    ["=", "exact value, with a ring: solid win, dashed loss, dotted draw"]];
  return make("p", { class: "dv-legend" }, ...entries.map(([symbol, words]) =>
    make("span", {}, make("b", {}, symbol), ` ${words}`)));
}
