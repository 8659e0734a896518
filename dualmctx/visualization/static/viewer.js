// The viewer of a recorded search: one step at a time, forward and back.

import { listenToKeys, make, makeButton } from "/shared/dom.js";
import { makeControls } from "./controls.js";
import { makeHelp } from "./help.js";
import { makeNodeDetails } from "./node_panel.js";
import { describeFrame, endOfStep, makeFrame, movePhase } from "./phases.js";
import { costAt, makeReplay, positionAtCost, seekReplay } from "./replay.js";
import { describeResult, makeCostMeter, makeStandings, otherName } from "./standings.js";
import { makeSentence, showBackup, showEvaluation, showFrontier, showMixing, showSelection, showUpdate } from "./step_panels.js";
import { fitPanels, makeTreePanels, revealNode, titleOfTree, updatePanels } from "./tree_panels.js";
import { makeLegend } from "./tree_view.js";

// Shows a recording inside `root`. Returns {destroy}, which removes it and its listeners. Throws an error
// that says why an object is not a recording that can be shown.
export function startViewer(root, recording) {
  if (recording?.format !== "dualmctx-recording") throw new Error("This is not a recording of dualmctx.");
  if (recording.version !== 1) throw new Error(`The recording has version ${recording.version}; this viewer reads version 1.`);
  try {
    return showRecording(root, recording);
  } catch (error) {
    root.replaceChildren();
    throw new Error(`The recording is damaged: ${error.message}.`, { cause: error });
  }
}

function showRecording(root, recording) {
  const viewer = { root, recording, replay: makeReplay(recording), cursor: { step: -1, phase: 0 }, selected: 0, isPinned: false };
  viewer.other = recording.comparison ? makeReplay(recording.comparison) : null;
  buildPage(viewer);
  showCursor(viewer, viewer.cursor);
  const endKeys = listenToViewer(viewer);
  const observer = new ResizeObserver(() => fitOnce(viewer));
  observer.observe(viewer.trees);
  return { destroy: () => { viewer.controls.stop(); observer.disconnect(); endKeys(); root.replaceChildren(); } };
}

function buildPage(viewer) {
  const { recording } = viewer;
  const select = (index) => selectNode(viewer, index, true);
  const on = { select, change: () => drawTrees(viewer), selected: () => viewer.selected };
  viewer.group = makeTreePanels(viewer.replay, recording.trees.map((_, tree) => titleOfTree(recording, tree)), true, on);
  viewer.otherGroup = viewer.other && makeTreePanels(viewer.other, [`${otherName(viewer.other)} at the same cost`], false,
    { select: () => {}, change: () => drawTrees(viewer), selected: () => 0 });
  viewer.controls = makeControls(recording.steps.length, { phase: (direction) => stepPhase(viewer, direction),
    step: (direction) => stepWhole(viewer, direction), seek: (step) => showCursor(viewer, endOfStep(recording, step)) });
  viewer.now = make("section", { class: "dv-panel dv-step", "aria-label": "this step" });
  viewer.details = make("section", { class: "dv-panel dv-details", "aria-label": "selected node" });
  viewer.standings = make("section", { class: "dv-panel dv-standings", "aria-label": "cost and moves" });
  viewer.trees = make("div", { class: "dv-trees" }, ...viewer.group.panels, ...(viewer.otherGroup?.panels ?? []));
  const compare = viewer.other && make("label", { class: "dv-compare" },
    make("input", { type: "checkbox", onchange: (event) => toggleOther(viewer, event.target.checked) }), ` ${otherName(viewer.other)} at the same cost`);
  viewer.root.replaceChildren(make("div", { class: "dv" },
    make("div", { class: "dv-head" }, make("h2", {}, describeRecording(recording)), makeHelp(recording.trees.length > 1), compare),
    viewer.controls.element, viewer.trees, makeLegend(recording), make("div", { class: "dv-panels" }, viewer.now, viewer.details, viewer.standings)));
  toggleOther(viewer, false);
}

function describeRecording(recording) {
  const moves = recording.moves?.length ? ` after ${recording.moves.length} ${recording.moves.length === 1 ? "move" : "moves"}` : "";
  const simulations = [recording.simulations].flat().join(" + ");
  return `${recording.game}${moves}: ${recording.variant} with ${simulations} simulations${recording.network ? `, network ${recording.network}` : ""}`;
}

function toggleOther(viewer, isShown) {
  for (const panel of viewer.otherGroup?.panels ?? []) panel.hidden = !isShown;
  viewer.trees.dataset.panels = viewer.group.panels.length + (isShown ? 1 : 0);
  if (isShown) fitPanels(viewer.otherGroup);
  if (viewer.isFitted) fitPanels(viewer.group);
}

// The first time that the panels have a size, the trees are fitted into them.
function fitOnce(viewer) {
  if (viewer.isFitted || !viewer.trees.clientWidth) return;
  viewer.isFitted = true;
  fitPanels(viewer.group);
}

function stepPhase(viewer, direction) {
  const next = movePhase(viewer.recording, viewer.cursor, direction);
  if (next) showCursor(viewer, next);
  return next !== null;
}

function stepWhole(viewer, direction) {
  const { step } = viewer.cursor;
  const next = step + direction;
  if (next < -1 || next >= viewer.recording.steps.length) return false;
  showCursor(viewer, endOfStep(viewer.recording, next));
  return true;
}

function showCursor(viewer, cursor) {
  viewer.cursor = cursor;
  viewer.frame = makeFrame(viewer.recording, cursor);
  seekReplay(viewer.replay, viewer.frame.position);
  if (viewer.other) seekReplay(viewer.other, positionAtCost(viewer.other.recording, costAt(viewer.recording, viewer.frame.position)));
  if (!viewer.isPinned || !existsAt(viewer, viewer.selected)) viewer.selected = existsAt(viewer, viewer.frame.active) ? viewer.frame.active : 0;
  viewer.controls.show(cursor.step, describeFrame(viewer.recording, viewer.frame));
  drawTrees(viewer);
  if (viewer.isFitted) revealNode(viewer.group, viewer.frame.active);
  showPanels(viewer);
}

function existsAt(viewer, index) {
  return viewer.recording.nodes[index].step < viewer.frame.position || index === viewer.frame.created;
}

function drawTrees(viewer) {
  if (!viewer.frame) return;
  updatePanels(viewer.group, viewer.frame, viewer.selected);
  if (!viewer.otherGroup) return;
  const { position } = viewer.other;
  const cursor = endOfStep(viewer.other.recording, position - 1);
  updatePanels(viewer.otherGroup, makeFrame(viewer.other.recording, cursor), 0);
}

function selectNode(viewer, index, isPinned) {
  viewer.selected = index;
  viewer.isPinned = isPinned;
  drawTrees(viewer);
  showDetails(viewer);
}

function showPanels(viewer) {
  const { recording, replay, frame: { step, phase } } = viewer;
  const select = (index) => { selectNode(viewer, index, true); revealNode(viewer.group, index); };
  viewer.now.replaceChildren(make("h3", {}, "This step"), ...CONTENTS[phase.kind](recording, step, { phase, select }));
  viewer.standings.replaceChildren(make("h3", {}, "Cost and moves"), makeCostMeter(recording, replay.position),
    makeStandings(replay, viewer.other), describeResult(recording));
  showDetails(viewer);
}

function showDetails(viewer) {
  const seen = viewer.frame.position + (["evaluate", "mix"].includes(viewer.frame.phase.kind) ? 1 : 0);
  const follow = makeButton("Follow the search again", () => selectNode(viewer, viewer.frame.active, false), { class: "dv-follow" });
  viewer.details.replaceChildren(...makeNodeDetails(viewer.replay, viewer.selected, seen).filter(Boolean), ...(viewer.isPinned ? [follow] : []));
}

const START = "The search has not begun. The root has been evaluated by the network; its prior guides the first simulations. "
  + "Press → for the first micro-step.";
// The content of a phase: functions of the recording, the step, and { phase, select }.
const CONTENTS = { start: () => [makeSentence(START)], select: showSelection, evaluate: showEvaluation, backup: showBackup,
  choose: showFrontier, mix: showMixing, update: showUpdate };

// Elements that use the keys themselves.
const KEY_USERS = "select, textarea, summary, [role=tab], input:not([type=file], [type=checkbox])";

// Keys act while the viewer is visible, unless the element with the focus uses them. Returns a function that ends it.
function listenToViewer(viewer) {
  const { root, recording, controls } = viewer;
  const seek = (step) => showCursor(viewer, endOfStep(recording, step));
  const steps = { ArrowLeft: () => stepPhase(viewer, -1), ArrowRight: () => stepPhase(viewer, 1), PageUp: () => stepWhole(viewer, -1),
    PageDown: () => stepWhole(viewer, 1), Home: () => seek(-1), End: () => seek(recording.steps.length - 1) };
  const keys = { p: controls.togglePlay };
  for (const [key, act] of Object.entries(steps)) keys[key] = () => { controls.stop(); act(); };
  return listenToKeys(keys, ({ key, target }) => {
    const isOwnSlider = target === controls.slider && key === "p";
    return !root.getClientRects().length || (target.matches(KEY_USERS) && !isOwnSlider);
  });
}
