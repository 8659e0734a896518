// The viewer of a recorded search: one step at a time, forward and back.

import { makeControls, showControls, stopPlaying, togglePlay } from "./controls.js";
import { makeElement } from "./elements.js";
import { makeHelp } from "./help.js";
import { makeNodeDetails } from "./node_panel.js";
import { describeCursor, endOfStep, makeFrame, movePhase } from "./phases.js";
import { makeFrontierTable, makeMixingTables, describeFrontier, describeMixing, describeUpdate } from "./refinement_panel.js";
import { checkRecording, costAt, makeReplay, positionAtCost, seekReplay } from "./replay.js";
import { describeBackup, describeEvaluation, describeSelection, makeChangeTable, makeEvaluationTable, makeSelectionTable } from "./simulation_panel.js";
import { describeResult, makeCostMeter, makeDisagreements, makeStandings, otherName } from "./standings.js";
import { fitPanels, makeTreePanels, revealNode, titleOfTree, updatePanels } from "./tree_panels.js";
import { makeLegend } from "./tree_view.js";

// Shows a recording inside `root`. Returns {destroy}, which removes it and its listeners. Throws an error
// that says why an object is not a recording that can be shown.
export function startViewer(root, recording) {
  checkRecording(recording);
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
  const listener = (event) => pressKey(viewer, event);
  document.addEventListener("keydown", listener);
  const observer = new ResizeObserver(() => fitOnce(viewer));
  observer.observe(viewer.trees);
  return { destroy: () => { stopPlaying(viewer.controls); observer.disconnect(); document.removeEventListener("keydown", listener); root.replaceChildren(); } };
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
  viewer.now = makeElement("section", { class: "dv-panel dv-step", "aria-label": "this step" });
  viewer.details = makeElement("section", { class: "dv-panel dv-details", "aria-label": "selected node" });
  viewer.standings = makeElement("section", { class: "dv-panel dv-standings", "aria-label": "cost and moves" });
  viewer.trees = makeElement("div", { class: "dv-trees" }, ...viewer.group.panels, ...(viewer.otherGroup?.panels ?? []));
  const compare = viewer.other && makeElement("label", { class: "dv-compare" },
    makeElement("input", { type: "checkbox", onchange: (event) => toggleOther(viewer, event.target.checked) }), ` ${otherName(viewer.other)} at the same cost`);
  viewer.root.replaceChildren(makeElement("div", { class: "dv" },
    makeElement("div", { class: "dv-head" }, makeElement("h2", {}, describeRecording(recording)), makeHelp(recording.trees.length > 1), compare),
    viewer.controls.element, viewer.trees, makeLegend(recording), makeElement("div", { class: "dv-panels" }, viewer.now, viewer.details, viewer.standings)));
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
  showControls(viewer.controls, cursor.step, viewer.recording.steps.length, describeCursor(viewer.recording, cursor));
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
  const { recording, replay } = viewer;
  const select = (index) => { selectNode(viewer, index, true); revealNode(viewer.group, index); };
  viewer.now.replaceChildren(makeElement("h3", {}, "This step"), ...makeStepContent(viewer, select).filter(Boolean));
  viewer.standings.replaceChildren(makeElement("div", {}, makeElement("h3", {}, "Cost and moves"), makeCostMeter(recording, replay.position),
    makeStandings(replay, viewer.other), describeResult(recording)),
  ...(recording.trees.length > 1 ? [makeElement("div", {}, makeElement("h3", {}, "The two heads"), makeDisagreements(replay, select))] : []));
  showDetails(viewer);
}

function showDetails(viewer) {
  const seen = viewer.frame.position + (["evaluate", "mix"].includes(viewer.frame.phase.kind) ? 1 : 0);
  const follow = makeElement("button", { type: "button", class: "dv-follow", onclick: () => selectNode(viewer, viewer.frame.active, false) }, "Follow the search again");
  viewer.details.replaceChildren(...makeNodeDetails(viewer.replay, viewer.selected, seen).filter(Boolean), ...(viewer.isPinned ? [follow] : []));
}

// The sentence and the tables of the phase.
function makeStepContent(viewer, select) {
  const { recording, frame: { step, phase } } = viewer;
  const text = (words) => makeElement("p", { class: "dv-sentence" }, words);
  const contents = {
    start: () => [text("The search has not begun. The root has been evaluated by the network; its prior guides the first simulations. Press → for the first micro-step.")],
    select: () => [text(describeSelection(recording, step, phase.level)), makeSelectionTable(recording, step.path[phase.level])],
    evaluate: () => [text(describeEvaluation(recording, step)), makeEvaluationTable(recording, step)],
    backup: () => [text(describeBackup(recording, step)), makeChangeTable(recording, step, select)],
    choose: () => [text(describeFrontier(recording, step)), makeFrontierTable(recording, step, select)],
    mix: () => [text(describeMixing(recording, step)), makeMixingTables(recording, step, select)],
    update: () => [text(describeUpdate(recording, step)), makeChangeTable(recording, step, select)],
  };
  return contents[phase.kind]();
}

// Elements that use the keys themselves.
const KEY_USERS = "select, textarea, summary, [role=tab], input:not([type=file], [type=checkbox])";

// Keys act while the viewer is visible, unless the element with the focus uses them.
function pressKey(viewer, event) {
  const isShown = viewer.root.getClientRects().length > 0;
  if (!isShown || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  const isOwnSlider = event.target === viewer.controls.slider && event.key === "p";
  if (event.target.matches(KEY_USERS) && !isOwnSlider) return;
  const last = viewer.recording.steps.length - 1;
  const act = { ArrowLeft: () => stepPhase(viewer, -1), ArrowRight: () => stepPhase(viewer, 1), PageUp: () => stepWhole(viewer, -1),
    PageDown: () => stepWhole(viewer, 1), Home: () => showCursor(viewer, endOfStep(viewer.recording, -1)),
    End: () => showCursor(viewer, endOfStep(viewer.recording, last)), p: () => togglePlay(viewer.controls) }[event.key];
  if (!act) return;
  if (event.key !== "p") stopPlaying(viewer.controls);
  event.preventDefault();
  act();
}
