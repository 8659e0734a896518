// The panels with the trees of a recording side by side, and their buttons and keys.

import { make, makeIcon, setOptions } from "/shared/dom.js";
import { capitalize } from "/shared/text.js";
import { fitCamera, listenToPointers, makeCamera, moveCamera, pressCameraKey, revealBox, zoomCamera } from "./camera.js";
import { chooseNodes, itemOfNode, makeLayout } from "./layout.js";
import { headName, treeName } from "./replay.js";
import { makeTreeView, setLayout, sizeOfView, updateTree } from "./tree_view.js";

const LIMITS = [30, 60, 150, 400, 1000, 5000];
const FIRST_LIMIT = 60;

// Makes the panels of all trees of a replay, which share a camera and a layout. `on` has `select(index)`,
// `selected()`, the selected node, and `change()`, called when the drawing must be filled in again.
export function makeTreePanels(replay, titles, isMain, on) {
  const group = { replay, isMain, camera: makeCamera(), opened: new Set(), limit: FIRST_LIMIT, hovered: -1, on, layout: null };
  const listeners = {
    select: on.select,
    hover: (index) => { if (group.hovered !== index) { group.hovered = index; on.change(); } },
    open: (parent) => openNode(group, parent),
    key: (event, view) => pressTreeKey(group, event, view),
  };
  group.views = titles.map((title, tree) => makeTreeView(replay, tree, title, group.camera, listeners));
  group.panels = group.views.map((view, tree) => makePanel(group, view, titles[tree]));
  arrangeNodes(group);
  return group;
}

export function titleOfTree(recording, tree) {
  return `${capitalize(treeName(recording, tree))} (${headName(recording, recording.tree_heads[tree])} head)`;
}

function makePanel(group, view, title) {
  listenToPointers(view.svg, group.camera);
  const zoom = (factor) => { const size = sizeOfView(view); zoomCamera(group.camera, factor, size.width / 2, size.height / 2); };
  const fit = () => fitCamera(group.camera, group.layout, sizeOfView(view), false);
  const tools = make("div", { class: "dv-tools" }, makeIcon("+", "zoom in", () => zoom(1.25)), makeIcon("−", "zoom out", () => zoom(0.8)),
    makeIcon("Fit", "fit the whole tree", fit), view.tree === 0 && makeLimit(group));
  return make("section", { class: "dv-tree-panel", "aria-label": title },
    make("div", { class: "dv-panel-head" }, make("h3", {}, title), tools), view.svg);
}

function makeLimit(group) {
  const size = group.replay.recording.nodes.length;
  const limits = LIMITS.filter((limit) => limit < size);
  const select = make("select", { class: "dv-limit", "aria-label": "nodes drawn, the most visited ones",
    title: "Nodes drawn: the most visited ones; the others are summarised",
    onchange: () => { group.limit = Number(select.value); group.opened.clear(); arrangeNodes(group); fitPanels(group); group.on.change(); } });
  setOptions(select, [...limits.map((limit) => [limit, `${limit} nodes`]), [Infinity, `all ${size} nodes`]],
    group.limit < size ? group.limit : Infinity);
  return select;
}

// Chooses and places the nodes again, in all panels.
function arrangeNodes(group) {
  group.layout = makeLayout(group.replay, chooseNodes(group.replay, group.limit, group.opened));
  for (const view of group.views) {
    setLayout(view, group.layout);
    // As high as the tree, within the limits of the style sheet.
    view.svg.style.setProperty("--dv-height", `${Math.ceil(1.25 * group.layout.height) + 60}px`);
  }
}

export function fitPanels(group) {
  fitCamera(group.camera, group.layout, sizeOfView(group.views[0]), true);
}

const itemOf = ({ replay, layout }, index) => itemOfNode(replay, layout, index);

// Opens a summary; its parent stays where it is on the screen.
function openNode(group, parent) {
  const { camera } = group;
  const before = itemOf(group, parent).y;
  group.opened.delete(parent);
  group.opened.add(parent);
  arrangeNodes(group);
  moveCamera(camera, camera.x, camera.y + (before - itemOf(group, parent).y) * camera.scale);
  group.on.select(parent);
}

export function updatePanels(group, frame, selected) {
  for (const view of group.views) {
    updateTree(view, frame, { selected, hovered: group.hovered });
    group.panels[view.tree].classList.toggle("dv-at-work", group.isMain && frame.tree === view.tree);
  }
}

// Pans so that a node is visible in the first panel (all panels are equally large).
export function revealNode(group, index) {
  const item = itemOf(group, index);
  if (item) revealBox(group.camera, item, group.layout, sizeOfView(group.views[0]));
}

function pressTreeKey(group, event, view) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const size = sizeOfView(view);
  if (event.key === "0") fitCamera(group.camera, group.layout, size, false);
  else if (!pressCameraKey(group.camera, event, size) && !chooseByKey(group, event.key)) return;
  event.preventDefault();
  event.stopPropagation();
}

// The arrow keys go to the parent, the first child and the siblings of the selected node; Enter opens its summary.
function chooseByKey(group, key) {
  const { layout, replay, on } = group;
  const current = on.selected();
  const item = itemOf(group, current);
  const nodes = layout.items.filter((other) => !other.isSummary && replay.recording.nodes[other.node].step < replay.position)
    .sort((a, b) => a.y - b.y);
  const near = nodes.filter((other) => other.depth === item.depth);
  const targets = { ArrowLeft: layout.byKey.get(`n${item.parent}`), ArrowRight: nodes.find((other) => other.parent === current),
    ArrowUp: near[near.indexOf(item) - 1], ArrowDown: near[near.indexOf(item) + 1] };
  const target = targets[key];
  if (key === "Enter" && layout.byKey.has(`s${current}`)) openNode(group, current);
  if (target) { on.select(target.node); revealNode(group, target.node); }
  return key === "Enter" || Object.hasOwn(targets, key);
}
